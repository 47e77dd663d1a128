// Package chain links the lines of a file by hashes, so that a change of the file is found.
//
// A line is a JSON object whose last members are prev, the hash of the line before, and hash. The
// hash is SHA-256 over the line's bytes before `,"hash":`, so it covers prev and through it all
// lines before. It can be computed without this package.
//
// A chain proves that lines belong together in their order. It has no secret, so any program can
// compute another one: that a chain is the original is proved only by its head, the hash of its
// last line, noted elsewhere.
package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Hash is that of a line; the zero Hash is what the first line of a chain follows.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Parse reads a hash as String writes it: 64 lower-case hexadecimal digits.
func Parse(text string) (h Hash, err error) {
	if !h.read([]byte(text)) {
		return h, fmt.Errorf("%q is not a hash: it has 64 digits of 0-9a-f", text)
	}
	return h, nil
}

func (h *Hash) read(text []byte) bool {
	n, err := hex.Decode(h[:], text[:min(len(text), 2*len(h))])
	return err == nil && n == len(h) && h.String() == string(text)
}

const (
	prevMember = `,"prev":"`
	hashMember = `","hash":"`
	ending     = "\"}\n"
	hashStart  = len(ending) + 2*sha256.Size // before a line's end
	hashName   = hashStart + len(hashMember)
	prevStart  = hashName + 2*sha256.Size
	trailer    = prevStart + len(prevMember) // bytes that Link adds
)

// Link appends to out the line of an object, which is JSON with at least one member, and returns
// the line's hash.
func Link(out, object []byte, prev Hash) ([]byte, Hash) {
	start := len(out)
	out = append(append(out, object[:len(object)-1]...), prevMember...)
	out = hex.AppendEncode(out, prev[:])
	sum := Hash(sha256.Sum256(append(out, '"')[start:]))
	out = hex.AppendEncode(append(out, hashMember...), sum[:])
	return append(out, ending...), sum
}

// line is a line of a file, taken apart.
type line struct {
	prev, stated Hash
	computed     Hash
	number       int64
}

// split takes a line with its end apart; false: Link has written no such line.
func split(text []byte) (l line, ok bool) {
	n := len(text)
	if n < trailer || string(text[n-len(ending):]) != ending || string(text[n-hashName:n-hashStart]) != hashMember ||
		string(text[n-trailer:n-prevStart]) != prevMember || text[0] != '{' || bytes.IndexByte(text, '\n') != n-1 ||
		!l.stated.read(text[n-hashStart:n-len(ending)]) || !l.prev.read(text[n-prevStart:n-hashName]) {
		return l, false
	}
	l.computed = sha256.Sum256(text[:n-hashName+1])
	var first struct {
		Number int64 `json:"number"`
	}
	if json.Unmarshal(text, &first) != nil {
		return l, false
	}
	l.number = first.Number
	return l, true
}
