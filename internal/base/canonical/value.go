package canonical

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
)

// Value is a value in a document, as it is written there. The zero Value is none.
type Value struct {
	Raw []byte
	At  int // where it begins in the document
}

// Root is the value of a document. The document has to be JSON, as Read says.
func Root(document []byte) Value { return Value{document, 0}.trim() }

// Get returns the value at a path of names and places, such as items.0.id, in a document; of
// several members with one name the first counts.
func Get(document []byte, path string) Value {
	at := Root(document)
	for step := range strings.SplitSeq(path, ".") {
		next := Value{}
		for name, v := range at.children() {
			if name.is(step) {
				next = v
				break
			}
		}
		if at = next; at.Raw == nil {
			break
		}
	}
	return at
}

// Exists says whether there is a value.
func (v Value) Exists() bool { return v.Raw != nil }

// Text is a string, decoded; false: it is none.
func (v Value) Text() (string, bool) {
	if len(v.Raw) == 0 || v.Raw[0] != '"' {
		return "", false
	}
	return unquote(v.Raw), true
}

// Scalar is a string or the digits of a number; anything else names nothing.
func (v Value) Scalar() string {
	if text, is := v.Text(); is {
		return text
	}
	if len(v.Raw) > 0 && (v.Raw[0] == '-' || v.Raw[0] >= '0' && v.Raw[0] <= '9') {
		return string(v.Raw)
	}
	return ""
}

// Members are the names and values of an object, in its order, or the places and elements of an
// array.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for name, member := range v.children() {
			if !yield(name.String(), member) {
				return
			}
		}
	}
}

// name is that of a member in its quotes, or the place of an element.
type name struct {
	quoted []byte
	place  int
}

func (n name) String() string {
	if n.quoted == nil {
		return strconv.Itoa(n.place)
	}
	return unquote(n.quoted)
}

func (n name) is(step string) bool {
	if n.quoted != nil && bytes.IndexByte(n.quoted, '\\') < 0 {
		return string(n.quoted[1:len(n.quoted)-1]) == step // without a copy
	}
	return n.String() == step
}

func unquote(quoted []byte) (text string) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	_ = json.Unmarshal(quoted, &text) // it is JSON
	return text
}

// children are the values of an object or array, not those in them.
func (v Value) children() iter.Seq2[name, Value] {
	return func(yield func(name, Value) bool) {
		if len(v.Raw) == 0 || v.Raw[0] != '{' && v.Raw[0] != '[' {
			return
		}
		rest := v.after(1)
		for place := 0; len(rest.Raw) > 0 && rest.Raw[0] != '}' && rest.Raw[0] != ']'; place++ {
			n := name{place: place}
			if v.Raw[0] == '{' {
				end := length(rest.Raw)
				n.quoted = rest.Raw[:end]
				rest = rest.after(end).after(1) // the colon
			}
			end := length(rest.Raw)
			if !yield(n, Value{rest.Raw[:end], rest.At}) {
				return
			}
			if rest = rest.after(end); len(rest.Raw) > 0 && rest.Raw[0] == ',' {
				rest = rest.after(1)
			}
		}
	}
}

// after is what follows n bytes and the space after them.
func (v Value) after(n int) Value { return Value{v.Raw[n:], v.At + n}.trim() }

// trim removes the space before a value.
func (v Value) trim() Value {
	trimmed := bytes.TrimLeft(v.Raw, " \t\r\n")
	return Value{trimmed, v.At + len(v.Raw) - len(trimmed)}
}

// Deeper says whether brackets outside of strings are ever nested more than limit deep. The text
// need not be JSON.
func Deeper(text []byte, limit int) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += quoted(text[i:]) - 1
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}

// quoted is the length of the string that begins here, with its quotes; of one that does not end,
// all.
func quoted(text []byte) int {
	for end := 1; ; {
		next := bytes.IndexByte(text[end:], '"')
		if next < 0 {
			return len(text)
		}
		end += next + 1
		slashes := 0
		for text[end-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end
		}
	}
}

// length is that of the value that begins here.
func length(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i += quoted(text[i:]) - 1; depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}
