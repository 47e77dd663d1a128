package egress

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel/policy"
)

// TestTextsThatEveryStoreTakes: PostgreSQL accepts every error and header text that a receiver can
// cause.
func TestTextsThatEveryStoreTakes(t *testing.T) {
	fits := func(text string) {
		t.Helper()
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || len(text) > maxErrorText+len("…") {
			t.Errorf("%q", text)
		}
	}
	for _, text := range []string{"a\x00b", "\xff\xfe", strings.Repeat("\x00", 1000), strings.Repeat("a", maxErrorText-1) + "é\x00", "ok"} {
		fits(cut(text))
		fits(protocolText(errors.New(text)))
		var r Result
		r.fail(policy.ClassProtocol, text[:min(len(text), 50)])
		fits(r.Error)
		kept := keptHeaders(http.Header{"X-" + text[:1]: {text[:min(len(text), 50)]}})
		for name, value := range kept {
			fits(name)
			fits(value)
		}
	}
	if got := cut("a\x00b\xffc"); got != "a\uFFFDb\uFFFDc" {
		t.Errorf("%q", got)
	}
}
