package ingress

import (
	"crypto/hmac"
	"hash"
	"sync"
)

// macs are MACs with one key, to be used again: to make one takes two rounds of the hash and ten allocations, to take one back to its
// beginning takes neither. As in the secret itself, the key stays in memory for as long as there is the source's revision.
type macs struct{ spare sync.Pool } // of *mac

// mac is one of them.
type mac struct {
	hash.Hash
	text []byte // what is written as a string, on its way
	sum  []byte
}

func newMACs(algorithm func() hash.Hash, key []byte) *macs {
	return &macs{sync.Pool{New: func() any { return &mac{Hash: hmac.New(algorithm, key)} }}}
}

// matches says whether what is written has one of these MACs.
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
