package api

import (
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// TestLinksLeadWhereTheOperatorSays: no Host of a request decides where a portal link leads, unless
// a trusted proxy says it or it is this machine.
func TestLinksLeadWhereTheOperatorSays(t *testing.T) {
	for _, test := range []struct {
		host, from, public string
		want               string // empty: refused
	}{
		{"evil.example", "203.0.113.9:1", "", ""},
		{"127.0.0.1.evil.example", "127.0.0.1:1", "", ""},
		{"10.0.0.7:8420", "127.0.0.1:1", "", ""},
		{"evil.example", "203.0.113.9:1", "https://hooks.example.com/g", "https://hooks.example.com/g/portal#"},
		{"hooks.example.com", "10.0.0.1:1", "", "http://hooks.example.com/portal#"},
		{"localhost:8420", "203.0.113.9:1", "", "http://localhost:8420/portal#"},
		{"127.0.0.9:8420", "127.0.0.1:1", "", "http://127.0.0.9:8420/portal#"},
		{"[::1]:8420", "127.0.0.1:1", "", "http://[::1]:8420/portal#"},
	} {
		w := newWorld(t, func(o *Options) {
			o.Proxies = func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")} }
			if test.public != "" {
				o.PublicURL, _ = url.Parse(test.public)
			}
		})
		r := httptest.NewRequest("POST", "/v1/tenants/acme/portal-links", nil)
		r.Host, r.RemoteAddr = test.host, test.from
		r.Header.Set("Authorization", "Bearer "+acmeAdmin)
		got := w.send(r)
		switch body := string(got.body); {
		case test.want == "" && (got.StatusCode != 409 || !strings.Contains(body, "--public-url") || strings.Contains(body, test.host)):
			t.Errorf("%s: answered %d %s", test.host, got.StatusCode, body)
		case test.want != "" && (got.StatusCode != 201 || !strings.Contains(body, test.want)):
			t.Errorf("%s: answered %d %s", test.host, got.StatusCode, body)
		}
	}
}

// TestLinksHaveARate: for each tenant; another one is not affected, and time gives links back.
func TestLinksHaveARate(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.LinkBurst, o.Bounds.LinkPause = 5, time.Second })
	made := 0
	for range 20 {
		if w.ask(acmeAdmin, "POST", "/v1/tenants/acme/portal-links", "").StatusCode == 201 {
			made++
		}
	}
	if made != 5 {
		t.Errorf("%d of 20 links are created at once, want 5", made)
	}
	if r := w.ask(acmeAdmin, "POST", "/v1/tenants/acme/portal-links", ""); r.StatusCode != 429 || r.Header.Get("Retry-After") != "1" {
		t.Errorf("answered %d %s", r.StatusCode, r.body)
	}
	w.as(admin, 201, "POST", "/v1/tenants/globex/portal-links", "")
	w.clock = w.clock.Add(time.Hour)
	w.as(acmeAdmin, 201, "POST", "/v1/tenants/acme/portal-links", "")
}

// TestStreamsOfATenantAreLimited: the next one is refused, and one that ends makes room.
func TestStreamsOfATenantAreLimited(t *testing.T) {
	var ss streams
	for i, want := range []bool{true, true, false} {
		if got := ss.enter("acme", 2); got != want {
			t.Errorf("stream %d enters: %v", i, got)
		}
	}
	if !ss.enter("globex", 2) {
		t.Error("another tenant is refused")
	}
	ss.leave("acme")
	if !ss.enter("acme", 2) || ss.enter("acme", 2) {
		t.Error("a stream that ended makes no room, or too much")
	}
	w := newWorld(t, func(o *Options) { o.Bounds.OpenStreams = -1 })
	w.queues()
	w.as(admin, 201, "POST", "/v1/queues", `{"name":"orders","tenant":"acme"}`)
	r := w.ask(scoped(grapnel.ScopeConsume)+"_acme", "GET", "/v1/queues/orders/stream", "")
	if r.StatusCode != 429 || !strings.Contains(string(r.body), "open streams") || r.Header.Get("Retry-After") == "" {
		t.Errorf("answered %d %s", r.StatusCode, r.body)
	}
}
