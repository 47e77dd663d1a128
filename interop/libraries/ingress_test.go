package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	paddle "github.com/PaddleHQ/paddle-go-sdk/v4"
	"github.com/bwmarrin/discordgo"
	"github.com/google/go-github/v74/github"
	sendgrid "github.com/sendgrid/sendgrid-go/helpers/eventwebhook"
	"github.com/slack-go/slack"
	stripe "github.com/stripe/stripe-go/v83/webhook"
	svix "github.com/svix/svix-webhooks/go"
	twilio "github.com/twilio/twilio-go/client"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
)

// provider signs requests, and knows its official library's verdict on them.
type provider struct {
	scheme   string
	secret   string // of the source
	media    string // empty: JSON
	sign     func(h http.Header, body []byte, now time.Time)
	official func(r *http.Request, body []byte) bool
	stricter bool // Grapnel checks the timestamp, the library does not
}

const address = "https://hooks.example.com/in/src_1?a=1&b=2"

// The secrets are test values.
const (
	someSecret = "a-secret-that-nobody-has"
	short      = "AAECAwQFBgcICQoLDA0ODw==" // 16 bytes, without a prefix
	whsec      = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
)

func hmacOf(secret string, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

func unix(now time.Time) []byte { return strconv.AppendInt(nil, now.Unix(), 10) }

func providers(t *testing.T) []provider {
	t.Helper()
	hook, err := svix.NewWebhook(whsec)
	if err != nil {
		t.Fatal(err)
	}
	shortHook, err := svix.NewWebhook(short)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&curve.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	public := private.Public().(ed25519.PublicKey)
	paddles := paddle.NewWebhookVerifier(someSecret, paddle.VerifierWithTimestampTolerance(300*time.Second))
	phone := twilio.NewRequestValidator(someSecret)
	return []provider{
		{
			scheme: "stripe", secret: someSecret,
			sign: func(h http.Header, body []byte, now time.Time) {
				signed := stripe.GenerateTestSignedPayload(&stripe.UnsignedPayload{Payload: body, Secret: someSecret, Timestamp: now})
				h.Set("Stripe-Signature", signed.Header)
			},
			official: func(r *http.Request, body []byte) bool {
				return stripe.ValidatePayload(body, r.Header.Get("Stripe-Signature"), someSecret) == nil
			},
		},
		{
			scheme: "svix", secret: whsec,
			sign: func(h http.Header, body []byte, now time.Time) {
				signature, err := hook.Sign("msg_1", now, body)
				if err != nil {
					t.Fatal(err)
				}
				h.Set("svix-id", "msg_1")
				h.Set("svix-timestamp", string(unix(now)))
				h.Set("svix-signature", signature)
			},
			official: func(r *http.Request, body []byte) bool { return hook.Verify(body, r.Header) == nil },
		},
		{
			scheme: "svix", secret: short,
			sign: func(h http.Header, body []byte, now time.Time) {
				signature, err := shortHook.Sign("msg_1", now, body)
				if err != nil {
					t.Fatal(err)
				}
				h.Set("webhook-id", "msg_1")
				h.Set("webhook-timestamp", string(unix(now)))
				h.Set("webhook-signature", signature)
			},
			official: func(r *http.Request, body []byte) bool { return shortHook.Verify(body, r.Header) == nil },
		},
		{
			scheme: "sendgrid", secret: base64.StdEncoding.EncodeToString(der),
			sign: func(h http.Header, body []byte, now time.Time) {
				sum := sha256.Sum256(append(unix(now), body...))
				signature, err := ecdsa.SignASN1(rand.Reader, curve, sum[:])
				if err != nil {
					t.Fatal(err)
				}
				h.Set("X-Twilio-Email-Event-Webhook-Timestamp", string(unix(now)))
				h.Set("X-Twilio-Email-Event-Webhook-Signature", base64.StdEncoding.EncodeToString(signature))
			},
			official: func(r *http.Request, body []byte) bool {
				key, err := sendgrid.ConvertPublicKeyBase64ToECDSA(base64.StdEncoding.EncodeToString(der))
				if err != nil {
					t.Fatal(err)
				}
				ok, err := sendgrid.VerifySignature(key, body, r.Header.Get("X-Twilio-Email-Event-Webhook-Signature"),
					r.Header.Get("X-Twilio-Email-Event-Webhook-Timestamp"))
				raw, _ := base64.StdEncoding.DecodeString(r.Header.Get("X-Twilio-Email-Event-Webhook-Signature"))
				var all asn1.RawValue
				more, _ := asn1.Unmarshal(raw, &all)
				return ok && err == nil && len(more) == 0 // the library ignores bytes behind the signature
			},
			stricter: true,
		},
		{
			scheme: "github", secret: someSecret,
			sign: func(h http.Header, body []byte, _ time.Time) {
				h.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(hmacOf(someSecret, body)))
			},
			official: func(r *http.Request, body []byte) bool {
				return github.ValidateSignature(r.Header.Get("X-Hub-Signature-256"), body, []byte(someSecret)) == nil
			},
		},
		{
			scheme: "slack", secret: someSecret,
			sign: func(h http.Header, body []byte, now time.Time) {
				h.Set("X-Slack-Request-Timestamp", string(unix(now)))
				h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(hmacOf(someSecret, []byte("v0:"), unix(now), []byte(":"), body)))
			},
			official: func(r *http.Request, body []byte) bool {
				v, err := slack.NewSecretsVerifier(r.Header, someSecret)
				if err != nil {
					return false
				}
				_, _ = v.Write(body)
				return v.Ensure() == nil
			},
		},
		{
			scheme: "paddle", secret: someSecret,
			sign: func(h http.Header, body []byte, now time.Time) {
				h.Set("Paddle-Signature", fmt.Sprintf("ts=%s;h1=%x", unix(now), hmacOf(someSecret, unix(now), []byte(":"), body)))
			},
			official: func(r *http.Request, body []byte) bool {
				r.Body = io.NopCloser(bytes.NewReader(body))
				ok, err := paddles.Verify(r)
				return ok && err == nil
			},
		},
		{
			scheme: "discord", secret: hex.EncodeToString(public),
			sign: func(h http.Header, body []byte, now time.Time) {
				h.Set("X-Signature-Timestamp", string(unix(now)))
				h.Set("X-Signature-Ed25519", hex.EncodeToString(ed25519.Sign(private, append(unix(now), body...))))
			},
			official: func(r *http.Request, body []byte) bool {
				r.Body = io.NopCloser(bytes.NewReader(body))
				return discordgo.VerifyInteraction(r, public)
			},
			stricter: true,
		},
		{
			scheme: "twilio", secret: someSecret, media: "application/x-www-form-urlencoded",
			sign: func(h http.Header, body []byte, _ time.Time) {
				form, err := url.ParseQuery(string(body))
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for name := range form {
					names = append(names, name)
				}
				slices.Sort(names)
				mac := hmac.New(sha1.New, []byte(someSecret))
				mac.Write([]byte(address))
				for _, name := range names {
					mac.Write([]byte(name + form.Get(name)))
				}
				h.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
			},
			official: func(r *http.Request, body []byte) bool {
				form, err := url.ParseQuery(string(body))
				if err != nil {
					return false
				}
				fields := map[string]string{}
				for name := range form {
					fields[name] = form.Get(name)
				}
				return phone.Validate(address, fields, r.Header.Get("X-Twilio-Signature"))
			},
		},
	}
}

// believer says whether a source accepts a request. It is an engine that counts.
type believer struct {
	ingress.Shelf // nothing is released in this test
	source        grapnel.Source
	events        int
}

func (b *believer) Source(store.Scope, string) (grapnel.Source, bool) { return b.source, true }

func (b *believer) Sources(store.Scope) []grapnel.Source { return []grapnel.Source{b.source} }

func (b *believer) Publish(_ context.Context, events []store.Incoming, _ *store.Once) (store.Accepted, error) {
	b.events++
	return store.Accepted{Events: []store.Placed{{ID: events[0].Event.ID}}}, nil
}

func (b *believer) Accepts(string) error { return nil }

func (b *believer) SetAside(context.Context, grapnel.Aside) error { return nil }

// TestIngressAndTheOfficialLibrariesAgree sends each provider's requests, whole and changed in many
// ways, to the ingress and to the provider's library. Both must give the same verdict on each.
func TestIngressAndTheOfficialLibrariesAgree(t *testing.T) {
	random := mathrand.New(mathrand.NewPCG(1, 2))
	for _, p := range providers(t) {
		t.Run(p.scheme, func(t *testing.T) {
			b := &believer{source: grapnel.Source{ID: "src_1", Tenant: "t", Revision: 1,
				Verify: grapnel.Verify{Scheme: p.scheme, Secrets: []grapnel.Secret{{Text: p.secret}}}}}
			if faults := ingress.CheckSource(&b.source); len(faults) > 0 {
				t.Fatal(faults)
			}
			receiver := ingress.New(ingress.Options{Engine: b, Store: b})
			agree := func(what string, h http.Header, body []byte) (believed bool) {
				make := func() *http.Request {
					r := httptest.NewRequest(http.MethodPost, address, bytes.NewReader(body))
					r.Header = h.Clone()
					return r
				}
				before := b.events
				receiver.Take(httptest.NewRecorder(), make(), "src_1")
				ours, theirs := b.events > before, p.official(make(), body)
				if ours != theirs {
					t.Errorf("%s: we say %v, the library %v, of %v with %q", what, ours, theirs, h, body)
				}
				return ours
			}
			for range 100 {
				body := []byte(fmt.Sprintf(`{"id":"evt_%d","type":"a.b","text":"%x"}`, random.Int64(), random.Uint64()))
				media := p.media
				if media == "" {
					media = "application/json"
				} else {
					body = []byte(url.Values{"MessageSid": {strconv.Itoa(random.Int())}, "Body": {"ü & + %"}, "To": {"+15558675310"}}.Encode())
				}
				now := time.Now()
				h := http.Header{"Content-Type": {media}}
				p.sign(h, body, now)
				if !agree("whole", h, body) {
					t.Fatal("a request that is whole is not believed")
				}
				changed := bytes.Clone(body)
				changed[random.IntN(len(changed))] ^= 1 << random.IntN(5)
				agree("a byte changed", h, changed)
				agree("cut short", h, body[:random.IntN(len(body))])
				for name := range h {
					if name == "Content-Type" {
						continue
					}
					other := h.Clone()
					value := []byte(h.Get(name))
					value[random.IntN(len(value))] = "0123456789abcdefXYZ=,;:.-"[random.IntN(25)]
					other.Set(name, string(value))
					agree(name+" changed", other, body)
					other.Set(name, h.Get(name)[:random.IntN(len(value))])
					agree(name+" cut short", other, body)
					other.Del(name)
					agree(name+" missing", other, body)
				}
				stale := http.Header{"Content-Type": {media}}
				p.sign(stale, body, now.Add(-time.Duration(301+random.IntN(1000))*time.Second))
				if !p.stricter {
					agree("stale", stale, body)
				}
			}
		})
	}
}
