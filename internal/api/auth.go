package api

import (
	"crypto/sha256"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// authenticate finds whose request it is and whether its key may do what the route is for. Keys are found by their hash, so
// how long the search takes tells nothing about a key.
func (a *api) authenticate(c *call) error {
	if c.route.open != nil && c.route.open(c.Request) {
		return nil
	}
	token, ok := Bearer(c.Header)
	if !ok {
		return grapnel.Errorf(codeUnauthenticated, "The request has no API key. Send it as Authorization: Bearer grp_…")
	}
	key, ok := a.Street.KeyByHash(sha256.Sum256([]byte(token)))
	if !ok {
		return grapnel.Errorf(codeUnauthenticated, "There is no such API key.")
	}
	if !key.May(c.route.scope) {
		return grapnel.Errorf(codeForbidden, "The API key lacks the scope %q.", string(c.route.scope))
	}
	c.key = key
	if key.Tenant == "" {
		c.scope = store.Everyone()
	} else {
		c.scope = store.Of(key.Tenant)
	}
	return nil
}

// Bearer is the token of the one Authorization header. Two of them are none: a proxy and the server could each believe another.
func Bearer(h http.Header) (string, bool) {
	values := h["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	return token, ok && token != "" && strings.EqualFold(scheme, "Bearer")
}

// anybody opens a route to everybody.
func anybody(*http.Request) bool { return true }

// loopback opens a route to callers on this machine. A request that a proxy on this machine passes on comes from somewhere else.
func loopback(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if len(r.Header[name]) > 0 {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
