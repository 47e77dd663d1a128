package api

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
)

// links makes the links in answers.
type links struct {
	public  string                // what they begin with, without a slash at the end; empty: not configured
	proxies func() []netip.Prefix // whose X-Forwarded-Proto, -Host and -Prefix are believed
}

func newLinks(public *url.URL, proxies func() []netip.Prefix) links {
	l := links{proxies: proxies}
	if public != nil {
		l.public = strings.TrimSuffix(public.String(), "/")
	}
	return l
}

// Origin says where a server is reached: where its operator says, else where the caller of a
// request has reached it.
func Origin(public *url.URL, proxies func() []netip.Prefix) func(*http.Request) string {
	l := newLinks(public, proxies)
	return l.origin
}

// origin is what links begin with: where the operator says that this server is reached, else where
// the caller has reached it. Of a request that does not say that, it is the path below which a
// proxy serves this server.
func (l *links) origin(r *http.Request) string {
	if l.public != "" {
		return l.public
	}
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if l.trusts(r) {
		if said := forwarded(r, "X-Forwarded-Proto"); said == "http" || said == "https" {
			scheme = said
		}
		host = cmp.Or(forwarded(r, "X-Forwarded-Host"), host)
	}
	if host == "" {
		return l.root(r)
	}
	return (&url.URL{Scheme: scheme, Host: host}).String() + l.root(r)
}

// known says whether that is more than the caller's word: anyone who can make a server send a Host
// of their choice would choose where links that are credentials lead.
func (l *links) known(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	at, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return l.public != "" || l.trusts(r) || host == "localhost" || err == nil && at.Unmap().IsLoopback()
}

// Known says whether Origin's answer is the operator's word or that of a proxy it trusts, or leads
// to this machine.
func Known(public *url.URL, proxies func() []netip.Prefix) func(*http.Request) bool {
	l := newLinks(public, proxies)
	return l.known
}

// root is what links begin with that others will follow than the caller: where the operator says
// that this server is reached, else the path below which a trusted proxy serves it.
func (l *links) root(r *http.Request) string {
	if l.public != "" || !l.trusts(r) {
		return l.public
	}
	prefix := strings.TrimRight(nearest(r, "X-Forwarded-Prefix"), "/")
	if !strings.HasPrefix(prefix, "/") || path.Clean(prefix) != prefix || !consists(prefix, lower+upper+digits+"-._~/") {
		return ""
	}
	return prefix
}

// path is the path below which this server is reached.
func (l *links) path(r *http.Request) string {
	root, err := url.Parse(l.root(r))
	if err != nil {
		return ""
	}
	return root.EscapedPath()
}

// trusts says whether the request came through a proxy whose headers are believed.
func (l *links) trusts(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || l.proxies == nil {
		return false
	}
	return slices.ContainsFunc(l.proxies(), func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

// client is the address of the caller: the last that no trusted proxy has.
func (l *links) client(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // or the zero address, which no range contains
	at := from.Addr().Unmap().WithZone("")
	if !l.trusts(r) {
		return at
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		said, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		if at = said.Unmap().WithZone(""); !slices.ContainsFunc(l.proxies(), func(p netip.Prefix) bool { return p.Contains(at) }) {
			break
		}
	}
	return at
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
)

// consists says whether a text has these characters only.
func consists(text, of string) bool { return strings.Trim(text, of) == "" }

// forwarded is what the nearest proxy says, if it can be a scheme or a host.
func forwarded(r *http.Request, header string) string {
	last := strings.ToLower(nearest(r, header))
	if !consists(last, lower+digits+".-:[]_") {
		return ""
	}
	return last
}

// nearest is the last one of a list: each proxy adds one.
func nearest(r *http.Request, header string) string {
	all := strings.Join(r.Header.Values(header), ",")
	return strings.TrimSpace(all[strings.LastIndexByte(all, ',')+1:])
}
