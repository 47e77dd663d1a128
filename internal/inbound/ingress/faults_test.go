package ingress

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// fields are the fields of the faults.
func fields(faults []Fault) string {
	var all []string
	for _, f := range faults {
		if f.Detail == "" {
			all = append(all, "nothing said of")
		}
		all = append(all, f.Field)
	}
	return strings.Join(all, " ")
}

func TestCheckVerify(t *testing.T) {
	const good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	hmacOf := func(change func(*grapnel.Verify)) grapnel.Verify {
		v := grapnel.Verify{Scheme: "hmac", Secrets: secrets("s"), Header: "X-Signature"}
		change(&v)
		return v
	}
	for _, c := range []struct {
		v    grapnel.Verify
		want string
	}{
		{grapnel.Verify{}, "scheme"},
		{grapnel.Verify{Scheme: "striped"}, "scheme"},
		{grapnel.Verify{Scheme: "none"}, ""},
		{grapnel.Verify{Scheme: "none", Secrets: secrets("s")}, "secret"},
		{grapnel.Verify{Scheme: "none", IDHeader: "X-Id", TypeHeader: "X-Type"}, ""},
		{grapnel.Verify{Scheme: "none", Tolerance: time.Minute}, "tolerance"},
		{grapnel.Verify{Scheme: "stripe"}, ""}, // it waits for its secret
		{grapnel.Verify{Scheme: "slack"}, "secret"},
		{grapnel.Verify{Scheme: "api_key"}, "secret"},
		{grapnel.Verify{Scheme: "basic", Username: "u"}, "secret"},
		{grapnel.Verify{Scheme: "gitlab"}, "secret"},
		{grapnel.Verify{Scheme: "stripe", Secrets: secrets("")}, "secret"},
		{grapnel.Verify{Scheme: "stripe", Secrets: secrets("anything at all")}, ""},
		{grapnel.Verify{Scheme: "stripe", Secrets: secrets("a", "")}, "secrets/1"},
		{grapnel.Verify{Scheme: "stripe", Secrets: make([]grapnel.Secret, 11)}, "secrets"},
		{grapnel.Verify{Scheme: "stripe", Secrets: secrets(strings.Repeat("x", 2000))}, "secret"},
		{grapnel.Verify{Scheme: "stripe", Secrets: secrets("s"), Tolerance: 10 * time.Minute}, ""},
		{grapnel.Verify{Scheme: "stripe", Secrets: secrets("s"), Tolerance: time.Millisecond}, "tolerance"},
		{grapnel.Verify{Scheme: "stripe", Secrets: secrets("s"), Tolerance: 25 * time.Hour}, "tolerance"},
		{grapnel.Verify{Scheme: "stripe", Secrets: secrets("s"), Tolerance: -time.Minute}, "tolerance"},
		{grapnel.Verify{Scheme: "stripe", Secrets: secrets("s"), Header: "X", Username: "u"}, "header username"},
		{grapnel.Verify{Scheme: "github", Secrets: secrets("s"), Tolerance: time.Minute}, "tolerance"},
		{grapnel.Verify{Scheme: "standard", Secrets: secrets(good)}, ""},
		{grapnel.Verify{Scheme: "standard", Secrets: secrets("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}, ""},
		{grapnel.Verify{Scheme: "standard", Secrets: secrets("whsec_not base64")}, "secret"},
		{grapnel.Verify{Scheme: "standard", Secrets: secrets("whsec_c2hvcnQ=")}, "secret"},
		{grapnel.Verify{Scheme: "standard", Secrets: secrets("whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")}, "secret"},
		// 16 bytes
		{grapnel.Verify{Scheme: "standard", Secrets: secrets("whsec_AAECAwQFBgcICQoLDA0ODw==")}, ""},
		{grapnel.Verify{Scheme: "standard", Secrets: secrets("AAECAwQFBgcICQoLDA0ODw==")}, ""},
		// no padding: no library takes it
		{grapnel.Verify{Scheme: "standard", Secrets: secrets("AAECAwQFBgcICQoLDA0ODw")}, "secret"},
		{grapnel.Verify{Scheme: "svix", Secrets: secrets(strings.Repeat("AAAA", 50))}, ""},
		{grapnel.Verify{Scheme: "svix", Secrets: secrets("s")}, "secret"},
		{grapnel.Verify{Scheme: "gitlab", Secrets: secrets("any token")}, ""},
		{grapnel.Verify{Scheme: "gitlab", Secrets: secrets("whsec_short")}, "secret"},
		{grapnel.Verify{Scheme: "discord", Secrets: secrets("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")}, ""},
		{grapnel.Verify{Scheme: "discord", Secrets: secrets("03a1")}, "secret"},
		{grapnel.Verify{Scheme: "adyen", Secrets: secrets("44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056")}, ""},
		{grapnel.Verify{Scheme: "adyen", Secrets: secrets("zz-zz-zz")}, "secret"},
		{grapnel.Verify{Scheme: "adyen"}, ""},
		{grapnel.Verify{Scheme: "sendgrid", Secrets: secrets(
			"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjcMMsTbhdbcwHBcepxo7yAQGhHPTnlvFYPAZFceEu/1FwCM/QmGUhA==")}, ""},
		// Ed25519
		{grapnel.Verify{Scheme: "sendgrid", Secrets: secrets("MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=")}, "secret"},
		{grapnel.Verify{Scheme: "sendgrid", Secrets: secrets("a text")}, "secret"},
		{grapnel.Verify{Scheme: "basic", Secrets: secrets("p"), Username: "u"}, ""},
		{grapnel.Verify{Scheme: "basic", Secrets: secrets("p")}, "username"},
		{grapnel.Verify{Scheme: "basic", Secrets: secrets("p"), Username: "u:v"}, "username"},
		{grapnel.Verify{Scheme: "api_key", Secrets: secrets("p")}, ""},
		{grapnel.Verify{Scheme: "api_key", Secrets: secrets("p"), Header: "Not A Header"}, "header"},
		{grapnel.Verify{Scheme: "api_key", Secrets: secrets("p"), Header: "Host"}, "header"},
		{hmacOf(func(*grapnel.Verify) {}), ""},
		{hmacOf(func(v *grapnel.Verify) { v.Secrets = secrets("hex:00ff00ff00ff00ff", "base64:AAECAwQFBgc=") }), ""},
		{hmacOf(func(v *grapnel.Verify) { v.Secrets = secrets("hex:00f", "base64:AAE") }), "secrets/0 secrets/1"},
		{hmacOf(func(v *grapnel.Verify) { v.Header = "" }), "header"},
		{hmacOf(func(v *grapnel.Verify) { v.Header = "X:Y" }), "header"},
		{hmacOf(func(v *grapnel.Verify) { v.Algorithm = "md5" }), "algorithm"},
		{hmacOf(func(v *grapnel.Verify) { v.Encoding = "base32" }), "encoding"},
		{hmacOf(func(v *grapnel.Verify) { v.Signed = "{timestamp}" }), "signed"},
		{hmacOf(func(v *grapnel.Verify) { v.Signed = "{token}{body}" }), "signed"},
		{hmacOf(func(v *grapnel.Verify) { v.Signed = "{nope}{body}" }), "signed"},
		{hmacOf(func(v *grapnel.Verify) { v.Signed = "{body" }), "signed"},
		{hmacOf(func(v *grapnel.Verify) { v.Signed = "{body}" + strings.Repeat("x", 300) }), "signed"},
		{hmacOf(func(v *grapnel.Verify) { v.Signed = "{timestamp}.{body}" }), "timestamp_header"},
		{hmacOf(func(v *grapnel.Verify) { v.Signed = "{id}.{body}" }), "id_header"},
		{hmacOf(func(v *grapnel.Verify) { v.Signed, v.TimestampHeader = "{timestamp}.{body}", "X-Time" }), ""},
		{hmacOf(func(v *grapnel.Verify) { v.Signed = "{method} {path} {url} {body}" }), ""},
		{hmacOf(func(v *grapnel.Verify) { v.Prefix = "a\nb" }), "prefix"},
		{hmacOf(func(v *grapnel.Verify) { v.Algorithm, v.Encoding, v.Signed = "x", "y", "z" }), "algorithm encoding signed"},
	} {
		got := CheckVerify(&c.v)
		if fields(got) != c.want {
			t.Errorf("%+v: %v, want %q", c.v, got, c.want)
		}
		for _, f := range got {
			for _, s := range c.v.Secrets {
				if len(s.Text) > 2 && strings.Contains(f.Detail, s.Text) {
					t.Errorf("a fault tells the secret: %v", f)
				}
			}
		}
	}
}

func TestCheckSource(t *testing.T) {
	for _, c := range []struct {
		change func(*grapnel.Source)
		want   string
	}{
		{func(*grapnel.Source) {}, ""},
		{func(s *grapnel.Source) { s.Verify.Scheme = "" }, "verify/scheme"},
		{func(s *grapnel.Source) { s.Dedupe.By = nil }, ""},
		{func(s *grapnel.Source) { s.Dedupe.By = []grapnel.DedupeBy{"event_id", "x", "event_id"} }, "dedupe/by/1 dedupe/by/2"},
		{func(s *grapnel.Source) { s.Dedupe.Window = time.Millisecond }, "dedupe/window"},
		{func(s *grapnel.Source) { s.Dedupe.Window = 365 * 24 * time.Hour }, "dedupe/window"},
		// Stripe retries for three days
		{func(s *grapnel.Source) { s.Dedupe.Window = 90*time.Hour - 1 }, "dedupe/window"},
		{func(s *grapnel.Source) { s.Dedupe.Window = 90 * time.Hour }, ""},
		{func(s *grapnel.Source) { s.Dedupe.Window, s.Dedupe.By = time.Hour, nil }, ""},
		{func(s *grapnel.Source) { s.Dedupe.Ignore = []string{"$.a", "b"} }, "dedupe/ignore/1"},
		{func(s *grapnel.Source) { s.Type, s.Key = "event.data.type", "event.nope" }, "key"},
		{func(s *grapnel.Source) { s.Type = "true" }, "type"},
		{func(s *grapnel.Source) { s.EventID = "event.data.id" }, ""},
		{func(s *grapnel.Source) { s.EventID = `event.headers["x-id"]` }, "event_id"},
		{func(s *grapnel.Source) { s.OnUnverified = "shrug" }, "on_unverified"},
		{func(s *grapnel.Source) { s.OnUnverified = grapnel.Quarantine }, ""},
		{func(s *grapnel.Source) {
			s.Verify = grapnel.Verify{Scheme: "discord", Secrets: secrets("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")}
			s.OnUnverified = grapnel.Quarantine
		}, "on_unverified"},
		{func(s *grapnel.Source) { s.PublicURL = "https://hooks.example.com/in/src_1" }, ""},
		{func(s *grapnel.Source) { s.PublicURL = "hooks.example.com" }, "public_url"},
		{func(s *grapnel.Source) { s.PublicURL = "ftp://hooks.example.com" }, "public_url"},
		{func(s *grapnel.Source) { s.PublicURL = "https://u:p@hooks.example.com" }, "public_url"},
		{func(s *grapnel.Source) { s.RateLimit = &grapnel.RateLimit{} }, "rate_limit"},
		{func(s *grapnel.Source) { s.RateLimit = &grapnel.RateLimit{PerSecond: math.NaN()} }, "rate_limit"},
		{func(s *grapnel.Source) { s.RateLimit = &grapnel.RateLimit{PerSecond: 1e-12} }, "rate_limit"},
		{func(s *grapnel.Source) { s.RateLimit = &grapnel.RateLimit{PerSecond: grapnel.MinPerSecond} }, ""},
		{func(s *grapnel.Source) {
			s.Verify = grapnel.Verify{Scheme: "hmac", Secrets: secrets("s"), Header: "X-S", TimestampHeader: "X-Time"}
		}, "verify/timestamp_header"},
		{func(s *grapnel.Source) {
			s.Verify = grapnel.Verify{Scheme: "hmac", Secrets: secrets("s"), Header: "X-S", Signed: "{body}", TimestampHeader: "X-Time"}
		}, "verify/timestamp_header"},
		{func(s *grapnel.Source) {
			s.Verify = grapnel.Verify{Scheme: "hmac", Secrets: secrets("s"), Header: "X-S", Signed: "{timestamp}{body}", TimestampHeader: "X-Time"}
		}, ""},
		{func(s *grapnel.Source) { s.MaxBody = -1 }, "max_body"},
	} {
		s := grapnel.Source{Verify: grapnel.Verify{Scheme: "stripe", Secrets: secrets("s")}, Dedupe: grapnel.Dedupe{By: everyKind}}
		c.change(&s)
		if got := CheckSource(&s); fields(got) != c.want {
			t.Errorf("%+v: %v, want %q", s, got, c.want)
		}
	}
}

// TestNewSecretsHaveALeastLength: new secrets have a least length. Existing shorter ones keep
// working, see TestOldSettingsGoOn.
func TestNewSecretsHaveALeastLength(t *testing.T) {
	for _, c := range []struct {
		scheme, text string
		ok           bool
	}{
		{"hmac", "1234567", false}, {"hmac", "12345678", true}, {"hmac", "hex:00112233445566", false}, {"hmac", "hex:0011223344556677", true},
		{"hmac", "base64:AAECAwQFBg==", false}, {"hmac", "base64:AAECAwQFBgc=", true}, {"api_key", "s", false}, {"basic", "password", true},
		{"basic", "pass", false}, {"github", "hush", false}, {"standard", "whsec_AAECAwQFBgc=", true}, {"none", "", true}, {"nope", "", true},
		{"discord", "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8", true},
	} {
		if got := scheme.CheckSecret(c.scheme, c.text); (got == "") != c.ok || len(c.text) > 1 && strings.Contains(got, c.text) {
			t.Errorf("%s: %q: %s", c.scheme, c.text, got)
		}
	}
}

// TestOldSettingsGoOn: a source from before these rules works unchanged.
func TestOldSettingsGoOn(t *testing.T) {
	w := newWorld(t)
	w.sources["src_1"] = grapnel.Source{
		ID:       "src_1",
		Tenant:   "acme",
		Revision: 1,
		Verify: grapnel.Verify{Scheme: "hmac", Secrets: secrets("s"), Header: "X-S",
			TimestampHeader: "X-Time"},
		RateLimit: &grapnel.RateLimit{PerSecond: 1e-12, Burst: 2},
	}
	for i, want := range []int{http.StatusAccepted, http.StatusAccepted, http.StatusTooManyRequests} {
		body := fmt.Sprint(i)
		mac := hmac.New(sha256.New, []byte("s"))
		mac.Write([]byte(body))
		if got := w.post(body, "X-S", hex.EncodeToString(mac.Sum(nil)), "X-Time", fmt.Sprint(w.now.Unix())); got.status != want {
			t.Errorf("answered %d %s", got.status, got.body)
		}
	}
}

// The default window is long enough for every provider, and the table is complete.
func TestSchemes(t *testing.T) {
	for _, s := range scheme.All() {
		if least := leastWindow(scheme.Find(s.Name)); least > grapnel.DefaultDedupeWindow {
			t.Errorf("%s goes on for %s; the default window is too short", s.Name, s.RetriesFor)
		}
		if s.Title == "" || s.Signature == "" || s.Type == "" {
			t.Errorf("%s is not described: %+v", s.Name, s)
		}
		if (s.Needs == "") != (scheme.Find(s.Name).Proof == scheme.ByNothing) {
			t.Errorf("%s: nobody knows what the secret is", s.Name)
		}
		if s.Docs == "" && s.Checked != "" || (s.Docs != "") != (s.Retries != "") || s.RetriesFor > 0 && s.Retries == "" {
			t.Errorf("%s: when was it compared with what, and how does it go on trying? %+v", s.Name, s)
		}
		if one, ok := scheme.Of(s.Name); !ok || fmt.Sprint(one) != fmt.Sprint(s) {
			t.Errorf("%s is described in two ways", s.Name)
		}
	}
	if _, ok := scheme.Of("nope"); ok {
		t.Error("nope is a scheme")
	}
}
