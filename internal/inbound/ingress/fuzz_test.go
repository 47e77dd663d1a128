package ingress

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// FuzzVerify sends arbitrary requests to every scheme. None panics, no request with changed signed
// content is accepted, and every answer is one that a provider understands.
func FuzzVerify(f *testing.F) {
	all := vectors(f)
	for i, v := range all {
		for name, value := range v.Headers {
			f.Add(uint8(i), name, value, []byte(v.Body), v.URL)
		}
	}
	f.Add(uint8(0), "Content-Type", "application/x-www-form-urlencoded", []byte("payload=%7B%22type%22%3A%5B"), "/in/x?bodySHA256=%zz")
	f.Fuzz(func(t *testing.T, which uint8, name, value string, body []byte, url string) {
		v := all[int(which)%len(all)]
		if strings.ContainsAny(name, "\r\n") || !scheme.ValidHeader(name) {
			return
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(body)))
		if err != nil {
			return
		}
		r.RequestURI = r.URL.RequestURI()
		r.Host = "hooks.example.com"
		for n, text := range v.Headers {
			r.Header.Set(n, text)
		}
		r.Header.Set(name, value)
		w := newWorld(&testing.T{})
		w.now = time.Unix(v.Now, 0)
		w.sources["src_1"] = grapnel.Source{
			ID:           "src_1",
			Tenant:       "acme",
			Verify:       v.verify(v.Verify.Secrets...),
			Dedupe:       grapnel.Dedupe{By: everyKind},
			PublicURL:    v.PublicURL,
			OnUnverified: grapnel.Quarantine,
			Revision:     1,
			Type:         `event.data.type + event.headers["x"]`,
		}
		rec := httptest.NewRecorder()
		w.receiver.Take(rec, r, "src_1")
		switch rec.Code {
		case http.StatusOK, http.StatusAccepted, http.StatusNoContent, http.StatusUnsupportedMediaType, http.StatusRequestHeaderFieldsTooLarge:
		default:
			t.Fatalf("%s: answered %d %s", v.scheme, rec.Code, rec.Body)
		}
		if v.BodyUnsigned || len(w.events) == 0 {
			return
		}
		for _, known := range all {
			if known.scheme == v.scheme && (known.Body == string(body) || v.scheme == "twilio") {
				return
			}
		}
		t.Fatalf("%s: a body that nobody signed became an event: %q", v.scheme, body)
	})
}

// FuzzType makes types of arbitrary texts.
func FuzzType(f *testing.F) {
	for _, text := range []string{"a.b", "orders/paid", "..", "grapnel.alert"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := validType(text); !grapnel.ValidType(got) {
			t.Fatalf("%q becomes %q, which is no type", text, got)
		}
	})
}
