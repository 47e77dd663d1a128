package provider

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/receive"
)

// given is what the cases of all files here have in common.
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
	Ignore []string
}

type want struct {
	Outcome, ID, Key string
	Signed           bool
}

// each runs the cases of a file, of which there are at least some.
func each[W any](t *testing.T, file string, least int, test func(t *testing.T, g given, w W)) {
	raw, err := os.ReadFile("../../sdk/conformance/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Cases []struct {
			Name  string
			Given given
			Want  W
		}
	}
	if err := json.Unmarshal(raw, &all); err != nil || len(all.Cases) < least {
		t.Fatalf("%s: %d cases, %v", file, len(all.Cases), err)
	}
	for _, c := range all.Cases {
		t.Run(c.Name, func(t *testing.T) { test(t, c.Given, c.Want) })
	}
}

func (g *given) bytes(t *testing.T) []byte {
	t.Helper()
	if g.BodyBase64 == "" {
		return []byte(g.Body)
	}
	body, err := base64.StdEncoding.DecodeString(g.BodyBase64)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func (g *given) request(t *testing.T) (*http.Request, []byte) {
	t.Helper()
	body, url := g.bytes(t), g.URL
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

// TestSchemesOfTheKits: where an id is, whether it is signed, and for how long a sender repeats.
func TestSchemesOfTheKits(t *testing.T) {
	type known struct {
		ID       bool
		IDSigned bool  `json:"id_signed"`
		Typed    bool  `json:"type_in_key"`
		Span     int64 `json:"span_ms"`
	}
	names := Names()
	each(t, "schemes.json", len(names), func(t *testing.T, g given, w known) {
		o := map[string]Options{
			"adyen":    {Secrets: []string{"00112233445566778899"}},
			"api_key":  {Header: "X-Key"},
			"basic":    {Username: "acme"},
			"discord":  {Secrets: []string{strings.Repeat("0f", 32)}},
			"hmac":     {Header: "X-Signature"},
			"none":     {Unsigned: true},
			"sendgrid": {Secrets: []string{"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g=="}},
			"standard": {Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}},
			"svix":     {Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}},
		}[g.Scheme]
		if o.Secrets == nil && g.Scheme != "none" {
			o.Secrets = []string{"correct horse battery"}
		}
		_, err := New(g.Scheme, o)
		says := ""
		if err != nil {
			says = err.Error()
		}
		wants := ""
		if !w.ID {
			wants = "has no id"
		} else if !w.IDSigned {
			wants = "does not cover its id"
		}
		if !strings.Contains(says, wants) || (says == "") != (wants == "") {
			t.Errorf("without a key from the body: %q, want %q", says, wants)
		}
		if !w.ID {
			o.Key = Raw
		}
		o.Unsigned = true
		v, err := New(g.Scheme, o)
		if err != nil {
			t.Fatal(err)
		}
		if v.Span() != time.Duration(w.Span)*time.Millisecond || v.how.PerType != w.Typed {
			t.Errorf("span %v, type in key %v; want %d ms, %v", v.Span(), v.how.PerType, w.Span, w.Typed)
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == g.Scheme })
	})
	if len(names) > 0 {
		t.Errorf("no case has %v", names)
	}
}

// TestCanonicalKeysOfTheKits: the key of a body in its canonical form.
func TestCanonicalKeysOfTheKits(t *testing.T) {
	type want struct {
		SHA256 string
		Error  bool
	}
	each(t, "canonical.json", 80, func(t *testing.T, g given, w want) {
		defer func() { // a path that cannot be read
			if fault := recover(); fault != nil && !w.Error {
				t.Error(fault)
			}
		}()
		key, err := Canonical(g.Ignore...)(g.bytes(t))
		if key != w.SHA256 || (err != nil) != w.Error {
			t.Errorf("%q, %v; want %q, an error: %v", key, err, w.SHA256, w.Error)
		}
	})
}
