package scheme

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// conforming is a case of sdk/conformance/signatures.json and providers.json.
type conforming struct {
	Name  string
	Given struct {
		Scheme     string
		Settings   map[string]string
		Secrets    []string
		Now        int64
		URL        string
		PublicURL  string `json:"public_url"`
		Headers    [][2]string
		Body       string
		BodyBase64 string `json:"body_base64"`
	}
	Want struct{ Outcome, ID string }
}

// TestOutcomesOfTheKits: every request of the files is verified, or not, as all kits do it.
func TestOutcomesOfTheKits(t *testing.T) {
	for _, file := range []string{"signatures.json", "providers.json"} {
		raw, err := os.ReadFile("../../../sdk/conformance/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var all struct{ Cases []conforming }
		if err := json.Unmarshal(raw, &all); err != nil || len(all.Cases) < 60 {
			t.Fatalf("%s: %d cases, %v", file, len(all.Cases), err)
		}
		for _, c := range all.Cases {
			g := c.Given
			s := Settings{Scheme: g.Scheme, PublicURL: g.PublicURL}
			for _, text := range g.Secrets {
				s.Secrets = append(s.Secrets, Secret{Text: text})
			}
			for name, text := range g.Settings {
				*map[string]*string{"header": &s.Header, "algorithm": &s.Algorithm, "encoding": &s.Encoding, "prefix": &s.Prefix, "signed": &s.Signed,
					"timestamp_header": &s.TimestampHeader, "id_header": &s.IDHeader, "type_header": &s.TypeHeader, "username": &s.Username}[name] = text
			}
			if faults := s.Faults(); len(faults) > 0 {
				t.Fatalf("%s: %v", c.Name, faults)
			}
			body := []byte(g.Body)
			if g.BodyBase64 != "" {
				if body, err = base64.StdEncoding.DecodeString(g.BodyBase64); err != nil {
					t.Fatal(err)
				}
			}
			url := g.URL
			if url == "" {
				url = "https://hooks.example.com/hooks"
			}
			r := httptest.NewRequest(http.MethodPost, url, strings.NewReader(string(body)))
			for _, h := range g.Headers {
				r.Header.Add(h[0], h[1])
			}
			in := New(s).Request(r, body, time.Unix(g.Now, 0), "")
			in.Verify()
			got, id := in.Outcome(), ""
			if got == Verified {
				id = in.Find(in.v.IDs.Event)
			}
			if string(got) != c.Want.Outcome || c.Want.ID != "" && id != c.Want.ID {
				t.Errorf("%s: %s: %q %q, want %q %q: %v", file, c.Name, got, id, c.Want.Outcome, c.Want.ID, in.Checks)
			}
		}
	}
}
