package byhand

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// settings are those of a source of a scheme, with a new key that signs.
func settings(t *testing.T, name string) scheme.Settings {
	t.Helper()
	v := scheme.Settings{Scheme: name, Secrets: []scheme.Secret{{Text: "correct horse battery"}}}
	var private any
	var err error
	switch name {
	case "none":
		v.Secrets = nil
	case "hmac":
		v.Header, v.Signed, v.TimestampHeader, v.IDHeader = "X-Signature", "{id}.{timestamp}.{body}", "X-Time", "X-Id"
	case "basic":
		v.Username = "acme"
	case "standard", "svix", "gitlab":
		v.Secrets[0].Text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	case "adyen":
		v.Secrets[0].Text = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	case "discord":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case "sendgrid":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if private != nil {
		der, wrong := x509.MarshalPKCS8PrivateKey(private)
		if err = errors.Join(err, wrong); err == nil {
			v.Secrets[0].Text = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// receiving are the settings with which a source verifies what others sign.
func receiving(t *testing.T, v scheme.Settings) scheme.Settings {
	t.Helper()
	v.Secrets = append([]scheme.Secret(nil), v.Secrets...)
	for i := range v.Secrets {
		half, err := scheme.PublicHalf(v.Scheme, v.Secrets[i].Text)
		if err != nil {
			t.Fatal(err)
		}
		v.Secrets[i].Text = half
	}
	return v
}

// signedRequest is a signed request of a type, or of the scheme's first.
func signedRequest(t *testing.T, v *scheme.Settings, kind string, overrides ...Override) *scheme.Webhook {
	t.Helper()
	fixtures, err := Fixtures(v.Scheme)
	if err != nil || len(fixtures) == 0 {
		t.Fatalf("%s has %d fixtures: %v", v.Scheme, len(fixtures), err)
	}
	for _, f := range fixtures {
		if kind != "" && f.Type != kind {
			continue
		}
		r, err := f.Request("https://hooks.example.com/in/src_1?a=b", now, rand.Reader, overrides)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Sign(r, now, "id_1"); err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Fatalf("%s has no fixture %s", v.Scheme, kind)
	return nil
}

// TestEveryFixtureVerifies: each scheme has fixtures, each is signed as its source verifies, and
// nothing of a template is left in a request.
func TestEveryFixtureVerifies(t *testing.T) {
	template := regexp.MustCompile(`\$\{|"#|\[[aAbBdhHu]\d*\]|%24%7B`)
	for _, one := range scheme.All() {
		v := settings(t, one.Name)
		public := receiving(t, v)
		fixtures, err := Fixtures(one.Name)
		if err != nil || len(fixtures) < 2 {
			t.Fatalf("%s has %d fixtures: %v", one.Name, len(fixtures), err)
		}
		for _, f := range fixtures {
			r := signedRequest(t, &v, f.Type)
			checks, ok, err := public.Check(r, now)
			if err != nil || !ok || f.About == "" {
				t.Errorf("%s %s: %v %v", one.Name, f.Type, checks, err)
			}
			// The name of an order of Shopify begins so.
			if left := template.FindString(strings.ReplaceAll(string(r.Body), `"#1042"`, "")); left != "" {
				t.Errorf("%s %s: %q is left in %s", one.Name, f.Type, left, r.Body)
			}
			for name := range r.Header {
				if left := template.FindString(r.Header.Get(name)); left != "" {
					t.Errorf("%s %s: %q is left in %s", one.Name, f.Type, left, name)
				}
			}
			if f.Form == nil && !json.Valid(r.Body) {
				t.Errorf("%s %s: no JSON: %s", one.Name, f.Type, r.Body)
			}
			if again := signedRequest(t, &v, f.Type); bytes.Equal(again.Body, r.Body) && maps.EqualFunc(again.Header, r.Header, slices.Equal) {
				t.Errorf("%s %s: two requests have the same ids", one.Name, f.Type)
			}
		}
	}
	for name := range must(all()) {
		if _, known := scheme.Of(name); !known {
			t.Errorf("there are fixtures of %s, which is no scheme", name)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestOverridesKeepKindsAndReferences: an override changes a value at each of its
// places, and keeps the kind.
func TestOverridesKeepKindsAndReferences(t *testing.T) {
	v := settings(t, "stripe")
	r := signedRequest(t, &v, "payment_intent.succeeded", Override{"data.object.amount", "5"}, Override{"data.object.id", "pi_mine"},
		Override{"data.object.metadata.order_id", `a "b" ${event} [a24] <ü>`}, Override{"livemode", "true"},
		Override{"data.object.payment_method_types", `["sepa_debit","card"]`})
	for path, want := range map[string]string{
		"data.object.amount": "5", "data.object.amount_received": "5", "data.object.id": `"pi_mine"`,
		"data.object.client_secret": `"pi_mine_secret_test"`, "livemode": "true", "data.object.livemode": "false",
		"data.object.payment_method_types.#": "2",
	} {
		if got := gjson.GetBytes(r.Body, path).Raw; got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if got := gjson.GetBytes(r.Body, "data.object.metadata.order_id").Str; got != `a "b" ${event} [a24] <ü>` {
		t.Errorf("the text became %q", got)
	}
	v = settings(t, "github")
	r = signedRequest(t, &v, "push", Override{"base_ref", "refs/heads/x"}, Override{"commits.0.distinct", "false"}, Override{"repository.id", "7"})
	if gjson.GetBytes(r.Body, "base_ref").Str != "refs/heads/x" || gjson.GetBytes(r.Body, "commits.0.distinct").Raw != "false" ||
		r.Header.Get("X-GitHub-Hook-Installation-Target-ID") != "7" {
		t.Errorf("%s %s", r.Header, r.Body)
	}
	v = settings(t, "slack")
	r = signedRequest(t, &v, "block_actions", Override{"payload.actions.0.value", "a&b=c"})
	form, _ := url.ParseQuery(string(r.Body))
	if got := gjson.Get(form.Get("payload"), "actions.0.value").Str; got != "a&b=c" {
		t.Errorf("the form has %q", got)
	}
	for _, c := range []struct{ path, value, want string }{
		{"data.object.amount", "five", "is a number"}, {"data.object.amount", `"5"`, "is a number"}, {"livemode", "1", "is true or false"},
		{"data.object.metadata", "[]", "is an object"}, {"data.object.payment_method_types", "{}", "is an array"},
		{"data.object.amuont", "5", "the body has no data.object.amuont"}, {"data", "x", "is an object"},
	} {
		f := must(Fixtures("stripe"))[0]
		_, err := f.Request("https://x.example", now, rand.Reader, []Override{{c.path, c.value}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %s", c.path, c.value, err, c.want)
		}
		var none *Unmatched
		if errors.As(err, &none) && !strings.Contains(strings.Join(none.Has, " "), "data.object.amount ") {
			t.Errorf("the paths lack some: %v", none.Has)
		}
	}
}

// TestASecondSignatureReplacesTheFirst: a request can be signed again, at another time.
func TestASecondSignatureReplacesTheFirst(t *testing.T) {
	for _, one := range scheme.All() {
		v := settings(t, one.Name)
		public := receiving(t, v)
		r := signedRequest(t, &v, "")
		was := r.Header.Clone()
		if err := v.Sign(r, now.Add(time.Hour), "id_2"); err != nil {
			t.Fatal(err)
		}
		if checks, ok, err := public.Check(r, now.Add(time.Hour)); !ok || err != nil {
			t.Errorf("%s: %v %v", one.Name, checks, err)
		}
		for _, name := range []string{"Webhook-Id", "Svix-Id", "X-Id"} {
			if was.Get(name) != r.Header.Get(name) {
				t.Errorf("%s: the second signature changes the id", one.Name)
			}
		}
	}
}

// TestWhatCannotSign: errors name the kind of key and never have the secret.
func TestWhatCannotSign(t *testing.T) {
	for _, c := range []struct{ scheme, secret, want string }{
		{"stripe", "", "needs a secret"}, {"nope", "hunter22", "is none of"}, {"standard", "whpk_hunter22", "cannot sign"},
		{"discord", "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8", "openssl genpkey -algorithm ed25519"},
		{"sendgrid", "hunter22", "P-256"}, {"adyen", "hunter22", "is not hexadecimal"},
	} {
		v := scheme.Settings{Scheme: c.scheme}
		if c.secret != "" {
			v.Secrets = []scheme.Secret{{Text: c.secret}}
		}
		err := v.Sign(&scheme.Webhook{Method: http.MethodPost, URL: "https://x.example", Header: http.Header{}, Body: []byte("{}")}, now, "i")
		if err == nil || !strings.Contains(err.Error(), c.want) || c.secret != "" && strings.Contains(err.Error(), c.secret) {
			t.Errorf("%s: %v, want %s", c.scheme, err, c.want)
		}
	}
}
