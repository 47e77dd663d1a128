package canonical

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// ErrNotJSON says that a body has no canonical form.
var ErrNotJSON = errors.New("the body is not one JSON value in UTF-8, or it is nested too deep")

// Text is the canonical form of a body as JSON, without ignored paths: members sorted by the bytes
// of their names, nothing between tokens, numbers as they were written, and strings with the
// escapes that JSON needs. sdk/conformance/canonical.json has its cases.
func (i *Ignored) Text(body []byte) ([]byte, error) {
	f := forms.Get().(*form)
	defer f.release()
	if !f.read(body, i) {
		return nil, ErrNotJSON
	}
	t := text{in: f.out[len(formOfJSON):], out: make([]byte, 0, len(body))}
	t.value()
	return t.out, nil
}

// text is written from a form.
type text struct{ in, out []byte }

// value writes the value that begins here, and leaves what follows it.
func (t *text) value() {
	kind := t.in[0]
	t.in = t.in[1:]
	switch kind {
	case 't':
		t.out = append(t.out, "true"...)
	case 'f':
		t.out = append(t.out, "false"...)
	case 'n':
		t.out = append(t.out, "null"...)
	case '#':
		end := bytes.IndexByte(t.in, ';')
		t.out, t.in = append(t.out, t.in[:end]...), t.in[end+1:]
	case '"':
		t.quote(t.string())
	case '[':
		t.out = append(t.out, '[')
		for first := true; t.in[0] != ']'; first = false {
			if !first {
				t.out = append(t.out, ',')
			}
			t.value()
		}
		t.out, t.in = append(t.out, ']'), t.in[1:]
	case '{':
		t.object()
	}
}

// string is the string whose length is next.
func (t *text) string() []byte {
	from := lengthOfText - 1 // without its quote, which has been read
	end := from + int(binary.BigEndian.Uint32(t.in))
	s := t.in[from:end]
	t.in = t.in[end:]
	return s
}

// object writes its members in the order of their names, which in the form is that of lengths
// first.
func (t *text) object() {
	type written struct{ name, text []byte }
	var members []written
	start := len(t.out)
	for t.in[0] != '}' {
		t.in = t.in[1:] // the quote
		from, name := len(t.out), t.string()
		t.quote(name)
		t.out = append(t.out, ':')
		t.value()
		members = append(members, written{name, bytes.Clone(t.out[from:])})
	}
	t.in = t.in[1:]
	slices.SortStableFunc(members, func(a, b written) int { return bytes.Compare(a.name, b.name) })
	t.out = append(t.out[:start], '{')
	for n, m := range members {
		if n > 0 {
			t.out = append(t.out, ',')
		}
		t.out = append(t.out, m.text...)
	}
	t.out = append(t.out, '}')
}

// short are the escapes with a letter.
var short = map[rune]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

func (t *text) quote(s []byte) {
	t.out = append(t.out, '"')
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		if r == utf8.RuneError && size == 1 { // a surrogate alone, see appendPoint
			r, size = rune(s[0]&0xf)<<12|rune(s[1]&0x3f)<<6|rune(s[2]&0x3f), 3
			t.out = fmt.Appendf(t.out, `\u%04x`, r)
		} else if letter, is := short[r]; is {
			t.out = append(t.out, '\\', letter)
		} else if r < ' ' {
			t.out = fmt.Appendf(t.out, `\u%04x`, r)
		} else {
			t.out = append(t.out, s[:size]...)
		}
		s = s[size:]
	}
	t.out = append(t.out, '"')
}
