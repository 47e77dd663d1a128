package strict

import (
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/canonical"
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
	case canonical.Deeper(raw, depth):
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
