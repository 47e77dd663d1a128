package ingress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

const (
	providersFile = "../../../sdk/conformance/providers.json"
	schemesFile   = "../../../sdk/conformance/schemes.json"
)

// conforming is a case of sdk/conformance/providers.json.
type conforming struct {
	Name  string `json:"name"`
	Given struct {
		Scheme    string            `json:"scheme"`
		Settings  map[string]string `json:"settings,omitempty"`
		Secrets   []string          `json:"secrets"`
		Now       int64             `json:"now"`
		URL       string            `json:"url"`
		PublicURL string            `json:"public_url,omitempty"`
		Headers   [][2]string       `json:"headers"`
		Body      string            `json:"body"`
	} `json:"given"`
	Want struct {
		Outcome string `json:"outcome"`
		ID      string `json:"id,omitempty"`
	} `json:"want"`
}

// sdk/conformance/providers.json is written from the vectors here, so kits and server verify the
// same requests.
func TestTheKitsKnowTheVectors(t *testing.T) {
	written(t, providersFile, "Requests of providers: is a request verified, and which event is it. "+
		"Written by a test of internal/inbound/ingress from its testdata.", conformingCases(t))
}

// known is a case of sdk/conformance/schemes.json.
type known struct {
	Name  string `json:"name"`
	Given struct {
		Scheme string `json:"scheme"`
	} `json:"given"`
	Want struct {
		ID        bool  `json:"id"`
		IDSigned  bool  `json:"id_signed"`
		TypeInKey bool  `json:"type_in_key"`
		Span      int64 `json:"span_ms"`
	} `json:"want"`
}

// sdk/conformance/schemes.json is written from the table of schemes, so the tables of the kits say
// what the server's says.
func TestTheKitsKnowTheSchemes(t *testing.T) {
	var all []known
	for _, s := range scheme.All() {
		var c known
		r := scheme.Find(s.Name)
		c.Name, c.Given.Scheme = s.Name, s.Name
		c.Want.ID, c.Want.IDSigned, c.Want.TypeInKey, c.Want.Span = len(r.IDs.Event) > 0, !s.Unsigned, r.PerType, s.RetriesFor.Milliseconds()
		all = append(all, c)
	}
	for file, row := range map[string]string{"typescript/src/receive/schemes.ts": "\n  %s: {", "python/src/grapnel/receive/schemes.py": "\n    %q: Scheme("} {
		text, err := os.ReadFile("../../../sdk/" + file)
		for _, c := range all {
			if !strings.Contains(string(text), fmt.Sprintf(row, c.Name)) {
				t.Errorf("sdk/%s has no row %q (%v)", file, c.Name, err)
			}
		}
	}
	written(t, schemesFile, "What a kit has to know of each scheme. Written by a test of internal/inbound/ingress from the table of the server.", all)
}

// written compares a file of cases with what it has to be, or writes it with -update.
func written[C any](t *testing.T, file, about string, cases []C) {
	t.Helper()
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\n  \"about\": %q,\n  \"cases\": [", about)
	write := json.NewEncoder(&out)
	write.SetEscapeHTML(false)
	separator := "\n"
	for _, c := range cases {
		out.WriteString(separator + "    ")
		if err := write.Encode(c); err != nil {
			t.Fatal(err)
		}
		out.Truncate(out.Len() - 1)
		separator = ",\n"
	}
	out.WriteString("\n  ]\n}\n")
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text, err := os.ReadFile(file); err != nil || !bytes.Equal(text, out.Bytes()) {
		t.Errorf("%s does not say what testdata says (%v); run the test with -update", file, err)
	}
}

// conformingCases are, of each vector, the request as it is; with another body; and a day later.
func conformingCases(t *testing.T) (all []conforming) {
	for _, v := range vectors(t) {
		var c conforming
		c.Name = v.scheme + ": " + v.Name
		g := &c.Given
		g.Scheme, g.Settings, g.Secrets, g.Now = v.scheme, v.settings(), v.Verify.Secrets, v.Now
		g.URL, g.PublicURL, g.Body = v.URL, v.PublicURL, v.Body
		for name, value := range v.Headers {
			g.Headers = append(g.Headers, [2]string{name, value})
		}
		slices.SortFunc(g.Headers, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
		c.Want.Outcome, c.Want.ID = "verified", v.Want.ID
		all = append(all, c)
		if !v.BodyUnsigned {
			changed := c
			changed.Name, changed.Given.Body = c.Name+", with another body", strings.Replace(v.Body, "e", "3", 1)
			if changed.Given.Body == v.Body {
				changed.Given.Body += "3"
			}
			changed.Want.Outcome, changed.Want.ID = "unverified", ""
			all = append(all, changed)
		}
		if slices.ContainsFunc(v.checks(t), func(text string) bool { return strings.HasPrefix(text, "timestamp ") }) {
			late := c
			late.Name, late.Given.Now = c.Name+", a day later", v.Now+int64(24*time.Hour/time.Second)
			late.Want.Outcome, late.Want.ID = "expired", ""
			all = append(all, late)
		}
	}
	return all
}

// checks are the texts of the checks of a vector as it is.
func (v *vector) checks(t *testing.T) (texts []string) {
	w := v.world(t, v.Verify.Secrets...)
	r := v.request()
	for _, c := range w.receiver.checks(w, r, []byte(v.Body)) {
		texts = append(texts, c.Text)
	}
	return texts
}

// settings are the fields of verify that are set, with the names of the API.
func (v *vector) settings() map[string]string {
	text, _ := json.Marshal(v.Verify) // texts only
	all := map[string]any{}
	_ = json.Unmarshal(text, &all)
	set := map[string]string{}
	for name, value := range all {
		if text := fmt.Sprint(value); name != "secrets" && text != "" {
			set[name] = text
		}
	}
	return set
}
