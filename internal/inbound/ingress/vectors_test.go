package ingress

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio signs with it
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// Every scheme is tested with requests that its provider, or one of the provider's libraries, has
// signed, and with forgeries of them made without the secret.

func TestEverySchemeHasVectors(t *testing.T) {
	has := map[string]bool{}
	for _, v := range vectors(t) {
		has[v.scheme] = true
	}
	for _, s := range scheme.All() {
		if !has[s.Name] {
			t.Errorf("%s has no vectors", s.Name)
		}
		delete(has, s.Name)
	}
	for name := range has {
		t.Errorf("there are vectors for %s, which is no scheme", name)
	}
}

func each(t *testing.T, test func(t *testing.T, v vector)) {
	t.Helper()
	for _, v := range vectors(t) {
		t.Run(v.scheme+"/"+v.Name, func(t *testing.T) { test(t, v) })
	}
}

func TestVectorsBecomeEvents(t *testing.T) {
	each(t, func(t *testing.T, v vector) {
		w := v.world(t, v.Verify.Secrets...)
		got := w.send(v.request())
		if got.status != success(v.scheme) || got.Duplicate || len(w.events) != 1 {
			t.Fatalf("answered %d %s", got.status, got.body)
		}
		ev := w.events[0]
		if got.ID != ev.ID || ev.Type != v.Want.Type || ev.Key != v.Want.Key || string(ev.Data) != v.Body {
			t.Errorf("type %q, key %q, data %q; want %q and %q", ev.Type, ev.Key, ev.Data, v.Want.Type, v.Want.Key)
		}
		if ev.Source != "src_1" || ev.Tenant != "acme" || ev.ContentType != v.Headers["Content-Type"] {
			t.Errorf("source %q, tenant %q, content type %q", ev.Source, ev.Tenant, ev.ContentType)
		}
		how := ev.Intake
		by := v.Want.By
		if by == "" {
			by = grapnel.ByEventID
		}
		if how.By != by || v.Want.ID != "" && how.Known != v.Want.ID || how.Known == "" {
			t.Errorf("known by %s %q, want %s %q", how.By, how.Known, by, v.Want.ID)
		}
		for _, c := range how.Checks {
			if !c.Passed {
				t.Errorf("check %q failed", c.Text)
			}
		}
		if last := how.Checks[len(how.Checks)-1]; !v.ProvesNothing && !strings.HasSuffix(last.Text, "secret 1 of 1") && v.scheme != "twilio" {
			t.Errorf("the last check says %q", last.Text)
		}
		// This vector is deduplicated by its delivery id alone.
		if v.Want.Delivery != "" || v.Want.ID != "" {
			w := v.world(t, v.Verify.Secrets...)
			w.source(v.verify(v.Verify.Secrets...), func(s *grapnel.Source) {
				s.PublicURL, s.Dedupe.By = v.PublicURL, []grapnel.DedupeBy{grapnel.ByDeliveryID}
			})
			w.send(v.request())
			want := v.Want.Delivery
			if want == "" {
				want = v.Want.ID
			}
			if how := w.events[0].Intake; how.Known != want || how.By != grapnel.ByDeliveryID {
				t.Errorf("known by %s %q, want delivery %q", how.By, how.Known, want)
			}
		}
	})
}

func TestARepeatedVectorIsADuplicate(t *testing.T) {
	each(t, func(t *testing.T, v vector) {
		w := v.world(t, v.Verify.Secrets...)
		first := w.send(v.request())
		again := w.send(v.request())
		if again.status != http.StatusOK || !again.Duplicate || again.ID != first.ID || again.Conflict || len(w.events) != 1 ||
			len(w.asides) != 0 {
			t.Errorf("answered %d %s after %s", again.status, again.body, first.body)
		}
	})
}

// denied sends a request that must not be accepted, to a source that refuses and to one that
// quarantines, and returns the checks.
func (v *vector) denied(t *testing.T, what string, now time.Time, texts []string, change func(*http.Request)) []grapnel.Check {
	t.Helper()
	w := v.world(t, texts...)
	w.now = now
	r := v.request()
	change(r)
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	got := w.send(r)
	if got.status != http.StatusUnauthorized || len(w.events) != 0 || len(w.asides) != 0 || len(w.known) != 0 {
		t.Errorf("%s: answered %d %s", what, got.status, got.body)
	}
	for _, text := range texts {
		if strings.Contains(got.body, text) {
			t.Errorf("%s: the answer tells the secret", what)
		}
	}
	if v.scheme == "discord" { // it expects a refusal
		return w.receiver.checks(w, r, raw)
	}
	w.source(v.verify(texts...), func(s *grapnel.Source) { s.PublicURL, s.OnUnverified = v.PublicURL, grapnel.Quarantine })
	r.Body = io.NopCloser(bytes.NewReader(raw))
	got = w.send(r)
	if got.status != success(v.scheme) || !got.Quarantined || len(w.events) != 0 || len(w.asides) != 1 || len(w.known) != 0 {
		t.Fatalf("%s: answered %d %s", what, got.status, got.body)
	}
	aside := w.asides[0]
	kept := raw[:min(len(raw), w.receiver.o.Bounds.AsideBody)]
	if aside.Why != grapnel.AsideUnverified || string(aside.Body) != string(kept) || aside.ID != got.ID || aside.Size != len(kept) ||
		aside.By != "" {
		t.Errorf("%s: kept as %+v", what, aside)
	}
	failed := 0
	for _, c := range aside.Checks {
		if !c.Passed {
			failed++
		}
	}
	if failed == 0 {
		t.Errorf("%s: no check says why: %v", what, aside.Checks)
	}
	return aside.Checks
}

// checks are the checks of a request's verification.
func (recv *Receiver) checks(w *world, r *http.Request, body []byte) []grapnel.Check {
	in := &incoming{r: r, header: r.Header, body: body, now: w.now, source: recv.source("src_1")}
	in.verify()
	return in.checks
}

func setBody(body string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
}

// proofs are the headers without which a vector cannot be verified.
func (v *vector) proofs() []string {
	var names []string
	for name := range v.Headers {
		switch strings.ToLower(name) {
		case "stripe-signature", "x-hub-signature-256", "x-shopify-hmac-sha256", "x-slack-signature", "x-twilio-signature", "paddle-signature",
			"linear-signature", "x-zendesk-webhook-signature", "x-signature-ed25519", "webhook-signature", "svix-signature", "x-gitlab-token",
			"x-zm-signature", "x-twilio-email-event-webhook-signature", "x-signature", "x-acme-signature", "hmacsignature",
			"x-square-hmacsha256-signature", "authorization", "x-api-key":
			names = append(names, name)
		}
	}
	return names
}

func TestTamperedVectorsAreNotBelieved(t *testing.T) {
	each(t, func(t *testing.T, v vector) {
		if v.ProvesNothing {
			t.Skip("the scheme accepts every request")
		}
		now := time.Unix(v.Now, 0)
		if !v.BodyUnsigned {
			for i := range len(v.Body) {
				if i > 40 && i < len(v.Body)-40 {
					continue
				}
				changed := []byte(v.Body)
				changed[i] ^= 1
				if v.scheme == "twilio" && sameForm(v.Body, string(changed)) {
					continue // + for %20: the form decodes to the same
				}
				v.denied(t, fmt.Sprint("byte ", i, " changed"), now, v.Verify.Secrets, setBody(string(changed)))
			}
			v.denied(t, "a truncated body", now, v.Verify.Secrets, setBody(v.Body[:len(v.Body)-1]))
			v.denied(t, "no body", now, v.Verify.Secrets, setBody(""))
			v.denied(t, "a longer body", now, v.Verify.Secrets, setBody(v.Body+"&x=1"))
		}
		proofs := v.proofs()
		if len(proofs) == 0 && v.scheme != "mailgun" && v.scheme != "adyen" {
			t.Fatal("the test does not know where the signature is")
		}
		for _, name := range proofs {
			value := v.Headers[name]
			end := len(value)
			for _, i := range []int{end - 3, end - 12, end - 20} {
				if i < 0 {
					continue
				}
				changed := []byte(value)
				changed[i] = 'A' + (changed[i]+1)%26
				if strings.EqualFold(string(changed), value) && v.scheme != "api_key" {
					continue
				}
				v.denied(t, fmt.Sprint(name, " changed"), now, v.Verify.Secrets, func(r *http.Request) { r.Header.Set(name, string(changed)) })
			}
			v.denied(t, name+" truncated", now, v.Verify.Secrets, func(r *http.Request) { r.Header.Set(name, value[:end-1]) })
			v.denied(t, name+" empty", now, v.Verify.Secrets, func(r *http.Request) { r.Header.Set(name, "") })
			v.denied(t, name+" missing", now, v.Verify.Secrets, func(r *http.Request) { r.Header.Del(name) })
			v.denied(t, name+" twice", now, v.Verify.Secrets, func(r *http.Request) { r.Header.Add(name, value) })
			v.denied(t, name+" of half the length", now, v.Verify.Secrets, func(r *http.Request) { r.Header.Set(name, value[:end/2]) })
		}
		if v.scheme == "mailgun" {
			for _, part := range []string{"signature", "token", "timestamp"} {
				broken := strings.Replace(v.Body, part, "x"+part, 1)
				if strings.HasPrefix(v.Headers["Content-Type"], "application/json") && part == "signature" {
					broken = strings.Replace(v.Body, `"signature": "`, `"signature": "0`, 1)
				}
				v.denied(t, part+" broken", now, v.Verify.Secrets, setBody(broken))
			}
		}
	})
}

// TestAdyenSignsFields: each signed field counts, and two readers find the same ones.
func TestAdyenSignsFields(t *testing.T) {
	for _, v := range vectors(t) {
		if v.scheme != "adyen" {
			continue
		}
		change := func(what, from, to string) {
			body := strings.Replace(v.Body, from, to, 1)
			if body == v.Body {
				body = strings.Replace(v.Body, strings.ReplaceAll(from, ": ", ":"), to, 1)
			}
			if body == v.Body {
				t.Errorf("%s: the body has no %s", what, from)
			}
			v.denied(t, what, time.Unix(v.Now, 0), v.Verify.Secrets, setBody(body))
		}
		for _, name := range []string{"pspReference", "merchantAccountCode", "merchantReference", "currency", "eventCode", "success",
			"hmacSignature"} {
			change(name, `"`+name+`": "`, `"`+name+`":"0`)
			change(name+" missing", `"`+name+`"`, `"x`+name+`"`)
			change(name+" twice", `"`+name+`"`, `"`+name+`":"x","`+name+`"`)
			change(name+" in two cases", `"`+name+`"`, `"`+strings.ToUpper(name)+`":"x","`+name+`"`)
		}
		change("value", `"value": 1`, `"value": 2`)
		change("no item", `[{`, `[],"x":[{`)
		change("two items", `[{`, `[{},{`)
		change("items twice", `"notificationItems"`, `"notificationItems":[],"notificationItems"`)
		v.denied(
			t,
			"a colon that moves",
			time.Unix(v.Now, 0),
			v.Verify.Secrets,
			setBody(strings.NewReplacer(`TestMerchant`, "Test:Merchant").Replace(v.Body)),
		)
	}
}

func sameForm(a, b string) bool {
	return strings.ReplaceAll(a, "%20", "+") == strings.ReplaceAll(b, "%20", "+")
}

// signedAt is the time that the vector carries. Checks tell whole seconds; a body that has the time
// in milliseconds says the rest.
func (v *vector) signedAt(t *testing.T) time.Time {
	t.Helper()
	w := v.world(t, v.Verify.Secrets...)
	w.send(v.request())
	var signed time.Time
	for _, c := range w.events[0].Intake.Checks {
		var age int
		if n, _ := fmt.Sscanf(c.Text, "timestamp %d s old", &age); n == 1 {
			signed = w.now.Add(-time.Duration(age) * time.Second)
		}
	}
	if signed.IsZero() {
		t.Fatalf("no check says how old it is: %v", w.events[0].Intake.Checks)
	}
	for _, digits := range milliseconds.FindAllString(v.Body, -1) {
		n, _ := strconv.ParseInt(digits, 10, 64)
		if at := time.UnixMilli(n); v.StampedInBody && signed.Sub(at) > 0 && signed.Sub(at) < time.Second {
			return at
		}
	}
	return signed
}

var milliseconds = regexp.MustCompile(`\b\d{13}\b`)

func TestVectorsOfAnotherTimeAreNotBelieved(t *testing.T) {
	each(t, func(t *testing.T, v vector) {
		if !timed(v.scheme) && v.Verify.TimestampHeader == "" || v.scheme == "gitlab" && v.Headers["X-Gitlab-Token"] != "" {
			t.Skip("nothing is dated")
		}
		signed := v.signedAt(t)
		for _, c := range []struct {
			at      time.Duration
			allowed bool
			says    string
		}{
			{300 * time.Second, true, "timestamp 300 s old"},
			{301 * time.Second, false, "timestamp 301 s old, more than 300 s"},
			{-300 * time.Second, true, "timestamp 300 s in the future"},
			{-301 * time.Second, false, "timestamp 301 s in the future, more than 300 s"},
			{30 * 24 * time.Hour, false, "timestamp 30 days old, more than 300 s"},
		} {
			if c.allowed {
				w := v.world(t, v.Verify.Secrets...)
				w.now = signed.Add(c.at)
				if got := w.send(v.request()); got.status != success(v.scheme) {
					t.Errorf("%s off: answered %d %s", c.at, got.status, got.body)
				} else if !says(w.events[0].Intake.Checks, c.says) {
					t.Errorf("%s off: %v", c.at, w.events[0].Intake.Checks)
				}
				continue
			}
			// A stale but validly signed request reports both steps.
			checks := v.denied(t, c.at.String(), signed.Add(c.at), v.Verify.Secrets, func(*http.Request) {})
			if !says(checks, c.says) || !says(checks, "signature matches secret 1 of 1") {
				t.Errorf("%s off: %v", c.at, checks)
			}
		}
	})
}

func says(checks []grapnel.Check, text string) bool {
	return slices.ContainsFunc(checks, func(c grapnel.Check) bool { return c.Text == text })
}

// other is a wrong secret of the same kind.
func other(text string) string {
	public := ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey)
	if strings.HasPrefix(text, "whpk_") {
		return "whpk_" + base64.StdEncoding.EncodeToString(public)
	}
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == ed25519.PublicKeySize {
		return hex.EncodeToString(public)
	}
	// a key on P-256
	if der, err := base64.StdEncoding.DecodeString(text); err == nil && len(der) == 91 {
		return "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjcMMsTbhdbcwHBcepxo7yAQGhHPTnlvFYPAZFceEu/1FwCM/QmGUhA=="
	}
	form := regexp.MustCompile(`^(whsec_|hex:|base64:)?`).FindString(text)
	if form == "hex:" {
		return form + "00" + text[len(form)+2:]
	}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, form)); err == nil {
		raw[0] ^= 1
		return form + base64.StdEncoding.EncodeToString(raw)
	}
	return text + "x"
}

func TestWrongAndRolledSecrets(t *testing.T) {
	each(t, func(t *testing.T, v vector) {
		if v.ProvesNothing {
			t.Skip("there is no secret")
		}
		right := v.Verify.Secrets[0]
		checks := v.denied(t, "another secret", time.Unix(v.Now, 0), []string{other(right)}, func(*http.Request) {})
		if !slices.ContainsFunc(checks, func(c grapnel.Check) bool { return !c.Passed && strings.HasSuffix(c.Text, "matches no secret") }) {
			t.Errorf("another secret: %v", checks)
		}
		w := v.world(t, other(right), right)
		if got := w.send(v.request()); got.status != success(v.scheme) {
			t.Fatalf("with the right secret as the second: answered %d %s", got.status, got.body)
		}
		checks = w.events[0].Intake.Checks
		if last := checks[len(checks)-1]; !strings.HasSuffix(last.Text, "matches secret 2 of 2") {
			t.Errorf("the last check says %q", last.Text)
		}
		// An expired secret does not verify, and the record names it.
		w = v.world(t, other(right), right)
		s := w.sources["src_1"]
		s.Verify.Secrets[1].ExpiresAt = w.now.Add(-time.Minute)
		s.Revision++
		w.sources["src_1"] = s
		if got := w.send(v.request()); got.status != http.StatusUnauthorized || !strings.Contains(got.Detail, "expired 60 s ago") {
			t.Errorf("with an expired secret: answered %d %s", got.status, got.body)
		}
		s.Verify.Secrets[1].ExpiresAt = w.now.Add(time.Nanosecond)
		s.Revision++
		w.sources["src_1"] = s
		if got := w.send(v.request()); got.status != success(v.scheme) {
			t.Errorf("with a secret about to expire: answered %d %s", got.status, got.body)
		}
	})
}

// Signed headers cannot be changed without a new signature.
func TestWhatIsSignedBesideTheBody(t *testing.T) {
	signed := map[string][]string{
		"standard": {"webhook-id", "webhook-timestamp"},
		"svix":     {"svix-id", "svix-timestamp"},
		"slack": {
			"X-Slack-Request-Timestamp",
		},
		"zendesk":  {"X-Zendesk-Webhook-Signature-Timestamp"},
		"discord":  {"X-Signature-Timestamp"},
		"zoom":     {"x-zm-request-timestamp"},
		"sendgrid": {"X-Twilio-Email-Event-Webhook-Timestamp"},
		"hmac":     {"X-Acme-Time", "X-Acme-Id"},
	}
	each(t, func(t *testing.T, v vector) {
		tried := false
		for _, name := range signed[v.scheme] {
			value, there := v.Headers[name]
			if !there {
				continue
			}
			tried = true
			changed := []byte(value)
			changed[len(changed)-1] ^= 1
			if strings.HasSuffix(value, "Z") {
				changed = []byte(strings.Replace(value, ":27Z", ":28Z", 1))
			}
			v.denied(t, name+" changed", time.Unix(v.Now, 0), v.Verify.Secrets, func(r *http.Request) { r.Header.Set(name, string(changed)) })
			v.denied(t, name+" missing", time.Unix(v.Now, 0), v.Verify.Secrets, func(r *http.Request) { r.Header.Del(name) })
		}
		if !tried {
			t.Skip("nothing beside the body is signed in a header")
		}
	})
}

// The id of a request is the signed one: a Svix-Id beside a signed Webhook-Id makes no other event.
func TestTheSignedIDCounts(t *testing.T) {
	each(t, func(t *testing.T, v vector) {
		if v.scheme != "svix" || v.Headers["webhook-id"] == "" {
			t.Skip("not a request of Svix under the neutral names")
		}
		v.denied(t, "Svix-Id added", time.Unix(v.Now, 0), v.Verify.Secrets, func(r *http.Request) { r.Header.Set("Svix-Id", "another") })
	})
}

func TestNothingSecretIsKept(t *testing.T) {
	each(t, func(t *testing.T, v vector) {
		w := v.world(t, v.Verify.Secrets...)
		r := v.request()
		r.Header.Set("Cookie", "session=of-somebody")
		if v.Headers["Authorization"] == "" {
			r.Header.Set("Authorization", "Bearer of-somebody")
		}
		if got := w.send(r); got.status != success(v.scheme) {
			t.Fatalf("answered %d %s", got.status, got.body)
		}
		kept := fmt.Sprintf("%+v", *w.events[0].Intake)
		for _, text := range append(v.Verify.Secrets, "of-somebody") {
			if strings.Contains(kept, text) {
				t.Errorf("the record has a secret: %s", kept)
			}
		}
		if password := v.Headers["Authorization"]; password != "" && strings.Contains(kept, password) {
			t.Error("the record has a password")
		}
		if !strings.Contains(kept, redacted) || !strings.Contains(kept, "Content-Type") {
			t.Errorf("the record lacks headers: %s", kept)
		}
	})
}

// TestTwilioSettings: the header that names the algorithm is used as Twilio's library uses it, and
// no name makes a signature of another algorithm valid.
func TestTwilioSettings(t *testing.T) {
	const settings = "X-Twilio-Webhooks-Signature-Settings"
	tried := map[bool]int{}
	each(t, func(t *testing.T, v vector) {
		said := v.Headers[settings]
		if v.scheme != "twilio" {
			return
		}
		strong := strings.Contains(strings.ToUpper(said), "HMAC_SHA256")
		tried[strong]++
		others := []string{
			"key=k,algorithm=HMAC_SHA256",
			"key=k,algorithm=HMAC_SHA512",
			"algorithm=none",
			"algorithm=HMAC_SHA512,algorithm=HMAC_SHA1",
			"algorithm==HMAC_SHA1",
		}
		if strong {
			others = append(others[1:], "", "key=k", "key=k,algorithm=HMAC_SHA1", "algorithm=HMAC_SHA1,algorithm=HMAC_SHA256")
		}
		for _, other := range others {
			v.denied(t, "settings "+other, time.Unix(v.Now, 0), v.Verify.Secrets, func(r *http.Request) { r.Header.Set(settings, other) })
		}
		v.denied(t, "settings twice", time.Unix(v.Now, 0), v.Verify.Secrets, func(r *http.Request) { r.Header[settings] = []string{said, said} })
	})
	if tried[true] < 3 || tried[false] < 3 {
		t.Errorf("tried %v", tried)
	}
}

// TestWhereAProviderSends: a signature over the URL is valid for the source's own address, else for
// the server's, else for the request's. A source with an address accepts no other.
func TestWhereAProviderSends(t *testing.T) {
	each(t, func(t *testing.T, v vector) {
		if v.scheme != "twilio" || v.PublicURL != "" {
			return
		}
		for public, want := range map[string]int{"": http.StatusAccepted, "https://elsewhere.example": http.StatusUnauthorized} {
			w := v.world(t, v.Verify.Secrets...)
			w.source(v.verify(v.Verify.Secrets...), func(s *grapnel.Source) { s.PublicURL = public })
			r := v.request()
			at := *r.URL
			origin := at.Scheme + "://" + at.Host
			if at.Host == "" {
				origin = "https://" + r.Host
			}
			r.Host, r.URL.Host = "10.0.0.7:8420", ""
			if got := w.send(r.Clone(r.Context())); got.status != http.StatusUnauthorized {
				t.Errorf("at an address that was not signed: answered %d", got.status)
			}
			w.receiver.o.Origin = func(*http.Request) string { return origin }
			r.Body = io.NopCloser(strings.NewReader(v.Body))
			if got := w.send(r); got.status != want {
				t.Errorf("with the source's address %q and the server's %s: answered %d %s", public, origin, got.status, got.body)
			}
		}
	})
}

// TestAProvidersURLWithAQuery: a source's address may have a query. A provider that adds to the
// query signs all of it. A signature that covers less of the query is refused.
func TestAProvidersURLWithAQuery(t *testing.T) {
	tried := 0
	each(t, func(t *testing.T, v vector) {
		asked, hash, hashed := strings.Cut(v.URL, "&bodySHA256=")
		if v.scheme != "twilio" || !hashed {
			return
		}
		tried++
		w := v.world(t, v.Verify.Secrets...)
		w.source(v.verify(v.Verify.Secrets...), func(s *grapnel.Source) { s.PublicURL = asked })
		r := v.request()
		r.Host = "10.0.0.7:8420"
		if got := w.send(r); got.status != http.StatusAccepted {
			t.Errorf("with the address %s, and bodySHA256=%s added: answered %d %s", asked, hash, got.status, got.body)
		}
		r = v.request()
		mac := hmac.New(sha1.New, []byte(v.Verify.Secrets[0]))
		mac.Write([]byte(asked))
		r.Header.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		if got := w.send(r); got.status != http.StatusUnauthorized {
			t.Errorf("with a signature that covers no body: answered %d %s", got.status, got.body)
		}
	})
	if tried == 0 {
		t.Error("no vector has a query and a hash")
	}
}

// timed says whether a scheme has a timestamp that is checked.
func timed(name string) bool {
	s, _ := scheme.Of(name)
	return s.Tolerance
}
