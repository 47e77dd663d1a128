package egress

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/send/transform"
	"github.com/grapnelhq/grapnel/sign"
)

// wire sends one delivery and returns the bytes that the receiver got.
func wire(t *testing.T, o Options, d Delivery) (raw string, r Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := pipenet.New()
		defer n.Close()
		var got bytes.Buffer
		stop := peer(n, "hooks.example", func(c net.Conn) {
			_ = c.SetReadDeadline(time.Now().Add(time.Second)) // fake time: no more bytes come
			_, _ = io.Copy(&got, c)
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		})
		s := piped(t, n, o)
		r = send(s, d)
		s.Close()
		stop()
		raw = got.String()
	})
	return raw, r
}

func at(unix int64) func() time.Time { return func() time.Time { return time.Unix(unix, 0) } }

func lines(parts ...string) string { return strings.Join(parts, "\r\n") }

// TestWireBytes compares whole requests with bytes written down here. Another program computed the
// signatures.
func TestWireBytes(t *testing.T) {
	standard := delivery(endpoint("https://unused"))
	standard.Endpoint.URL = "http://hooks.example/in?x=1"

	raw := standard
	raw.Endpoint = clone(standard.Endpoint, func(e *grapnel.Endpoint) { e.Format = grapnel.FormatRaw })
	raw.Event = event("a,b\r\n\x00")
	raw.Event.ContentType = "text/csv; charset=utf-8"
	raw.Position, raw.Number, raw.Trigger = 0, 1, grapnel.TriggerReplay

	cloud := standard
	cloud.Endpoint = clone(standard.Endpoint, func(e *grapnel.Endpoint) {
		e.Format = grapnel.FormatCloudEvents
		e.Headers = map[string]string{"authorization": "Bearer mine"}
	})
	cloud.Event = event(`{"amount":1}`)
	cloud.Event.Key = `inv "1" 100%`

	svix := standard
	svix.Endpoint = clone(standard.Endpoint, func(e *grapnel.Endpoint) { e.Signing = grapnel.SigningSvix })

	binary := standard
	binary.Event = event("\x00\xff")
	binary.Event.ContentType = "application/x-thing"

	for name, c := range map[string]struct {
		d    Delivery
		want string
	}{
		"standard": {standard, lines(
			"POST /in?x=1 HTTP/1.1", "Host: hooks.example", "User-Agent: Grapnel/test", "Content-Length: 98", "Content-Type: application/json",
			"Grapnel-Attempt: 3", "Grapnel-Delivery: dlv_1", "Grapnel-Hops: 1", "Grapnel-Node: node-a", "Grapnel-Sequence: 17",
			"Grapnel-Trigger: schedule",
			"Webhook-Id: evt_1", "Webhook-Signature: v1,ZOuans0gwgAuSShJpY9ERd6hc/SRxr4/k0gPsXJNsxo=", "Webhook-Timestamp: 1767323045", "",
			`{"id":"evt_1","type":"invoice.paid","timestamp":"2026-01-02T03:04:05.678901Z","data":{"amount":1}}`)},
		"raw, not in a lane": {raw, lines(
			"POST /in?x=1 HTTP/1.1", "Host: hooks.example", "User-Agent: Grapnel/test", "Content-Length: 6", "Content-Type: text/csv; charset=utf-8",
			"Grapnel-Attempt: 1", "Grapnel-Delivery: dlv_1", "Grapnel-Hops: 1", "Grapnel-Node: node-a", "Grapnel-Trigger: replay",
			"Webhook-Id: evt_1", "Webhook-Signature: v1,mOCi2jNVlzKudw+dyTlUPV9+QW4gs9lutLZtZsj8GOE=", "Webhook-Timestamp: 1767323045", "",
			"a,b\r\n\x00")},
		"cloudevents": {cloud, lines(
			"POST /in?x=1 HTTP/1.1", "Host: hooks.example", "User-Agent: Grapnel/test", "Content-Length: 12", "Authorization: Bearer mine",
			"Ce-Id: evt_1", "Ce-Partitionkey: inv%20%221%22%20100%25", "Ce-Source: /grapnel/acme", "Ce-Specversion: 1.0",
			"Ce-Time: 2026-01-02T03:04:05.678901Z",
			"Ce-Type: invoice.paid", "Content-Type: application/json",
			"Grapnel-Attempt: 3", "Grapnel-Delivery: dlv_1", "Grapnel-Hops: 1", "Grapnel-Node: node-a", "Grapnel-Sequence: 17",
			"Grapnel-Trigger: schedule",
			"Webhook-Id: evt_1", "Webhook-Signature: v1,ghbVdyTBOgGMbq7ygVkTDmD7TeSH3XqtZAK6dNYIHrY=", "Webhook-Timestamp: 1767323045", "",
			`{"amount":1}`)},
		"standard, data that are not JSON": {binary, lines(
			"POST /in?x=1 HTTP/1.1", "Host: hooks.example", "User-Agent: Grapnel/test", "Content-Length: 99", "Content-Type: application/json",
			"Grapnel-Attempt: 3", "Grapnel-Delivery: dlv_1", "Grapnel-Hops: 1", "Grapnel-Node: node-a", "Grapnel-Sequence: 17",
			"Grapnel-Trigger: schedule",
			"Webhook-Id: evt_1", "Webhook-Signature: v1,n8gvrwady1ebmTAHrBSZ1RrwSlwKKiy9EiElj2mIEEU=", "Webhook-Timestamp: 1767323045", "",
			`{"id":"evt_1","type":"invoice.paid","timestamp":"2026-01-02T03:04:05.678901Z","data_base64":"AP8="}`)},
		"svix": {svix, lines(
			"POST /in?x=1 HTTP/1.1", "Host: hooks.example", "User-Agent: Grapnel/test", "Content-Length: 98", "Content-Type: application/json",
			"Grapnel-Attempt: 3", "Grapnel-Delivery: dlv_1", "Grapnel-Hops: 1", "Grapnel-Node: node-a", "Grapnel-Sequence: 17",
			"Grapnel-Trigger: schedule",
			"Svix-Id: evt_1", "Svix-Signature: v1,ZOuans0gwgAuSShJpY9ERd6hc/SRxr4/k0gPsXJNsxo=", "Svix-Timestamp: 1767323045",
			"Webhook-Id: evt_1", "Webhook-Signature: v1,ZOuans0gwgAuSShJpY9ERd6hc/SRxr4/k0gPsXJNsxo=", "Webhook-Timestamp: 1767323045", "",
			`{"id":"evt_1","type":"invoice.paid","timestamp":"2026-01-02T03:04:05.678901Z","data":{"amount":1}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := wire(t, Options{UserAgent: "Grapnel/test", Node: "node-a", Now: at(1767323045)}, c.d)
			if got != c.want {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
		})
	}
}

// TestDocumentedRequest: the request shown in the documentation is one that the sender sends.
func TestDocumentedRequest(t *testing.T) {
	page, err := os.ReadFile("../../../docs/receivers.md")
	if err != nil {
		t.Fatal(err)
	}
	d := delivery(endpoint("http://hooks.example/in?x=1"))
	sent, _ := wire(t, Options{UserAgent: "Grapnel/test", Node: "node-a", Now: at(1767323045)}, d)
	if shown := "```\n" + strings.ReplaceAll(sent, "\r\n", "\n") + "\n```"; !strings.Contains(string(page), shown) {
		t.Errorf("docs/receivers.md does not show\n%s", shown)
	}
	if !strings.Contains(string(page), testSecret) {
		t.Error("docs/receivers.md does not name the secret of its request")
	}
}

// TestStructuredCloudEvents: data that are already a CloudEvent have their attributes in the body,
// so the headers state none: with both, it would be two events at once.
func TestStructuredCloudEvents(t *testing.T) {
	for contentType, attributes := range map[string]int{
		"application/json": 5, "application/cloud+json": 5, "application/x-cloudevents+json": 5, "": 5,
		"application/cloudevents+json": 0, "Application/CloudEvents+JSON; charset=UTF-8": 0, "application/cloudevents": 0,
		"application/cloudevents-batch+json": 0,
	} {
		d := delivery(endpoint("http://hooks.example/in"))
		d.Endpoint = clone(d.Endpoint, func(e *grapnel.Endpoint) { e.Format = grapnel.FormatCloudEvents })
		d.Event = event(`{"specversion":"1.0","id":"7","source":"/shop","type":"order.paid"}`)
		d.Event.Key, d.Event.ContentType = "", contentType
		raw, _ := wire(t, Options{UserAgent: "Grapnel/test", Node: "node-a", Now: at(1767323045)}, d)
		if got := strings.Count(raw, "\r\nCe-"); got != attributes || !strings.HasSuffix(raw, "\r\n\r\n"+string(d.Event.Data)) {
			t.Errorf("%q: %d attributes among\n%s", contentType, got, raw)
		}
	}
}

func clone(e *grapnel.Endpoint, change func(*grapnel.Endpoint)) *grapnel.Endpoint {
	c := *e
	change(&c)
	return &c
}

// TestOutgoingHeaderNames lists every header that may be sent. A new header is a decision, and has
// to be added here.
func TestOutgoingHeaderNames(t *testing.T) {
	allowed := []string{
		"Content-Length", "Content-Type", "User-Agent", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature",
		"Grapnel-Attempt", "Grapnel-Delivery", "Grapnel-Hops", "Grapnel-Sequence", "Grapnel-Trigger", "Grapnel-Node", "Grapnel-Epoch",
		"Svix-Id", "Svix-Timestamp", "Svix-Signature",
		"Ce-Specversion", "Ce-Id", "Ce-Source", "Ce-Type", "Ce-Time", "Ce-Partitionkey",
	}
	private, err := sign.NewPrivateKey(strings.NewReader(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	secrets := []grapnel.Secret{{Text: testSecret}, {Text: private}}
	var got http.Header
	var body []byte
	srv := server(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		body, _ = io.ReadAll(r.Body)
		if len(r.Trailer) > 0 || len(r.TransferEncoding) > 0 {
			t.Errorf("trailers %v, transfer encoding %v", r.Trailer, r.TransferEncoding)
		}
	})
	s := sender(t, Options{Allow: loopback(), Node: "n"})
	for _, format := range []grapnel.Format{grapnel.FormatStandard, grapnel.FormatRaw, grapnel.FormatCloudEvents} {
		e := endpoint(srv.URL)
		e.ID, e.Format, e.Secrets, e.Signing = "ep_"+string(format), format, secrets, grapnel.SigningSvix
		for _, data := range []string{`{"a":1}`, ""} {
			d := delivery(e)
			d.Event = event(data)
			if r := send(s, d); r.Outcome.Status != 200 {
				t.Fatalf("%+v", r)
			}
			for name := range got {
				if !slices.Contains(allowed, name) {
					t.Errorf("%s: header %s is sent", format, name)
				}
			}
			if got.Get("User-Agent") != "Grapnel/"+grapnel.Version {
				t.Errorf("user agent %q", got.Get("User-Agent"))
			}
			var wire bytes.Buffer
			_ = got.Write(&wire)
			wire.Write(body)
			checkNoSecret(t, wire.String(), secrets)
		}
	}
}

func checkNoSecret(t *testing.T, text string, secrets []grapnel.Secret) {
	t.Helper()
	for _, secret := range secrets {
		_, encoded, _ := strings.Cut(secret.Text, "_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{
			secret.Text, encoded, string(key), string(key[:16]), hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)),
			base64.RawStdEncoding.EncodeToString(key), base64.URLEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString(key),
			base64.StdEncoding.EncodeToString([]byte(secret.Text)), url.QueryEscape(secret.Text), url.QueryEscape(string(key)),
		} {
			if strings.Contains(text, form) {
				t.Errorf("the request contains the secret as %q", form)
			}
		}
	}
}

// TestSecretsStayOutOfLogs: no form of logging an endpoint or a sender shows a secret.
func TestSecretsStayOutOfLogs(t *testing.T) {
	d := delivery(endpoint("https://hooks.example/"))
	s := sender(t, Options{})
	r := s.prepare(d.Endpoint, "", time.Now())
	var text bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&text, nil), slog.NewTextHandler(&text, nil)} {
		log := slog.New(h)
		log.Info("x", "endpoint", d.Endpoint, "delivery", d, "secret", d.Endpoint.Secrets[0], "secrets", d.Endpoint.Secrets, "signer", r.signer)
	}
	for _, v := range []any{d, *d.Endpoint, d.Endpoint.Secrets, r.signer} {
		fmt.Fprintf(&text, "%v %+v %#v\n", v, v, v)
	}
	if !strings.Contains(text.String(), "[redacted]") {
		t.Error("nothing was logged")
	}
	checkNoSecret(t, text.String(), d.Endpoint.Secrets)
}

// TestSignaturesVerify verifies the receiver's requests, during and after a rotation.
func TestSignaturesVerify(t *testing.T) {
	old := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("o"), 32))
	private, err := sign.NewPrivateKey(strings.NewReader(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	public, err := sign.PublicKey(private)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		n := pipenet.New()
		defer n.Close()
		accepted := map[string]bool{}
		n.Handle("hooks.example", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			for name, secret := range map[string]string{"new": testSecret, "old": old, "public": public} {
				v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{secret}, Tolerance: time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				_, err = v.Verify(r.Header, body)
				accepted[name] = err == nil
			}
		}))
		s := piped(t, n, Options{})
		defer s.Close()
		d := delivery(endpoint("http://hooks.example/"))
		d.Endpoint.Secrets = []grapnel.Secret{{Text: testSecret}, {Text: old, ExpiresAt: time.Now().Add(time.Minute)}, {Text: private}}
		for _, c := range []struct {
			wait time.Duration
			old  bool
		}{{0, true}, {time.Minute - time.Nanosecond, true}, {time.Nanosecond, false}, {time.Hour, false}} {
			time.Sleep(c.wait)
			if r := send(s, d); r.Outcome.Status != 200 {
				t.Fatalf("%+v", r)
			}
			if !accepted["new"] || !accepted["public"] || accepted["old"] != c.old {
				t.Errorf("after %v: %v", c.wait, accepted)
			}
		}
	})
}

// TestEnvelopeKeepsTheData: the envelope contains the published data byte for byte, or as base64 if
// they are not JSON.
func TestEnvelopeKeepsTheData(t *testing.T) {
	for _, c := range []struct {
		data, contentType string
		json              bool
	}{
		{`{"b":1, "a":1.0e2,"n":9007199254740993,"u":"\u00e9é"}`, grapnel.JSONType, true},
		{" [1 ,2]\n", grapnel.JSONType, true},
		{`null`, grapnel.JSONType, true},
		{`{"a":1}`, "application/json; charset=utf-8", true},
		{`{"a":1}`, "application/vnd.acme+json", true},
		{`{"a":1}`, "text/plain", false},
		{`{"a":1}`, "", false},
		{`1,"id":"evt_forged"`, "application/json; charset=utf-8", false},
		{``, "application/vnd.acme+json", false},
		{"\x00\xff", "application/octet-stream", false},
	} {
		e := event(c.data)
		e.ContentType = c.contentType
		body := envelope(e)
		var got struct {
			ID, Type   string
			Timestamp  time.Time
			Data       json.RawMessage
			DataBase64 []byte `json:"data_base64"`
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Errorf("%q as %q: %v in %s", c.data, c.contentType, err, body)
			continue
		}
		if got.ID != "evt_1" || got.Type != "invoice.paid" || !got.Timestamp.Equal(e.OccurredAt) {
			t.Errorf("%s", body)
		}
		if c.json != bytes.Contains(body, []byte(`"data":`+c.data+`}`)) || !c.json && string(got.DataBase64) != c.data {
			t.Errorf("%q as %q became %s", c.data, c.contentType, body)
		}
		if cap(body) > len(body)+64 {
			t.Errorf("%d bytes take %d", len(body), cap(body))
		}
	}
}

// TestEnvelopeBelievesNoSource: data from a source may claim to be JSON, so the envelope checks
// them.
func TestEnvelopeBelievesNoSource(t *testing.T) {
	for data, want := range map[string]string{
		`{"a":1}`: `,"data":{"a":1}}`, `1,"id":"evt_forged"`: `,"data_base64":"`, `{`: `,"data_base64":"ew=="}`,
		"\"\xff\"": `,"data_base64":"Iv8i"}`, ``: `,"data_base64":""}`,
	} {
		e := event(data)
		e.ContentType, e.Source = grapnel.JSONType, "src_1"
		if body := envelope(e); !json.Valid(body) || !bytes.Contains(body, []byte(want)) {
			t.Errorf("%q became %s", data, body)
		}
		if body, header, err := Formatted(
			grapnel.Shape{Format: grapnel.FormatRaw},
			e,
			transform.Bounds{},
		); err != nil || string(body) != data ||
			header.Get("Content-Type") != grapnel.JSONType {
			t.Errorf("%q was sent as %q with %v", data, body, header)
		}
	}
}

// A content type that cannot be a header must not make an endpoint's requests fail for ever.
func TestContentTypeThatCannotBeSent(t *testing.T) {
	e := event("x")
	e.ContentType = "text/plain\r\nX-Injected: 1"
	if got := dataType(e); got != octetStream {
		t.Errorf("%q", got)
	}
}

// TestQueryIsEncoded: unencoded characters of a URL's query are percent-encoded in the request
// line; all others stay as saved.
func TestQueryIsEncoded(t *testing.T) {
	for saved, sent := range map[string]string{
		"/?a b HTTP/1.1":    "/?a%20b%20HTTP/1.1",
		"/?name=\u00fc":     "/?name=%C3%BC",
		"/?x=\"<\xff>\"":    "/?x=%22%3C%FF%3E%22",
		"/?a=b%20c+d&e=%zz": "/?a=b%20c+d&e=%zz",
		"/?a[]={b}|'~/?:@":  "/?a[]={b}|'~/?:@",
		"/\u00fc b?":        "/%C3%BC%20b?",
		"?":                 "/?",
	} {
		got, r := wire(t, Options{}, delivery(endpoint("http://hooks.example"+saved)))
		if line, _, _ := strings.Cut(got, "\r\n"); line != "POST "+sent+" HTTP/1.1" {
			t.Errorf("%q is sent as %q: %+v", saved, line, r)
		}
	}
}

// TestHopsAreCounted: a sent event has passed one server more than when it was received.
func TestHopsAreCounted(t *testing.T) {
	for came, goes := range map[string]string{"": "1", "1": "2", "41": "42", "-3": "1", "many": "1"} {
		d := delivery(endpoint("http://hooks.example/"))
		d.Event.Metadata = map[string]string{grapnel.HopsKey: came}
		if got, _ := wire(t, Options{}, d); !strings.Contains(got, "\r\nGrapnel-Hops: "+goes+"\r\n") {
			t.Errorf("after %q hops it is sent as %q", came, got)
		}
	}
}
