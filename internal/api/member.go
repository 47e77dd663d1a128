package api

import (
	"strings"
	"unicode/utf16"

	"github.com/tidwall/gjson"
)

// value is one value of a JSON document, with its place for when it is wrong. The document has passed checkJSON.
type value struct {
	gjson.Result
	base   string // pointer of what it is in, with a slash at the end
	name   string
	faults *faults
}

func (v value) pointer() string { return v.base + escape(v.name) }

func (v value) wrong(format string, args ...any) { v.faults.add(v.pointer(), format, args...) }

// absent says whether the value is null, which everywhere means the same as leaving it out.
func (v value) absent() bool { return v.Type == gjson.Null }

// text is the value as a string. It is a copy: a part of the document would keep all of it in memory for as long as an event lives.
func (v value) text() (string, bool) {
	if v.Type != gjson.String {
		v.wrong("must be a string")
		return "", false
	}
	if !wellFormed(v.Raw) {
		v.wrong("must not contain half of a surrogate pair")
		return "", false
	}
	return strings.Clone(v.Str), true
}

// mostMembers bounds objects and lists that have no limit of their own, and the work of finding what is given twice.
const mostMembers = 64

// members calls visit for each member of an object. visit says whether it knows the name; unknown and repeated names are faults.
func members(object gjson.Result, base string, f *faults, visit func(v value) bool) {
	var buffer [16]string
	seen := buffer[:0]
	object.ForEach(func(name, result gjson.Result) bool {
		v := value{Result: result, base: base, name: name.Str, faults: f}
		if len(seen) == mostMembers {
			v.wrong("is one field too many: at most %d are read", mostMembers)
			return false
		}
		for _, s := range seen {
			if s == v.name {
				v.wrong("is given twice")
				return !f.full()
			}
		}
		if visit(v) {
			seen = append(seen, v.name)
		} else {
			v.wrong("is not known here")
		}
		return !f.full()
	})
}

// texts reads an object whose values are strings.
func (v value) texts(most, longest int) map[string]string {
	if !v.IsObject() {
		v.wrong("must be an object of strings")
		return nil
	}
	out := map[string]string{}
	v.ForEach(func(name, result gjson.Result) bool {
		m := value{Result: result, base: v.pointer() + "/", name: name.Str, faults: v.faults}
		text, ok := m.text()
		_, twice := out[m.name]
		switch {
		case !ok:
		case twice:
			m.wrong("is given twice")
		case len(out) == most:
			v.wrong("must have at most %d members", most)
			return false
		case m.name == "" || len(m.name) > longest || len(text) > longest:
			m.wrong("name and value must have at most %d bytes, and the name at least one", longest)
		case !printable(m.name) || !wellFormed(name.Raw):
			m.wrong("must have a name without control characters")
		case strings.ContainsRune(text, 0):
			m.wrong("must not contain the character NUL")
		default:
			out[strings.Clone(m.name)] = text
		}
		return !v.faults.full()
	})
	return out
}

// printable says whether s has no control characters.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// wellFormed says whether the escapes in a JSON string stand for text. Half of a surrogate pair does not; decoders replace it, and
// two different strings would become one.
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
func hex4(s string) (r rune) {
	for i := range 4 {
		c := rune(s[i] | 0x20)
		if c >= 'a' {
			c -= 'a' - 10
		} else {
			c -= '0'
		}
		r = r<<4 | c
	}
	return r
}
