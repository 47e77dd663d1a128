package strict

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/tidwall/gjson"
)

// Value is one value of a JSON document, with its place for when it is wrong. The document has
// passed Check.
type Value struct {
	gjson.Result
	Base   string // pointer of what it is in, with a slash at the end
	Name   string
	Faults *Faults
}

// Pointer is the JSON pointer of the value.
func (v Value) Pointer() string { return v.Base + Escape(v.Name) }

// Wrong adds a fault at the value.
func (v Value) Wrong(format string, args ...any) { v.Faults.Add(v.Pointer(), format, args...) }

// Absent says whether the value is null, which everywhere means the same as leaving it out.
func (v Value) Absent() bool { return v.Type == gjson.Null }

// Text is the value as a string. It is a copy: a part of the document would keep all of it in
// memory for as long as an event lives.
func (v Value) Text() (string, bool) {
	if v.Type != gjson.String {
		v.Wrong("must be a string")
		return "", false
	}
	if !wellFormed(v.Raw) {
		v.Wrong("must not contain half of a surrogate pair")
		return "", false
	}
	return strings.Clone(v.Str), true
}

// MostMembers bounds objects and lists that have no limit of their own, and the work of finding
// repeated names.
const MostMembers = 64

// Members calls visit for each member of an object. visit says whether it knows the name; unknown
// and repeated names are faults.
func Members(object gjson.Result, base string, f *Faults, visit func(v Value) bool) {
	var buffer [16]string
	seen := buffer[:0]
	object.ForEach(func(name, result gjson.Result) bool {
		v := Value{Result: result, Base: base, Name: name.Str, Faults: f}
		if len(seen) == MostMembers {
			v.Wrong("is one field too many: at most %d are read", MostMembers)
			return false
		}
		switch {
		case slices.Contains(seen, v.Name):
			v.Wrong("is given twice")
		case visit(v):
			seen = append(seen, v.Name)
		default:
			v.Wrong("is unknown")
		}
		return !f.Full()
	})
}

// Texts reads an object whose values are strings.
func (v Value) Texts(most, longest int) map[string]string {
	if !v.IsObject() {
		v.Wrong("must be an object of strings")
		return nil
	}
	out := map[string]string{}
	v.ForEach(func(name, result gjson.Result) bool {
		m := Value{Result: result, Base: v.Pointer() + "/", Name: name.Str, Faults: v.Faults}
		text, ok := m.Text()
		_, twice := out[m.Name]
		switch {
		case !ok:
		case twice:
			m.Wrong("is given twice")
		case len(out) == most:
			v.Wrong("must have at most %d members", most)
			return false
		case m.Name == "" || len(m.Name) > longest || len(text) > longest:
			m.Wrong("name and value must have at most %d bytes, and the name at least one", longest)
		case !Printable(m.Name) || !wellFormed(name.Raw):
			m.Wrong("must have a name without control characters")
		case strings.ContainsRune(text, 0):
			m.Wrong("must not contain the character NUL")
		default:
			out[strings.Clone(m.Name)] = text
		}
		return !v.Faults.Full()
	})
	return out
}

// Printable says whether s has no control characters.
func Printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// wellFormed says whether the escapes in a JSON string stand for text. Half of a surrogate pair
// does not; decoders replace it, and two different strings would become one.
func wellFormed(raw string) bool {
	for i := 0; ; {
		at := strings.IndexByte(raw[i:], '\\')
		if at < 0 {
			return true
		}
		i += at
		if raw[i+1] != 'u' {
			i += 2
			continue
		}
		r := hex4(raw[i+2:])
		i += 6
		if !utf16.IsSurrogate(r) {
			continue
		}
		if !strings.HasPrefix(raw[i:], `\u`) || utf16.DecodeRune(r, hex4(raw[i+2:])) == '\uFFFD' {
			return false
		}
		i += 6
	}
}

// hex4 reads four hexadecimal digits, which the validator has seen.
func hex4(s string) rune {
	n, _ := strconv.ParseUint(s[:4], 16, 16)
	return rune(n)
}
