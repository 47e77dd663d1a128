package byhand

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // a sender may use it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// mac signs as a sender that has got something wrong.
func mac(algorithm func() hash.Hash, key, text string) []byte {
	m := hmac.New(algorithm, []byte(key))
	m.Write([]byte(text))
	return m.Sum(nil)
}

var b64 = base64.StdEncoding.EncodeToString

// TestWhyARequestDoesNotVerify: each way in which requests are spoilt has its reason, and the
// reason says how it happened.
func TestWhyARequestDoesNotVerify(t *testing.T) {
	type request = scheme.Webhook
	const whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	decoded, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(whsec, "whsec_"))
	body := func(change func([]byte) []byte) func(*scheme.Settings, *request) {
		return func(_ *scheme.Settings, r *request) { r.Body = change(r.Body) }
	}
	header := func(name string, change func(string) string) func(*scheme.Settings, *request) {
		return func(_ *scheme.Settings, r *request) { r.Header.Set(name, change(r.Header.Get(name))) }
	}
	rename := func(pairs ...string) func(*scheme.Settings, *request) {
		return func(_ *scheme.Settings, r *request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header[pairs[i+1]] = r.Header[http.CanonicalHeaderKey(pairs[i])]
				r.Header.Del(pairs[i])
			}
		}
	}
	signed := func(sum func(r *request) string) func(*scheme.Settings, *request) {
		return func(_ *scheme.Settings, r *request) { r.Header.Set("Webhook-Signature", "v1,"+sum(r)) }
	}
	secret := func(text string) func(*scheme.Settings, *request) {
		return func(v *scheme.Settings, _ *request) { v.Secrets[0].Text = text }
	}
	all := func(changes ...func(*scheme.Settings, *request)) func(*scheme.Settings, *request) {
		return func(v *scheme.Settings, r *request) {
			for _, c := range changes {
				c(v, r)
			}
		}
	}
	for _, c := range []struct {
		name, scheme, kind string
		change             func(*scheme.Settings, *request)
		late               time.Duration
		want               string // kinds
		says               string
	}{
		// raw bytes
		{"parsed and written again", "stripe", "", body(compact), 0, "body", "with lines and 2 spaces"},
		{"parsed and indented", "github", "push", body(func(b []byte) []byte { return indented(b, "  ") }), 0, "body", "without spaces"},
		{"written by another serialiser", "github", "push", body(ascii), 0, "body", "characters as they are"},
		{"spaced out", "standard", "", body(func(b []byte) []byte { return outsideTexts(b, ",", ", ", ":", ": ") }), 0, "body", "without spaces"},
		{"slashes escaped", "github", "push", body(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("/"), []byte(`\/`)) }), 0, "body", "/ as it is"},
		{"trimmed", "hmac", "", all(body(func(b []byte) []byte { return append(b, '\n') }), resigned, body(bytes.TrimSpace)), 0, "body", "ends with a line break"},
		{"a line break added", "stripe", "", body(func(b []byte) []byte { return append(b, '\n') }), 0, "body", "white space at its end"},
		{"line breaks to CRLF", "stripe", "", body(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) }), 0, "body", "CR LF, and LF was signed"},
		{"line breaks from CRLF", "hmac", "", all(body(func(b []byte) []byte { return []byte("a\r\nb\r\n") }), resigned, body(func([]byte) []byte { return []byte("a\nb\n") })), 0, "body", "CR LF was signed"},
		{"a byte order mark added", "github", "", body(func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) }), 0, "body", "byte order mark that was not signed"},
		{"a byte order mark stripped", "hmac", "", all(body(func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) }), resigned, body(func(b []byte) []byte { return b[3:] })), 0, "body", "was removed"},
		{"UTF-8 read as Latin-1", "github", "push", body(fromLatin1), 0, "body", "read as Latin-1"},
		{"written in Latin-1", "github", "push", body(toLatin1), 0, "body", "written in Latin-1"},
		{"in quotes", "standard", "", body(func(b []byte) []byte { text, _ := json.Marshal(string(b)); return text }), 0, "body", "in quotes"},
		{"in base64", "shopify", "", body(func(b []byte) []byte { return []byte(b64(b)) }), 0, "body", "in base64"},
		{"compressed", "shopify", "", body(gzipped), 0, "body", "compressed"},
		// the clock
		{"old", "stripe", "", nil, 10 * time.Minute, "clock", "600 s old, more than 300 s"},
		{"from the future", "standard", "", nil, -10 * time.Minute, "clock", "600 s in the future"},
		{"old in the body", "linear", "", nil, 48 * time.Hour, "clock", "48 h old"},
		{"old and parsed", "stripe", "", body(compact), 72 * time.Hour, "body clock", "3 days old"},
		// keys
		{"another secret", "stripe", "", secret("whsec_of_another_endpoint"), 0, "key", "another endpoint"},
		{"another of the standard", "standard", "", secret("whsec_" + b64([]byte("twenty-four other bytes!"))), 0, "key", "another endpoint"},
		{"not decoded", "standard", "", signed(func(r *request) string {
			return b64(mac(sha256.New, strings.TrimPrefix(whsec, "whsec_"), content(r)))
		}), 0, "key", "not decoded"},
		{"the prefix kept", "standard", "", signed(func(r *request) string { return b64(mac(sha256.New, whsec, content(r))) }), 0, "key", "whsec_ before it"},
		{"the prefix removed", "stripe", "", all(secret(whsec[6:]), resigned, secret(whsec)), 0, "key", "without whsec_"},
		{"decoded", "stripe", "", all(secret(string(decoded)), resigned, secret(whsec)), 0, "key", "decoded from base64"},
		{"in hex", "github", "", all(secret(string(decoded)), resigned, secret(hex.EncodeToString(decoded))), 0, "key", "decoded from hex"},
		{"in quotes", "github", "", all(secret("hunter22"), resigned, secret(`"hunter22"`)), 0, "key", "quotes"},
		// encodings
		{"hex for base64", "shopify", "", header("X-Shopify-Hmac-Sha256", func(s string) string { return hex.EncodeToString(unbase64(s)) }), 0, "encoding", "in hex"},
		{"hex for base64 in a list", "standard", "", header("Webhook-Signature", func(s string) string { return "v1," + hex.EncodeToString(unbase64(s[3:])) }), 0, "encoding", "in hex"},
		{"base64 for hex", "github", "", header("X-Hub-Signature-256", func(s string) string { raw, _ := hex.DecodeString(s[7:]); return "sha256=" + b64(raw) }), 0, "encoding", "base64, and hex"},
		{"base64 for hex in pairs", "stripe", "", header("Stripe-Signature", func(s string) string {
			return token.ReplaceAllStringFunc(s, func(h string) string { raw, _ := hex.DecodeString(h); return b64(raw) })
		}), 0, "encoding", "base64, and hex"},
		{"base64 without padding", "shopify", "", header("X-Shopify-Hmac-Sha256", func(s string) string {
			return strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(s), "=")
		}), 0, "encoding", "alphabet"},
		{"no prefix", "github", "", header("X-Hub-Signature-256", func(s string) string { return s[7:] }), 0, "encoding", "no sha256= before"},
		{"percent-encoded", "shopify", "", header("X-Shopify-Hmac-Sha256", url.QueryEscape), 0, "encoding", "percent-encoded"},
		{"in quotes", "zendesk", "", header("X-Zendesk-Webhook-Signature", func(s string) string { return `"` + s + `"` }), 0, "encoding", "quotes"},
		// the signed content
		{"no id signed", "standard", "", signed(func(r *request) string {
			return b64(mac(sha256.New, string(decoded), r.Header.Get("Webhook-Timestamp")+"."+string(r.Body)))
		}), 0, "content", "not signed: id"},
		{"no timestamp signed", "standard", "", signed(func(r *request) string {
			return b64(mac(sha256.New, string(decoded), r.Header.Get("Webhook-Id")+"."+string(r.Body)))
		}), 0, "content", "not signed: timestamp"},
		{"the body alone signed", "standard", "", signed(func(r *request) string { return b64(mac(sha256.New, string(decoded), string(r.Body))) }), 0, "content", "not signed: id, timestamp"},
		{"the body alone with SHA-1", "github", "", header("X-Hub-Signature-256", func(string) string { return "" }), 0, "header", "X-Hub-Signature-256 is missing"},
		{"SHA-1", "github", "", func(v *scheme.Settings, r *request) {
			r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(sha1.New, v.Secrets[0].Text, string(r.Body))))
		}, 0, "content", "HMAC-SHA1"},
		{"another separator", "paddle", "", func(v *scheme.Settings, r *request) {
			stamp, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Paddle-Signature"), "ts="), ";")
			r.Header.Set("Paddle-Signature", "ts="+stamp+";h1="+hex.EncodeToString(mac(sha256.New, v.Secrets[0].Text, stamp+"."+string(r.Body))))
		}, 0, "content", "covers {timestamp}.{body}, and the scheme paddle wants {timestamp}:{body}"},
		{"behind a proxy", "twilio", "", func(_ *scheme.Settings, r *scheme.Webhook) {
			r.URL, r.Header = "http://10.0.0.7:8080/in/src_1?a=b", r.Header.Clone()
			r.Header.Set("X-Forwarded-Host", "hooks.example.com")
		}, 0, "content", "covers the URL http://hooks.example.com/in/src_1?a=b"},
		{"behind a prefix", "twilio", "", func(_ *scheme.Settings, r *scheme.Webhook) {
			r.URL = "https://hooks.example.com/src_1?a=b"
			r.Header.Set("X-Forwarded-Prefix", "/in")
		}, 0, "content", "covers the URL https://hooks.example.com/in/src_1?a=b"},
		{"at another URL", "twilio", "", func(_ *scheme.Settings, r *scheme.Webhook) { r.URL = "https://other.example.com/" }, 0, "content", "give the URL"},
		{"cut off", "shopify", "", func(_ *scheme.Settings, r *scheme.Webhook) {
			r.Header.Set("Content-Length", strconv.Itoa(len(r.Body)))
			r.Body = r.Body[:len(r.Body)/2]
		}, 0, "body", "Content-Length says"},
		{"body alone and not decoded", "standard", "", signed(func(r *request) string { return b64(mac(sha256.New, whsec[6:], string(r.Body))) }), 0, "key content", "not signed: id, timestamp"},
		// headers
		{"underscores", "standard", "", rename("Webhook-Id", "Webhook_id", "Webhook-Timestamp", "Webhook_timestamp", "Webhook-Signature", "Webhook_signature"), 0, "header", "Webhook_signature is Webhook-Signature"},
		{"as CGI has them", "github", "", rename("X-Hub-Signature-256", "HTTP_X_HUB_SIGNATURE_256"), 0, "header", "HTTP_X_HUB_SIGNATURE_256 is X-Hub-Signature-256"},
		{"renamed by a proxy", "stripe", "", rename("Stripe-Signature", "X-Original-Stripe-Signature"), 0, "header", "X-Original-Stripe-Signature is Stripe-Signature"},
		{"of the other family", "standard", "", rename("Webhook-Id", "Svix-Id", "Webhook-Timestamp", "Svix-Timestamp", "Webhook-Signature", "Svix-Signature"), 0, "header", "Svix-Signature is Webhook-Signature"},
		{"twice", "slack", "", func(_ *scheme.Settings, r *request) {
			r.Header["X-Slack-Signature"] = append(r.Header["X-Slack-Signature"], r.Header["X-Slack-Signature"][0])
		}, 0, "header", "more than once: X-Slack-Signature"},
		{"gone", "slack", "", func(_ *scheme.Settings, r *request) { r.Header.Del("X-Slack-Signature") }, 0, "header", "X-Slack-Signature is missing"},
		{"renamed, and the body written again", "github", "", all(rename("X-Hub-Signature-256", "X_hub_signature_256"), body(func(b []byte) []byte { return indented(b, "  ") })), 0, "header body", "parsed and written again"},
	} {
		t.Run(c.scheme+" "+c.name, func(t *testing.T) {
			v := settings(t, c.scheme)
			if c.scheme == "stripe" {
				v.Secrets[0].Text = whsec
			}
			if c.scheme == "hmac" {
				v.IDHeader, v.TimestampHeader, v.Signed = "", "", ""
			}
			r := signedRequest(t, &v, c.kind)
			if c.change != nil {
				c.change(&v, r)
			}
			public := receiving(t, v)
			report, err := Explain(&public, r, now.Add(c.late))
			if err != nil || report.Verified {
				t.Fatalf("%+v %v", report, err)
			}
			var kinds, said []string
			for _, reason := range report.Reasons {
				kinds, said = append(kinds, reason.Kind), append(said, reason.Detail+"; "+reason.Fix)
				for _, s := range v.Secrets {
					if strings.Contains(reason.Detail+reason.Fix, s.Text) {
						t.Errorf("a reason has the secret: %v", reason)
					}
				}
				if reason.Detail == "" || reason.Fix == "" {
					t.Errorf("incomplete: %+v", reason)
				}
			}
			if strings.Join(kinds, " ") != c.want || !strings.Contains(strings.Join(said, "\n"), c.says) {
				t.Errorf("%s: %s, want %s: %s", kinds, said, c.want, c.says)
			}
		})
	}
}

// content is what Standard Webhooks sign.
func content(r *scheme.Webhook) string {
	return r.Header.Get("Webhook-Id") + "." + r.Header.Get("Webhook-Timestamp") + "." + string(r.Body)
}

func resigned(v *scheme.Settings, r *scheme.Webhook) {
	if err := v.Sign(r, now, "id_1"); err != nil {
		panic(err)
	}
}

func gzipped(b []byte) []byte {
	var into bytes.Buffer
	w := gzip.NewWriter(&into)
	_, _ = w.Write(b) // buffers take all
	_ = w.Close()
	return into.Bytes()
}

// TestAGoodRequestHasNoReasons: of two secrets either may be the one, and a check says which.
func TestAGoodRequestHasNoReasons(t *testing.T) {
	v := settings(t, "stripe")
	r := signedRequest(t, &v, "")
	v.Secrets = append([]scheme.Secret{{Text: "whsec_the_newer_one"}}, v.Secrets...)
	report, err := Explain(&v, r, now)
	if err != nil || !report.Verified || len(report.Reasons) != 0 || !strings.HasSuffix(report.Checks[len(report.Checks)-1].Text, "secret 2 of 2") {
		t.Errorf("%+v %v", report, err)
	}
}
