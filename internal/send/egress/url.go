package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

const maxURLLength = 2048

// URLRules say which URLs are accepted.
type URLRules struct {
	Allow     []netip.Prefix // as in Options
	HTTPSOnly bool
	Own       *url.URL // base URL of this server; nil: unknown
}

// CheckURL returns the fault of an endpoint's URL, in words for the operator who entered it. It is
// called when the URL is saved and again before it is used. It refuses faults that are visible
// without resolving a name; the guard decides when the connection is made.
func CheckURL(raw string, r URLRules) error {
	u, err := parseURL(raw, r.HTTPSOnly, newGuard(r.Allow))
	if err == nil && r.Own != nil && within(u, r.Own) {
		return errors.New("leads back to this server (--public-url); deliveries would go in circles")
	}
	return err
}

// within says whether a URL is below another one. The ports of http and https on a host count as
// the same, since proxies forward one to the other.
func within(u, base *url.URL) bool {
	name := func(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") }
	p, err := portOf(u)
	q, wrong := portOf(base)
	same := err == nil && wrong == nil && (p == q || webPort(p) && webPort(q) && p < 1024 && q < 1024)
	below, root := path.Clean("/"+u.Path)+"/", path.Clean("/"+base.Path)
	return same && name(u) == name(base) && strings.HasPrefix(below, strings.TrimSuffix(root, "/")+"/")
}

// parseURL returns the URL as it is sent: its host in lower case, its query encoded. net/http
// encodes the path, but would write a query into the request line as it is.
func parseURL(raw string, httpsOnly bool, g *guard) (*url.URL, error) {
	if len(raw) > maxURLLength {
		return nil, fmt.Errorf("is longer than %d characters", maxURLLength)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("is not a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must start with https:// or http://")
	case u.Scheme == "http" && httpsOnly:
		return nil, errors.New("must start with https://; this server accepts no other")
	case u.Opaque != "" || u.Host == "" || u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("must not contain a user name or password; use a header")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, errors.New("must not have a fragment (#…)")
	}
	port, err := portOf(u)
	if err != nil {
		return nil, err
	}
	host := strings.ToLower(u.Hostname())
	if err := checkHost(host, port, strings.HasPrefix(u.Host, "["), g); err != nil {
		return nil, err
	}
	u.Host = strings.ToLower(u.Host)
	u.RawQuery = percentEncode(u.RawQuery, `"<>`) // already encoded parts stay as they are
	return u, nil
}

func portOf(u *url.URL) (uint16, error) {
	text := u.Port()
	switch {
	case text == "" && strings.HasSuffix(u.Host, ":"):
		return 0, errors.New("has a colon but no port")
	case text == "" && u.Scheme == "https":
		return 443, nil
	case text == "":
		return 80, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || text[0] == '0' {
		return 0, errors.New("has a port that is not a number from 1 to 65535")
	}
	return uint16(port), nil
}

// checkHost takes a host name in ASCII or the canonical text of an IP address. Other spellings of
// an address (127.1, 0x7f.1, 2130706433, full-width digits) are refused rather than understood: the
// parsers of this world read them differently.
func checkHost(host string, port uint16, bracketed bool, g *guard) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		if bracketed != addr.Is6() {
			return errors.New("has a host that is neither a name nor an address")
		}
		if g.check(netip.AddrPortFrom(addr, port)) != nil {
			return errors.New("has an address and port that deliveries may not go to; they must be public, or allowed by the operator")
		}
		return nil
	}
	if strings.ContainsFunc(host, func(c rune) bool { return c >= 0x80 }) {
		return errors.New("has a host with characters outside of ASCII; write it in its ASCII form (xn--…)")
	}
	name := strings.TrimSuffix(host, ".")
	if bracketed || !validName(name) {
		return errors.New("has a host that is neither a name nor an address")
	}
	if last := name[strings.LastIndexByte(name, '.')+1:]; numeric(last) {
		return errors.New("has a host that looks like an IP address in another spelling; write it as 192.0.2.1")
	}
	// If any address is allowed, a low port passes: the name is not resolved yet, so the guard decides
	// later.
	if !g.port(port) && len(g.allow) == 0 {
		if g.mail {
			return errors.New("has a port that is not allowed; use 587, 465 or one from 1024")
		}
		return errors.New("has a port that is not allowed; use 80, 443 or one from 1024")
	}
	if local := name == "localhost" || strings.HasSuffix(name, ".localhost"); local && !allowsLoopback(g) {
		return errors.New("has a host that is this machine; deliveries go to public addresses only, unless the operator allows others")
	}
	return nil
}

func allowsLoopback(g *guard) bool {
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	return slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(v4) || p.Contains(v6) })
}

// validName accepts the names of DNS, and underscores, which names in real use have.
func validName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// numeric says whether some parser of IPv4 text reads a label as a number: decimal, octal or
// hexadecimal.
func numeric(label string) bool {
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
