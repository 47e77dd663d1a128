package api

import (
	"crypto/tls"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
)

// TestOrigin: links begin with what the operator says; else with what the request says, of which a
// trusted proxy's headers are a part.
func TestOrigin(t *testing.T) {
	public, err := url.Parse("https://example.com/hooks/")
	if err != nil {
		t.Fatal(err)
	}
	proxies := func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }
	for name, c := range map[string]struct {
		public           *url.URL
		host, from       string
		tls              bool
		proto, forwarded string
		prefix           string
		want             string
	}{
		"public": {public: public, host: "inside:8420", from: "10.0.0.1:5", proto: "http",
			forwarded: "other", want: "https://example.com/hooks"},
		"public, without a Host": {public: public, from: "192.0.2.1:5", want: "https://example.com/hooks"},
		"direct":                 {host: "inside:8420", from: "192.0.2.1:5", want: "http://inside:8420"},
		"direct, TLS":            {host: "inside", from: "192.0.2.1:5", tls: true, want: "https://inside"},
		"without a Host":         {from: "192.0.2.1:5", want: ""},
		"a stranger's headers":   {host: "inside", from: "192.0.2.1:5", proto: "https", forwarded: "evil.example", want: "http://inside"},
		"a proxy's headers": {host: "inside", from: "10.0.0.1:5", proto: "HTTPS", forwarded: "Hooks.example",
			want: "https://hooks.example"},
		"a proxy's, of IPv4 in IPv6": {host: "inside", from: "[::ffff:10.0.0.1]:5", proto: "https", want: "https://inside"},
		"of several the nearest": {host: "inside", from: "10.0.0.1:5", proto: "http, https",
			forwarded: "evil.example, hooks.example:444", want: "https://hooks.example:444"},
		"what cannot be part of a URL":     {host: "inside", from: "10.0.0.1:5", proto: "java script", forwarded: "a/b?c", want: "http://inside"},
		"a scheme that leads to no server": {host: "inside", from: "10.0.0.1:5", proto: "javascript", want: "http://inside"},
		"a proxy's prefix": {host: "inside", from: "10.0.0.1:5", proto: "https", prefix: "/Hooks/v1.2_~-/",
			want: "https://inside/Hooks/v1.2_~-"},
		"a proxy's, without a Host":    {from: "10.0.0.1:5", prefix: "/hooks", want: "/hooks"},
		"public, and a prefix":         {public: public, host: "inside", from: "10.0.0.1:5", prefix: "/other", want: "https://example.com/hooks"},
		"a stranger's prefix":          {host: "inside", from: "192.0.2.1:5", prefix: "/evil", want: "http://inside"},
		"of several prefixes the last": {host: "inside", from: "10.0.0.1:5", prefix: "/evil, /hooks", want: "http://inside/hooks"},
		"a prefix without a slash":     {host: "inside", from: "10.0.0.1:5", prefix: "hooks", want: "http://inside"},
		"a prefix that is a host":      {host: "inside", from: "10.0.0.1:5", prefix: "//evil.example", want: "http://inside"},
		"a prefix that leads upwards":  {host: "inside", from: "10.0.0.1:5", prefix: "/a/../b", want: "http://inside"},
		"a prefix with a query":        {host: "inside", from: "10.0.0.1:5", prefix: "/a?b", want: "http://inside"},
		"no prefix":                    {host: "inside", from: "10.0.0.1:5", prefix: "/", want: "http://inside"},
		"from nowhere":                 {host: "inside", from: "@", forwarded: "evil.example", want: "http://inside"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host, r.RemoteAddr = c.host, c.from
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		r.Header.Set("X-Forwarded-Proto", c.proto)
		r.Header.Set("X-Forwarded-Host", c.forwarded)
		r.Header.Set("X-Forwarded-Prefix", c.prefix)
		l := newLinks(c.public, proxies)
		if got := l.origin(r); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTypesOfProblemsLeadToTheManual: a server that is reached below a path has its manual there.
func TestTypesOfProblemsLeadToTheManual(t *testing.T) {
	public, err := url.Parse("https://example.com/hooks/")
	if err != nil {
		t.Fatal(err)
	}
	refused := &ingress.Refusal{Status: 401, Code: ingress.CodeUnverified}
	w := newWorld(t, func(o *Options) { o.PublicURL, o.Ingest = public, &taker{refused: refused, public: public} })
	for want, r := range map[string]reply{
		"not_found":  w.ask(admin, "GET", "/v1/endpoints/ep_none", ""),
		"invalid":    w.ask(admin, "POST", "/v1/events/batch", `{"events":[{"type":"a b","data":1}]}`),
		"unverified": w.ask("", "POST", "/in/src_1", "{}"),
	} {
		if want = `"type":"/hooks/docs/problems#` + want + `"`; !strings.Contains(string(r.body), want) {
			t.Errorf("answered %s, want %s", r.body, want)
		}
	}
}
