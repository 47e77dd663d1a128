package scheme

import (
	"crypto/hmac"
	"hash"
	"sync"
)

// macs are reusable MACs with one key: creating one costs two rounds of the hash and ten
// allocations, resetting one costs neither. As with the secret itself, the key stays in memory
// while the source's revision does.
type macs struct{ spare sync.Pool } // of *mac

// mac is one of macs.
type mac struct {
	hash.Hash
	text []byte // a string, copied to bytes on its way to the hash
	sum  []byte
}

func newMACs(algorithm func() hash.Hash, key []byte) *macs {
	return &macs{sync.Pool{New: func() any { return &mac{Hash: hmac.New(algorithm, key)} }}}
}

// matches says whether the written bytes have one of these MACs.
func (m *macs) matches(candidates [][]byte, write func(*mac)) (found bool) {
	one := m.spare.Get().(*mac)
	defer m.spare.Put(one)
	one.Reset()
	write(one)
	one.sum = one.Sum(one.sum[:0])
	for _, c := range candidates {
		found = hmac.Equal(one.sum, c) || found
	}
	return found
}

// of returns the MAC of a text.
func (m *macs) of(text string) []byte {
	one := m.spare.Get().(*mac)
	defer m.spare.Put(one)
	one.Reset()
	_, _ = one.WriteString(text)
	return one.Sum(nil)
}

// WriteString writes without the copy that io.WriteString would make.
func (m *mac) WriteString(s string) (int, error) {
	m.text = append(m.text[:0], s...)
	return m.Write(m.text)
}
