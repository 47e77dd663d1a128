package strict

import (
	"bytes"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
)

// Check says whether raw is one JSON document in UTF-8 that is nested at most depth levels deep.
// The depth comes first: the validator recurses, and a body of brackets alone would exhaust its
// stack.
func Check(raw []byte, depth int) error {
	switch {
	case len(raw) == 0:
		return grapnel.Errorf(grapnel.CodeMalformed, "The body is empty; it has to be JSON.")
	case !utf8.Valid(raw):
		return grapnel.Errorf(grapnel.CodeMalformed, "The body is not valid UTF-8.")
	case Deeper(raw, depth):
		return grapnel.Errorf(grapnel.CodeMalformed, "The body is nested more than %d levels deep.", depth)
	case !gjson.ValidBytes(raw):
		return grapnel.Errorf(grapnel.CodeMalformed, "The body is not valid JSON, or something follows it.")
	}
	return nil
}

// Document is a document that Check has accepted. Its texts are parts of raw, without a copy, so
// raw must never be changed afterwards: a changed byte would change a text.
func Document(raw []byte) gjson.Result {
	return gjson.Parse(unsafe.String(unsafe.SliceData(raw), len(raw)))
}

// Deeper says whether brackets outside of strings are ever nested more than limit deep.
func Deeper(raw []byte, limit int) bool {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i += endOfString(raw[i+1:])
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

// endOfString is how many bytes follow an opening quote up to and including the closing one, or all
// if there is none. Most data is in strings, so they are skipped as fast as bytes can be found.
func endOfString(raw []byte) int {
	for at := 0; ; {
		quote := bytes.IndexByte(raw[at:], '"')
		if quote < 0 {
			return len(raw)
		}
		at += quote
		slashes := 0
		for slashes < at && raw[at-1-slashes] == '\\' {
			slashes++
		}
		at++
		if slashes%2 == 0 {
			return at
		}
	}
}
