package egress

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestHeadersThatCanBeSaved(t *testing.T) {
	if err := CheckHeaders(map[string]string{
		"Authorization": "Bearer x",
		"X-Tenant":      "acme",
		"x-lower":       "ü and\ttabs",
		"Cookie":        "a=b",
		"Empty":         "",
		"Accept":        "*/*",
		"Webhooks-Of":   "acme",
	}); err != nil {
		t.Error(err)
	}
	if err := CheckHeaders(nil); err != nil {
		t.Error(err)
	}
}

func TestHeadersThatCannotBeSaved(t *testing.T) {
	for _, name := range []string{
		"Host", "host", "HOST", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Trailer", "TE", "Expect",
		"HTTP2-Settings",
		"Proxy-Authorization", "proxy-connection", "Content-Type", "content-encoding", "Accept-Encoding", "User-Agent", "Date",
		"webhook-id", "Webhook-Signature", "webhook-anything", "grapnel-attempt", "Grapnel-Anything", "Idempotency-Key", "idempotency-x",
		"X-Idempotency-Key", "x-idempotency-key", "ce-id", "CE-Type",
		"", " ", "a b", "a:b", "a\r\nb", "ü", "a\x00", strings.Repeat("x", 129),
	} {
		checkRefused(t, map[string]string{name: "x", "X-Fine": "y"}, name)
	}
	for _, value := range []string{"a\r\nX-Injected: y", "a\nb", "a\rb", "a\x00b", "\x7f", strings.Repeat("x", MaxHeaderValueLength+1)} {
		checkRefused(t, map[string]string{"X-Bad": value, "X-Fine": "y"}, "X-Bad")
	}
	checkRefused(t, map[string]string{"X-Twice": "1", "x-twice": "2"}, "x-twice")
	many := map[string]string{}
	for i := range MaxCustomHeaders + 1 {
		many["X-"+strings.Repeat("a", i+1)] = ""
	}
	if CheckHeaders(many) == nil {
		t.Errorf("%d headers are accepted", len(many))
	}
}

func checkRefused(t *testing.T, h map[string]string, name string) {
	t.Helper()
	var bad *HeaderError
	if err := CheckHeaders(h); !errors.As(err, &bad) || bad.Name != name {
		t.Errorf("%q: %v", name, err)
	}
}

// FuzzHeaderConfig: a header that can be saved arrives as one header with that name and value, and
// net/http agrees to send it.
func FuzzHeaderConfig(f *testing.F) {
	for _, name := range []string{"X-A", "host", "Webhook-Id", "ce-x", "a b", "X\r\nY", "Te"} {
		f.Add(name, "value")
		f.Add("X-A", name+"\r\nInjected: 1")
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		if CheckHeaders(map[string]string{name: value}) != nil {
			return
		}
		req, err := http.NewRequest(http.MethodPost, "http://example.com/", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		plain := len(req.Header)
		req.Header[http.CanonicalHeaderKey(name)] = []string{value}
		var wire bytes.Buffer
		if err := req.Write(&wire); err != nil {
			t.Fatalf("%q: %q cannot be sent: %v", name, value, err)
		}
		got, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatalf("%q: %q breaks the request: %v", name, value, err)
		}
		got.Header.Del("User-Agent")
		got.Header.Del("Content-Length")
		if len(got.Header) != plain+1 || got.Header.Get(name) != strings.Trim(value, " \t") || got.Host != "example.com" ||
			got.ContentLength != 2 {
			t.Fatalf("%q: %q arrives as %v", name, value, got.Header)
		}
	})
}

func TestPlaceholders(t *testing.T) {
	for _, value := range []string{"{event.ID}", "{event_id}", "{}", "{ retry }", "{data.x}", "{", "}", "a}b", `{"a":1}`, "{event.id",
		"{{event.id}",
		strings.Repeat("{event.key}", maxPlaceholders+1)} {
		checkRefused(t, map[string]string{"X-Bad": value, "X-Fine": "{event.id}"}, "X-Bad")
	}
	for value, want := range map[string]string{"{event_id} }": "has the unknown name {event_id}", "} {event_id}": "has a single '}'"} {
		if err := CheckHeaders(map[string]string{"X-Bad": value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", value, err)
		}
	}
	d := delivery(endpoint("http://hooks.example/"))
	d.Event.Key = "a\r\nX-Injected: {event.id} ü\x00%"
	own := map[string][2]string{
		"X-Webhook-Id": {"{event.id}", "evt_1"},
		"X-Retry":      {"{retry} of {attempt}", "2 of 3"},
		"X-All":        {"<{event.type} {event.timestamp} {delivery.id}>", "<invoice.paid 2026-01-02T03:04:05.678901Z dlv_1>"},
		"X-Key":        {"{event.key}", "a%0D%0AX-Injected:%20{event.id}%20%C3%BC%00%25"},
		"X-Braces":     {`{{"a":{{event.id}}}} {{{event.id}}}`, `{"a":{event.id}} {evt_1}`},
	}
	d.Endpoint.Headers = map[string]string{}
	for name, c := range own {
		d.Endpoint.Headers[name] = c[0]
	}
	if err := CheckHeaders(d.Endpoint.Headers); err != nil {
		t.Fatal(err)
	}
	// A value that cannot be saved here, but was saved by a later version, is sent literally.
	d.Endpoint.Headers["X-Later"] = "{data.x} {event.id} {"
	own["X-Later"] = [2]string{"", "{data.x} evt_1 {"}
	got, r := wire(t, Options{}, d)
	for name, c := range own {
		if !strings.Contains(got, "\r\n"+name+": "+c[1]+"\r\n") {
			t.Errorf("%s: %s is not sent as %s: %+v\n%s", name, c[0], c[1], r, got)
		}
	}
	if strings.Contains(got, "\nX-Injected") {
		t.Errorf("a key ends a header:\n%s", got)
	}
}
