// Package canonical compares JSON bodies by one form, writes that form as text, and finds values in
// them.
//
// Its guarantees:
//
//   - A number stays as it was written, digit by digit: no value goes through a float.
//   - Two documents have one form only if they are equal but for the order of members, spaces and
//     escapes.
//   - A body is JSON only if it is one value in UTF-8, nested no deeper than MaxDepth. Reading it
//     costs time in proportion to its size, whatever it is.
//
// It does not promise that two forms of one number, such as 1 and 1.0, are equal.
package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep the values of a document may be nested.
const MaxDepth = 64

// Equality of two bodies. A JSON document is brought into one form: members sorted by name at every
// level, nothing between tokens, strings decoded, numbers digit by digit as they were written. So
// 9007199254740992 and 9007199254740993 stay two numbers; forms that use floats make them equal.
// Every value is written with its length or end, so no two documents have the same form.
//
// If an object has several members with one name, all are in the form, in their order: readers
// differ in the one they use.

// Document is the result of one pass over a body.
type Document struct {
	JSON bool     // it is one JSON value in UTF-8, nested no deeper than MaxDepth
	Sum  [32]byte // of its form without ignored paths or, if it is not JSON, of its bytes
}

// Sums of the two kinds of bodies never meet.
const (
	formOfJSON  = "grapnel body json\n"
	formOfBytes = "grapnel body bytes\n"
)

// Read looks at a body once.
func (i *Ignored) Read(body []byte) Document {
	f := forms.Get().(*form)
	defer f.release()
	if f.read(body, i) {
		return Document{JSON: true, Sum: sha256.Sum256(f.out)}
	}
	f.out = append(append(f.out[:0], formOfBytes...), body...)
	return Document{Sum: sha256.Sum256(f.out)}
}

// read makes the form of a body; false: it is not JSON.
func (f *form) read(body []byte, i *Ignored) bool {
	f.in, f.at, f.ignored = body, 0, i
	f.out, f.members = append(f.out[:0], formOfJSON...), f.members[:0]
	f.space()
	return utf8.Valid(body) && f.value(0, i.start()) && f.end()
}

// forms are reused: most memory of one is the form of the last body. Large ones are left to the
// garbage collector.
var forms = sync.Pool{New: func() any { return new(form) }}

const largeForm = 256 << 10

func (f *form) release() {
	if cap(f.out) <= largeForm {
		f.in, f.ignored = nil, nil
		forms.Put(f)
	}
}

// form is made while a body is read.
type form struct {
	in      []byte
	at      int
	out     []byte
	scratch []byte
	members []member // of all objects that are being read, the innermost last
	ignored *Ignored
}

// member is where the name and the form of a member are in out.
type member struct{ name, after, end int }

func (f *form) space() {
	for f.at < len(f.in) {
		switch f.in[f.at] {
		case ' ', '\t', '\n', '\r':
			f.at++
		default:
			return
		}
	}
}

func (f *form) end() bool {
	f.space()
	return f.at == len(f.in)
}

// next consumes c if it is the next character.
func (f *form) next(c byte) bool {
	if f.at < len(f.in) && f.in[f.at] == c {
		f.at++
		return true
	}
	return false
}

// value reads the value that starts here; false: it is not valid.
func (f *form) value(depth int, paths live) bool {
	if f.at == len(f.in) {
		return false
	}
	switch c := f.in[f.at]; c {
	case '{':
		return depth < MaxDepth && f.object(depth, paths)
	case '[':
		return depth < MaxDepth && f.array(depth, paths)
	case '"':
		_, ok := f.text()
		return ok
	case 't':
		return f.word("true")
	case 'f':
		return f.word("false")
	case 'n':
		return f.word("null")
	default:
		return f.number()
	}
}

func (f *form) word(w string) bool {
	if !bytes.HasPrefix(f.in[f.at:], []byte(w)) {
		return false
	}
	f.at += len(w)
	f.out = append(f.out, w[0])
	return true
}

func (f *form) number() bool {
	start := f.at
	f.next('-')
	switch {
	case f.next('0'):
	case !f.digits():
		return false
	}
	if f.next('.') && !f.digits() {
		return false
	}
	if f.next('e') || f.next('E') {
		if !f.next('+') {
			f.next('-')
		}
		if !f.digits() {
			return false
		}
	}
	f.out = append(append(append(f.out, '#'), f.in[start:f.at]...), ';')
	return true
}

func (f *form) digits() bool {
	start := f.at
	for f.at < len(f.in) && f.in[f.at] >= '0' && f.in[f.at] <= '9' {
		f.at++
	}
	return f.at > start
}

func (f *form) array(depth int, paths live) bool {
	f.at++
	f.out = append(f.out, '[')
	f.space()
	if f.next(']') {
		f.out = append(f.out, ']')
		return true
	}
	for n := 0; ; n++ {
		into, left := f.ignored.element(paths, depth, n)
		before := len(f.out)
		f.space()
		if !f.value(depth+1, into) {
			return false
		}
		if left {
			f.out = f.out[:before]
		}
		f.space()
		if f.next(']') {
			f.out = append(f.out, ']')
			return true
		}
		if !f.next(',') {
			return false
		}
	}
}

func (f *form) object(depth int, paths live) bool {
	f.at++
	f.out = append(f.out, '{')
	mine := len(f.members)
	f.space()
	for more := !f.next('}'); more; {
		f.space()
		m := member{name: len(f.out)}
		if f.at == len(f.in) || f.in[f.at] != '"' {
			return false
		}
		name, ok := f.text()
		if !ok {
			return false
		}
		m.after = len(f.out)
		into, left := f.ignored.member(paths, depth, name)
		f.space()
		if !f.next(':') {
			return false
		}
		f.space()
		if !f.value(depth+1, into) {
			return false
		}
		if m.end = len(f.out); left {
			f.out = f.out[:m.name]
		} else {
			f.members = append(f.members, m)
		}
		f.space()
		if more = !f.next('}'); more && !f.next(',') {
			return false
		}
	}
	f.sort(f.members[mine:])
	f.members = f.members[:mine]
	f.out = append(f.out, '}')
	return true
}

// sort sorts the members of the object that ends here by name; members with equal names stay in
// their order.
func (f *form) sort(members []member) {
	order := func(a, b member) int { return bytes.Compare(f.out[a.name:a.after], f.out[b.name:b.after]) }
	if slices.IsSortedFunc(members, order) {
		return
	}
	start := members[0].name
	slices.SortStableFunc(members, order)
	f.scratch = f.scratch[:0]
	for _, m := range members {
		f.scratch = append(f.scratch, f.out[m.name:m.end]...)
	}
	f.out = append(f.out[:start], f.scratch...)
}

// lengthOfText is the size of the length before a string in its form. It is fixed because the
// length is known only afterwards.
const lengthOfText = 5

// text reads a string and returns it decoded; it is part of out.
func (f *form) text() ([]byte, bool) {
	f.at++
	start := len(f.out)
	f.out = append(f.out, '"', 0, 0, 0, 0)
	for {
		from := f.at
		for f.at < len(f.in) && f.in[f.at] != '"' && f.in[f.at] != '\\' && f.in[f.at] >= ' ' {
			f.at++
		}
		f.out = append(f.out, f.in[from:f.at]...)
		switch {
		case f.next('"'):
			text := f.out[start+lengthOfText:]
			// a body is far smaller than that
			binary.BigEndian.PutUint32(f.out[start+1:], uint32(len(text)))
			return text, true
		case !f.next('\\') || !f.escape():
			return nil, false
		}
	}
}

// escape reads what follows a backslash.
func (f *form) escape() bool {
	if f.at == len(f.in) {
		return false
	}
	c := f.in[f.at]
	f.at++
	if at := strings.IndexByte(letters, c); at >= 0 {
		f.out = append(f.out, escaped[at])
		return true
	}
	if c != 'u' {
		return false
	}
	r, ok := f.unit()
	if !ok {
		return false
	}
	if utf16.IsSurrogate(r) {
		r = f.pair(r)
	}
	f.out = appendPoint(f.out, r)
	return true
}

// letters are those that stand behind a backslash for a character, at the same place of escaped.
const (
	letters = `"\/bfnrt`
	escaped = "\"\\/\b\f\n\r\t"
)

// unit reads four hexadecimal digits.
func (f *form) unit() (rune, bool) {
	var unit [2]byte
	if len(f.in)-f.at < 4 {
		return 0, false
	}
	if _, err := hex.Decode(unit[:], f.in[f.at:f.at+4]); err != nil {
		return 0, false
	}
	f.at += 4
	return rune(binary.BigEndian.Uint16(unit[:])), true
}

// pair is the character that a surrogate makes with the one that follows it, or the surrogate
// alone.
func (f *form) pair(first rune) rune {
	back := f.at
	if f.next('\\') && f.next('u') {
		if second, ok := f.unit(); ok {
			if whole := utf16.DecodeRune(first, second); whole != utf8.RuneError {
				return whole
			}
		}
	}
	f.at = back
	return first
}

// appendPoint writes a code point. A lone surrogate is written in three bytes as if it were valid,
// which is not UTF-8: so it differs from U+FFFD.
func appendPoint(out []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(out, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
	}
	return utf8.AppendRune(out, r)
}
