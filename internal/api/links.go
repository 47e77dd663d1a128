package api

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// links makes the links in answers.
type links struct {
	public  string         // what they begin with, without a slash at the end; empty: nobody has said
	proxies []netip.Prefix // whose X-Forwarded-Proto and X-Forwarded-Host are believed
}

func newLinks(public *url.URL, proxies []netip.Prefix) links {
	l := links{proxies: proxies}
	if public != nil {
		l.public = strings.TrimSuffix(public.String(), "/")
	}
	return l
}

// origin is what links begin with: where the operator says that this server is reached, else where the
// caller has reached it. Empty, which makes them paths, if the request does not say that.
func (l *links) origin(r *http.Request) string {
	if l.public != "" {
		return l.public
	}
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err == nil && slices.ContainsFunc(l.proxies, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) }) {
		scheme = cmp.Or(forwarded(r, "X-Forwarded-Proto"), scheme)
		host = cmp.Or(forwarded(r, "X-Forwarded-Host"), host)
	}
	if host == "" {
		return ""
	}
	return (&url.URL{Scheme: scheme, Host: host}).String()
}

// forwarded is what the nearest proxy says: the last one of a list, if it can be part of a URL.
func forwarded(r *http.Request, header string) string {
	all := strings.Join(r.Header.Values(header), ",")
	last := strings.ToLower(strings.TrimSpace(all[strings.LastIndexByte(all, ',')+1:]))
	if strings.Trim(last, "abcdefghijklmnopqrstuvwxyz0123456789.-:[]_") != "" {
		return ""
	}
	return last
}
