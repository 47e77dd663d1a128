package scheme

import (
	"slices"
	"strings"
	"testing"
)

func TestTheTableSaysWhatSignaturesProve(t *testing.T) {
	for _, r := range rows {
		if r.MustSay() && r.Signs == SignsUnsaid {
			t.Errorf("%s takes ids or its type from outside the signature: its row must say signs, one of SignsOnce, SignsType, "+
				"SignsAnything, or SignsIDs if they are signed", r.Name)
		}
		if r.ReadsHeaders() && r.Signs != SignsIDs && !r.Unsigned {
			t.Errorf("%s takes ids or its type from a header that is not signed: its row must say Unsigned, as pages tell it", r.Name)
		}
	}
	if !slices.IsSortedFunc(rows, func(a, b *Row) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the table is not sorted; Find would miss rows")
	}
}

// FuzzTemplate parses arbitrary texts as a template.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"{timestamp}.{body}", "{", "{}", "a{b", "{id}{id}x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if parts, err := parseTemplate(text); err == nil {
			var again strings.Builder
			for _, p := range parts {
				again.WriteString(p.literal)
				if p.field != "" {
					again.WriteString("{" + p.field + "}")
				}
			}
			if again.String() != text {
				t.Fatalf("%q is read as %q", text, again.String())
			}
		}
	})
}
