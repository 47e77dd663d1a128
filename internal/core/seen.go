package core

// seen remembers which delivery numbers have been in a window, exactly for the most recent ones and by assuming the worst
// for older ones. Hints of concurrent publishers arrive out of order, so a high-water mark would distrust most of them.
type seen struct {
	high int64 // the highest number added
	bits [seenSpan / 64]uint64
}

// seenSpan is how many recent numbers are remembered exactly.
const seenSpan = 1 << 16

func (s *seen) add(n int64) {
	if n > s.high {
		if n-s.high >= seenSpan {
			clear(s.bits[:])
		} else {
			for i := s.high + 1; i < n; i++ {
				s.bits[i%seenSpan/64] &^= 1 << (i % 64)
			}
		}
		s.high = n
	} else if s.high-n >= seenSpan {
		return
	}
	s.bits[n%seenSpan/64] |= 1 << (n % 64)
}

// maybe says whether a number may have been seen; false is certain.
func (s *seen) maybe(n int64) bool {
	if n > s.high {
		return false
	}
	return s.high-n >= seenSpan || s.bits[n%seenSpan/64]&(1<<(n%64)) != 0
}
