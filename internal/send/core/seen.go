package core

// seen remembers which delivery row ids have been in a window. The most recent span ids are exact;
// older ids count as seen. Hints of concurrent publishers arrive out of order, so a high-water mark
// would reject most of them.
type seen struct {
	span int64 // number of recent row ids remembered exactly
	high int64 // the highest row id added
	bits []uint64
}

func newSeen(span int) seen { return seen{span: int64(span), bits: make([]uint64, (span+63)/64)} }

// bit is the position of a row id's bit.
func (s *seen) bit(n int64) (word *uint64, mask uint64) {
	at := n % s.span
	return &s.bits[at/64], 1 << (at % 64)
}

func (s *seen) add(n int64) {
	if n > s.high {
		if n-s.high >= s.span {
			clear(s.bits)
		} else {
			for i := s.high + 1; i < n; i++ {
				word, mask := s.bit(i)
				*word &^= mask
			}
		}
		s.high = n
	} else if s.high-n >= s.span {
		return
	}
	word, mask := s.bit(n)
	*word |= mask
}

// maybe says whether a row id may have been seen; false is certain.
func (s *seen) maybe(n int64) bool {
	if n > s.high {
		return false
	}
	word, mask := s.bit(n)
	return s.high-n >= s.span || *word&mask != 0
}
