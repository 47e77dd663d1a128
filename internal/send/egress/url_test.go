package egress

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestURLsThatCanBeSaved(t *testing.T) {
	for _, raw := range []string{
		"https://example.com", "https://example.com/", "http://example.com/hooks?x=1&y=%20", "HTTPS://Example.COM/Hooks",
		"https://example.com:8443/",
		"https://example.com:443/", "http://example.com:1024", "https://1.1.1.1/", "https://[2606:4700::1111]/",
		"https://[2606:4700::1111]:8443/",
		"https://xn--bcher-kva.example/", "https://a_b.example/", "https://example.com./", "https://example.com/%2e%2e/", "https://example.com/ü",
		"https://0x7f.example/", "https://127.0.0.1.example/", "https://localhost.example/",
	} {
		if err := CheckURL(raw, URLRules{}); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestURLsThatCannotBeSaved(t *testing.T) {
	for raw, about := range map[string]string{
		"":                                "https://",
		"example.com":                     "https://",
		"ftp://example.com":               "https://",
		"javascript:alert(1)":             "https://",
		"https:example.com":               "no host",
		"https://":                        "no host",
		"https:///path":                   "no host",
		"https://:443":                    "no host",
		"https://a b.example":             "not a URL",
		"https://example.com\r\nX: y":     "not a URL",
		"https://example.com:99999":       "port",
		"https://example.com:0":           "port",
		"https://example.com:":            "port",
		"https://example.com:080":         "port",
		"https://example.com:25":          "port",
		"https://1.1.1.1:25":              "port",
		"https://user@example.com":        "password",
		"https://user:secret@example.com": "password",
		"https://example.com/#x":          "fragment",
		"https://example.com/#":           "fragment",
		"https://bücher.example":          "ASCII",
		"https://example.com/" + strings.Repeat("x", 2048): "longer",
		"https://-a.example":                              "neither",
		"https://a..example":                              "neither",
		"https://a!b.example":                             "neither",
		"https://" + strings.Repeat("a", 64) + ".example": "neither",
		"https://10.0.0.1":                                "public",
		"https://[::1]":                                   "public",
		"https://127.1":                                   "spelling",
		"https://example.0x7f":                            "spelling",
		"https://localhost:3000":                          "this machine",
	} {
		err := CheckURL(raw, URLRules{})
		if err == nil {
			t.Errorf("%q is accepted", raw)
			continue
		}
		if !strings.Contains(err.Error(), about) {
			t.Errorf("%q: %v (nothing about %q)", raw, err, about)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error repeats a password", raw)
		}
	}
}

func TestURLRules(t *testing.T) {
	local := URLRules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for _, raw := range []string{"http://127.0.0.1:3000/", "http://localhost:3000/", "http://127.9.9.9:25/", "http://hooks.internal:25/"} {
		if err := CheckURL(raw, local); err != nil {
			t.Errorf("%s although it is allowed: %v", raw, err)
		}
	}
	for _, raw := range []string{"http://10.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://127.1/"} {
		if CheckURL(raw, local) == nil {
			t.Errorf("%s is accepted", raw)
		}
	}
	secure := URLRules{HTTPSOnly: true}
	if CheckURL("http://example.com/", secure) == nil || CheckURL("https://example.com/", secure) != nil {
		t.Error("https only")
	}
}

// FuzzEndpointURL: a URL that can be saved leads to a name or to a public address in its one
// canonical spelling, at a web port.
func FuzzEndpointURL(f *testing.F) {
	for _, host := range append(spellings(), hostile()...) {
		f.Add("http://" + host + ":8080/x")
		f.Add("https://[" + host + "]/")
	}
	f.Add("https://example.com:443/?a=b#c")
	f.Add("http://h.test/ü x?a b HTTP/1.1\u2028ü")
	g := newGuard(nil)
	f.Fuzz(func(t *testing.T, raw string) {
		if CheckURL(raw, URLRules{}) != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatalf("%q is no URL", raw)
		}
		if sent, err := parseURL(
			raw,
			false,
			g,
		); err != nil ||
			strings.ContainsFunc(sent.RequestURI(), func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
			t.Fatalf("%q is sent as %q: %v", raw, sent.RequestURI(), err)
		}
		port, err := portOf(u)
		if err != nil || !webPort(port) || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			t.Fatalf("%q", raw)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			if g.check(netip.AddrPortFrom(addr, port)) != nil {
				t.Fatalf("%q leads to %v", raw, addr)
			}
			return
		}
		name := strings.TrimSuffix(u.Hostname(), ".")
		last := name[strings.LastIndexByte(name, '.')+1:]
		if strings.ContainsAny(name, "%@\\:[] \t\r\n\x00") || last == "" || strings.Trim(last, "0123456789") == "" {
			t.Fatalf("%q has the host %q", raw, name)
		}
	})
}

// TestOwnAddress: no URL of an endpoint leads back to this server, in any spelling. Other paths on
// the same host are allowed.
func TestOwnAddress(t *testing.T) {
	for own, urls := range map[string]map[string]bool{
		"https://hooks.example": {
			"https://hooks.example/in/src_1": false, "http://HOOKS.example./": false, "https://hooks.example:443": false,
			"https://hooks.example:8443/": true, "https://www.hooks.example/": true,
		},
		"https://hooks.example/grapnel": {
			"https://hooks.example/grapnel/in/src_1": false, "https://hooks.example/x/../grapnel": false, "https://hooks.example//grapnel/": false,
			"https://hooks.example/gr%61pnel/in/src_1": false, "https://hooks.example/in/src_1": true, "https://hooks.example/grapnels/": true,
		},
		"http://hooks.example:8420/": {"http://hooks.example:8420/in/src_1": false, "http://hooks.example/in/src_1": true},
	} {
		base, err := url.Parse(own)
		if err != nil {
			t.Fatal(err)
		}
		for raw, fine := range urls {
			if err := CheckURL(raw, URLRules{Own: base}); (err == nil) != fine {
				t.Errorf("%s of a server at %s: %v", raw, own, err)
			}
		}
	}
}
