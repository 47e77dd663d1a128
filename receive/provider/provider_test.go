package provider

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

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
