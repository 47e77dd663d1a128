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

How each scheme of a source verifies, and where it finds the ids, the type and the key of an event. [Receiving](receiving.md) says what holds for all.
The test of the table in ` + "`internal/base/scheme/rows.go`" + ` writes this page.

## Verification

(later): a source may be created without the secret, and waits for it.

| scheme | signature | secret | other fields of ` + "`verify`" + ` |
|---|---|---|---|
`)
	for _, s := range scheme.All() {
		name := s.Name
		if s.Docs != "" {
			name = fmt.Sprintf("[%s](%s)", s.Name, s.Docs)
		}
		needs := s.Needs
		if s.MayWait {
			needs += " (later)"
		}
		row(&out, name, s.Signature, needs, code(s.Settings))
	}
	out.WriteString(`
## Ids, type and key

Of several places the first that a request has counts. ` + "`$.a.b`" + ` is a member of the JSON body. Characters of a type that are no letters, digits,
` + "`_`, `-` or `.`" + ` become ` + "`_`" + `; a request without a type is a ` + "`" + defaultType + "`" + `. Where the signature does not cover the ids, the first column says
what one signature is good for: one event, one type, or any event (the same body under another id is another event).

| scheme | event id; delivery id, if another | type | key |
|---|---|---|---|
`)
	for _, s := range scheme.All() {
		name := s.Name
		if s.Unsigned && s.EventID != "" {
			name += map[scheme.Signs]string{scheme.SignsOnce: " (one event)", scheme.SignsType: " (one type)",
				scheme.SignsAnything: " (any event)"}[scheme.Find(s.Name).Signs]
		}
		ids := s.EventID
		if s.DeliveryID != s.EventID {
			ids += "; " + s.DeliveryID
		}
		row(&out, name, ids, s.Type, s.Key)
	}
	out.WriteString(`
## Repetitions

| scheme | sends again | as documented on | takes for success, instead of 202 |
|---|---|---|---|
`)
	for _, s := range scheme.All() {
		success := ""
		if s.Success != 0 {
			success = fmt.Sprint(s.Success)
		}
		if s.Retries != "" {
			row(&out, s.Name, s.Retries, s.Checked, success)
		}
	}
	return out.String()
}

func row(out *strings.Builder, cells ...string) {
	out.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func code(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
