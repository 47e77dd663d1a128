package issue

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
)

// sketch counts different texts in bounded memory: it has the smallest hashes, rising, at most
// exact of them. With fewer the count is exact. With more, the largest one tells how dense hashes
// are. Adding a text twice changes nothing, and merging is the union.
type sketch []uint64

// add adds a text. The hash is fixed, so each node gives a text the same one; a tenant that
// searches for texts with small hashes falsifies only a count of its own.
func (s *sketch) add(text string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	s.insert(mix(h.Sum64()))
}

// mix spreads the bits of a hash: fnv alone leaves neighbours close.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func (s *sketch) insert(hash uint64) {
	at, there := slices.BinarySearch(*s, hash)
	if there || at == exact {
		return
	}
	*s = slices.Insert(*s, at, hash)
	if len(*s) > exact {
		*s = (*s)[:exact]
	}
}

func (s *sketch) merge(o sketch) {
	for _, hash := range o {
		s.insert(hash)
	}
}

// count returns how many different texts were added, and whether that is an estimate.
func (s sketch) count() (n int, approximate bool) {
	if len(s) < exact {
		return len(s), false
	}
	return int(math.Round(float64(exact-1) / float64(s[exact-1]) * math.MaxUint64)), true
}

// MarshalText writes the hashes as bytes in base 64.
func (s sketch) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, 8*len(s))
	for _, hash := range s {
		raw = binary.BigEndian.AppendUint64(raw, hash)
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText reads what MarshalText has written.
func (s *sketch) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(raw)%8 != 0 || len(raw) > 8*exact {
		return fmt.Errorf("issue: a stored count cannot be read (%d bytes): %w", len(raw), err)
	}
	*s = nil
	for ; len(raw) > 0; raw = raw[8:] {
		s.insert(binary.BigEndian.Uint64(raw))
	}
	return nil
}
