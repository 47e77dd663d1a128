package ingress

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

var update = flag.Bool("update", false, "write docs/providers.md instead of comparing with it")

const providersPage = "../../../docs/providers.md"

// docs/providers.md is written from the table of schemes, so it says what the code does.
func TestTheProvidersPageIsTrue(t *testing.T) {
	page := providers()
	if *update {
		if err := os.WriteFile(providersPage, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(providersPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != page {
		t.Error("docs/providers.md does not say what the table says; run the test with -update")
	}
}

func providers() string {
	var out strings.Builder
	out.WriteString(`# Providers

How each scheme of a source verifies, and where it finds what an event is known and sorted by. This page is written from the table in
` + "`internal/base/scheme/rows.go`" + ` by its test. What [receiving](receiving.md) says holds for all of them.

Of several places the first that a request has counts. ` + "`$.a.b`" + ` is a member of the JSON body. Characters of a type that are no letters, digits,
` + "`_`, `-` or `.`" + ` become ` + "`_`" + `; a request without a type is a ` + "`" + defaultType + "`" + `.
`)
	for _, s := range scheme.All() {
		fmt.Fprintf(&out, "\n## %s\n\n", s.Name)
		if s.Docs != "" {
			fmt.Fprintf(&out, "[%s](%s). ", s.Title, s.Docs)
		}
		out.WriteString(s.Signature + "\n\n| | |\n|---|---|\n")
		line := func(what, text string) {
			if text != "" {
				fmt.Fprintf(&out, "| %s | %s |\n", what, text)
			}
		}
		line("secret", s.Needs)
		if s.MayWait {
			line("", "a source may be created without it, and waits for it")
		}
		line("other fields of `verify`", code(s.Settings))
		line("event id", s.EventID)
		if s.DeliveryID != s.EventID {
			line("delivery id", s.DeliveryID)
		}
		if s.Unsigned && s.EventID != "" {
			line(
				"",
				"the signature does not cover the ids"+map[scheme.Signs]string{scheme.SignsOnce: ", and is good for one event",
					scheme.SignsType:     ", and is good for one type: the same body under another id is another event",
					scheme.SignsAnything: ": the same body under another id is another event"}[scheme.Find(s.Name).Signs],
			)
		}
		line("type", s.Type)
		line("key", s.Key)
		if s.Success != 0 {
			line("answer", fmt.Sprintf("%d instead of 202, which %s does not take for success", s.Success, s.Title))
		}
		line("sends again", s.Retries)
		if s.Retries != "" && s.Checked != "" {
			line("", "compared with its documentation on "+s.Checked)
		}
	}
	return out.String()
}

func code(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
