package provider

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/scheme"
	"github.com/grapnelhq/grapnel/receive"
)

// given is what the cases of signatures.json, providers.json and keys.json have in common.
type given struct {
	Scheme      string
	Settings    map[string]string
	Secrets     []string
	Now         int64
	URL         string
	PublicURL   string `json:"public_url"`
	Headers     [][2]string
	Body        string
	BodyBase64  string `json:"body_base64"`
	KeyFromBody *struct {
		Form   string
		Ignore []string
	} `json:"key_from_body"`
}

type want struct {
	Outcome, ID, Key string
	Signed           bool
}

// each runs the cases of a file, of which there are at least some.
func each(t *testing.T, file string, least int, test func(t *testing.T, g given, w want)) {
	raw, err := os.ReadFile("../../sdk/conformance/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Cases []struct {
			Name  string
			Given given
			Want  want
		}
	}
	if err := json.Unmarshal(raw, &all); err != nil || len(all.Cases) < least {
		t.Fatalf("%s: %d cases, %v", file, len(all.Cases), err)
	}
	for _, c := range all.Cases {
		t.Run(c.Name, func(t *testing.T) { test(t, c.Given, c.Want) })
	}
}

func (g *given) request(t *testing.T) (*http.Request, []byte) {
	t.Helper()
	body := []byte(g.Body)
	if g.BodyBase64 != "" {
		var err error
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
	return r, body
}

func (g *given) options() Options {
	o := Options{Secrets: g.Secrets, PublicURL: g.PublicURL}
	for name, text := range g.Settings {
		*map[string]*string{"header": &o.Header, "algorithm": &o.Algorithm, "encoding": &o.Encoding, "prefix": &o.Prefix, "signed": &o.Signed,
			"timestamp_header": &o.TimestampHeader, "id_header": &o.IDHeader, "type_header": &o.TypeHeader, "username": &o.Username}[name] = text
	}
	return o
}

// outcome is that of a verifier's error.
func outcome(err error) string {
	for reason, name := range map[error]string{receive.ErrUnverified: "unverified", receive.ErrExpired: "expired", receive.ErrMalformed: "malformed"} {
		if errors.Is(err, reason) {
			return name
		}
	}
	if err != nil {
		return err.Error()
	}
	return "verified"
}

// TestSignaturesOfTheKits: the verifier of Standard Webhooks and the one of the table agree with
// the conformance of all kits.
func TestSignaturesOfTheKits(t *testing.T) {
	each(t, "signatures.json", 60, func(t *testing.T, g given, w want) {
		v, err := New(g.Scheme, g.options())
		if err != nil {
			t.Fatal(err)
		}
		for _, verifier := range []receive.Verifier{v, receive.StandardWebhooks(g.Secrets...)} {
			r, body := g.request(t)
			got, err := verifier.Verify(r, body, time.Unix(g.Now, 0))
			if outcome(err) != w.Outcome || got.ID != w.ID {
				t.Errorf("%T: %q %v, want %q %s", verifier, got.ID, err, w.ID, w.Outcome)
			}
		}
	})
}

// TestProvidersOfTheKits: requests that the providers' own libraries signed.
func TestProvidersOfTheKits(t *testing.T) {
	each(t, "providers.json", 100, func(t *testing.T, g given, w want) {
		o := g.options()
		o.Unsigned = true
		if row := scheme.Find(g.Scheme); w.ID == "" || row == nil || len(row.IDs.Event) == 0 && o.IDHeader == "" {
			o.Key = Raw
		}
		v, err := New(g.Scheme, o)
		if err != nil {
			t.Fatal(err)
		}
		r, body := g.request(t)
		got, err := v.Verify(r, body, time.Unix(g.Now, 0))
		if outcome(err) != w.Outcome || o.Key == nil && w.ID != "" && got.ID != w.ID && !strings.HasSuffix(got.ID, ":"+w.ID) {
			t.Errorf("%q %v, want %q %s", got.ID, err, w.ID, w.Outcome)
		}
	})
}

// TestKeysOfTheKits: the key of each scheme, and whether a kit takes it without being told to.
func TestKeysOfTheKits(t *testing.T) {
	secrets := map[string]string{"standard": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "svix": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "adyen": "00112233445566778899"}
	each(t, "keys.json", 25, func(t *testing.T, g given, w want) {
		o := g.options()
		o.Secrets = []string{"correct horse battery"}
		if secret := secrets[g.Scheme]; secret != "" {
			o.Secrets[0] = secret
		}
		if k := g.KeyFromBody; k != nil && k.Form == "raw" {
			o.Key = Raw
		} else if k != nil {
			o.Key = Canonical(k.Ignore...)
		}
		if _, err := New(g.Scheme, o); w.Key != "" && (err == nil) != w.Signed {
			t.Fatalf("signed %v, but the verifier: %v", w.Signed, err)
		}
		o.Unsigned = true
		v, err := New(g.Scheme, o)
		if err != nil {
			t.Fatal(err)
		}
		r, body := g.request(t)
		key, err := v.keyOf(v.how.Request(r, body, time.Now(), ""), body)
		if key != w.Key || (err == nil) != (w.Key != "") {
			t.Errorf("%q, %v; want %q", key, err, w.Key)
		}
	})
}

// TestChoicesThatLoseEvents: what would take a key that anybody can change, or have none, is an
// error that names the way out and no secret.
func TestChoicesThatLoseEvents(t *testing.T) {
	const secret = "a-secret-of-a-test"
	key := func([]byte) (string, error) { return "k", nil }
	for _, c := range []struct {
		name string
		o    Options
		says string // empty: it is fine
	}{
		{"stripe", Options{}, ""},
		{"stripe", Options{Key: key}, ""},
		{"github", Options{}, "does not cover its id"},
		{"github", Options{Key: key}, ""},
		{"github", Options{Unsigned: true}, ""},
		{"mailgun", Options{}, "does not cover its id"},
		{"mailgun", Options{Key: key}, "does not cover the body"},
		{"mailgun", Options{Key: key, Unsigned: true}, ""},
		{"zoom", Options{}, "has no id"},
		{"zoom", Options{Key: key}, ""},
		{"gitlab", Options{}, "does not cover its id"},
		{"hmac", Options{Header: "X-Sig", IDHeader: "X-Id"}, "does not cover its id"},
		{"hmac", Options{Header: "X-Sig", IDHeader: "X-Id", Signed: "{id}.{body}"}, ""},
		{"nobody", Options{}, "is none of"},
		{"stripe", Options{Header: "X-Sig"}, "header is not used"},
	} {
		c.o.Secrets = []string{secret}
		v, err := New(c.name, c.o)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s %+v: %v", c.name, c.o, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s tells the secret: %v", c.name, err)
		}
		if err == nil && v.Span() != scheme.Find(c.name).RetriesFor {
			t.Errorf("%s repeats for %s", c.name, v.Span())
		}
	}
	if _, err := New("github", Options{}); err == nil {
		t.Error("a provider without a secret is taken")
	}
	if v, err := New("gitlab", Options{Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}); err != nil || v == nil {
		t.Errorf("a signing token of GitLab: %v", err)
	}
	if names := Names(); len(names) != len(scheme.All()) || !slices.IsSorted(names) {
		t.Errorf("the names are %v", names)
	}
	defer func() {
		if recover() == nil {
			t.Error("a path that cannot be read is taken")
		}
	}()
	Canonical("$..a")
}

// TestGreetings: a provider's check of an address is answered if it is signed, and all else goes on
// to the kit with its whole body.
func TestGreetings(t *testing.T) {
	const secret = "a-secret-of-a-test"
	v, err := New("slack", Options{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	server := v.Greets(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if got = string(body); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	const challenge = `{"type":"url_verification","challenge":"<3eZbrw1a>"}`
	for _, c := range []struct {
		body, secret, answer string
	}{
		{challenge, secret, "<3eZbrw1a>"},
		{challenge, "another-secret", ""},
		{`{"type":"event_callback","event_id":"Ev1"}`, secret, ""},
		{strings.Repeat(" ", greetingSize) + challenge, secret, ""},
	} {
		s := scheme.Settings{Scheme: "slack", Secrets: []scheme.Secret{{Text: c.secret}}}
		signed := scheme.Webhook{Method: http.MethodPost, URL: "https://hooks.example.com/", Header: http.Header{}, Body: []byte(c.body)}
		if err := s.Sign(&signed, time.Now(), ""); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
		r.Header = signed.Header
		rec := httptest.NewRecorder()
		got = ""
		server.ServeHTTP(rec, r)
		if c.answer != "" && (rec.Code != http.StatusOK || rec.Body.String() != c.answer || got != "") {
			t.Errorf("%.40s: answered %d %s, and the kit got %q", c.body, rec.Code, rec.Body, got)
		}
		if c.answer == "" && (rec.Code != http.StatusTeapot || got != c.body) {
			t.Errorf("%.40s: answered %d, and the kit got %q", c.body, rec.Code, got)
		}
	}
}

// TestATokenIsNotStored: a header that carries the secret itself is named, so that no dead letter
// has it.
func TestATokenIsNotStored(t *testing.T) {
	v, err := New("api_key", Options{Secrets: []string{"a-secret-of-a-test"}, IDHeader: "X-Id", Unsigned: true})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("X-Api-Key", "a-secret-of-a-test")
	r.Header.Set("X-Id", "1")
	got, err := v.Verify(r, nil, time.Now())
	if err != nil || got.ID != "1" || !slices.Equal(got.Secret, []string{"X-Api-Key"}) {
		t.Errorf("%+v, %v", got, err)
	}
}
