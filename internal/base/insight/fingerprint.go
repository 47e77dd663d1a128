package insight

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Fingerprint is what stays of an answer's body if everything is taken out that differs between two
// failures of one cause: numbers, ids, times, and text between quotes that has one of these in it.
// At most limit bytes of the body are read.
func Fingerprint(body []byte, limit int) string {
	body = body[:min(len(body), limit)]
	var out strings.Builder
	for len(body) > 0 {
		n := word(body)
		if n == 0 {
			r, size := utf8.DecodeRune(body)
			body = body[size:]
			put(&out, r)
			continue
		}
		if w := body[:n]; varies(w) {
			write(&out, "#")
		} else {
			write(&out, string(w))
		}
		body = body[n:]
	}
	return strings.ToValidUTF8(strings.TrimSpace(out.String()), "\ufffd") // as JSON stores it
}

// word returns the length of the word that the text begins with. Marks that join the parts of
// times, addresses and ids belong to it if a part follows.
func word(text []byte) int {
	n := 0
	for n < len(text) {
		switch {
		case letter(text[n]) || digit(text[n]):
			n++
		case n > 0 && joins(text[n]) && n+1 < len(text) && (letter(text[n+1]) || digit(text[n+1])):
			n++
		default:
			return n
		}
	}
	return n
}

// varies says whether a word is an id, a number or a time: it has a digit.
func varies(w []byte) bool { return slices.ContainsFunc(w, digit) }

func letter(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_' || b >= utf8.RuneSelf
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

func joins(b byte) bool { return b == '-' || b == '.' || b == ':' || b == '+' }

// put writes a mark; spaces of any kind and number become one.
func put(out *strings.Builder, r rune) {
	if r <= ' ' {
		if s := out.String(); s == "" || s[len(s)-1] == ' ' {
			return
		}
		r = ' '
	}
	out.WriteRune(r)
}

// write writes a word. Two words that vary, one after the other, become one: lists of ids are as
// long as they like.
func write(out *strings.Builder, w string) {
	s := out.String()
	if w == "#" && (strings.HasSuffix(s, "#,") || strings.HasSuffix(s, "#, ") || strings.HasSuffix(s, "# ")) {
		return
	}
	out.WriteString(w)
}
