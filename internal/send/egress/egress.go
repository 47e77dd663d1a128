// Package egress is HTTP out: it makes one attempt of a delivery and returns its outcome. The
// requests of a channel of alerts are those of its service (package channels), which may be a mail
// server. The messages to brokers are sent by the drivers of package brokers, over connections of
// this package.
//
// A receiver is hostile until proven otherwise. An endpoint's URL may be chosen by an attacker who
// wants to reach addresses that only this machine can reach. So for every attempt:
//
//   - The address is checked where the socket is dialled, after every name has been resolved: only
//     public unicast addresses, and those that the operator allows. Proxies from the environment
//     are ignored and redirects are never followed.
//   - One deadline covers name resolution, connect, TLS, headers and body.
//   - At most 64 KiB of a response are read and 16 KiB stored, nothing is ever inflated, and
//     headers are limited. A connection on which more follows is closed.
//   - At most one request reaches the receiver: another connection is tried only if nothing was
//     written to the one before.
//   - The cost of a tenant's transforms is bounded, for each event and for all of the tenant's
//     events (package transform).
//   - Error texts are written here. They contain nothing of the network inside: no resolved
//     address, no name server.
//   - Failures are classified here and nowhere else.
//
// A receiver may be reached through forward proxies (proxy.go), ask for a client certificate
// (identity.go) or for a token of its token server (token.go). Each of them is guarded in the same
// way, and none of their failures is taken for the receiver's.
//
// Attempts of an endpoint of format batch may share a request (batch.go).
//
// Every endpoint has connections of its own, HTTP/1.1 only. Tenants never share one, a change of an
// endpoint closes them, and bytes that a receiver leaves on a connection cannot affect another
// endpoint.
//
// It does not promise that a receiver has not acted on a request whose attempt failed. A timeout, a
// reset and a shutdown leave that unknown, so receivers get the same webhook-id again.
package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"iter"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/policy"
)

const (
	defaultMaxConnAge  = 5 * time.Minute
	defaultIdleTimeout = 4 * time.Second
	defaultTimeout     = 15 * time.Second // of an endpoint whose policy has none
)

// New makes a sender. The caller closes it.
func New(o Options) *Sender {
	o.UserAgent = cmp.Or(o.UserAgent, "Grapnel/"+grapnel.Version)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Resolver == nil {
		o.Resolver = &net.Resolver{PreferGo: true}
	}
	o.MaxConnAge, o.IdleTimeout = cmp.Or(o.MaxConnAge, defaultMaxConnAge), cmp.Or(o.IdleTimeout, defaultIdleTimeout)
	b := bounds.Fill(o.Bounds)
	s := &Sender{
		bounds: b, opts: o,
		anywhere: newGuard([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}),
		routes:   map[string]*route{}, conns: map[*conn]struct{}{}, links: links{open: map[*link]struct{}{}, of: map[string]int{}},
		shapes:  allowance.New(b.ShapeBurst*time.Duration(b.ShapePart), b.ShapeTenants),
		shaping: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		tls: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs, Time: o.Now, NextProtos: []string{"http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(b.Sessions),
		},
	}
	s.rule(o.Allow, o.HTTPSOnly)
	s.ended = sync.NewCond(&s.connsMu)
	s.buffers.New = func() any { return new([maxKeptBody]byte) }
	s.messages.New = func() any { return new(message) }
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

func (s *Sender) rule(allow []netip.Prefix, httpsOnly bool) {
	s.rules.Store(&rules{guard: newGuard(allow), mail: newGuard(allow).forMail(), httpsOnly: httpsOnly})
}

// Allow replaces Options.Allow and HTTPSOnly. Idle connections are closed, so that none leads to an
// address that is no longer allowed; attempts in flight finish.
func (s *Sender) Allow(allow []netip.Prefix, httpsOnly bool) {
	s.mu.Lock()
	s.rule(allow, httpsOnly)
	old := s.routes
	if !s.closed {
		s.routes = map[string]*route{}
	}
	s.mu.Unlock()
	leave(s, maps.Values(old))
}

// leave closes the idle connections of routes that no further attempt gets.
func leave(s *Sender, routes iter.Seq[*route]) {
	for r := range routes {
		r.pool.close()
		s.links.drop(r)
	}
}

// Close ends the attempts in flight as policy.ClassInternal, closes all connections and waits for
// both. A later Send ends in the same way.
func (s *Sender) Close() {
	s.mu.Lock()
	s.closed = true
	routes := s.routes
	s.routes = nil
	s.mu.Unlock()
	s.close()
	s.closeConns()
	s.sends.Wait()
	leave(s, maps.Values(routes))
	s.links.close()
	s.connsMu.Lock()
	for len(s.conns) > 0 {
		s.ended.Wait()
	}
	s.connsMu.Unlock()
}

func (s *Sender) closeConns() {
	s.connsMu.Lock()
	open := slices.Collect(maps.Keys(s.conns))
	s.connsMu.Unlock()
	for _, c := range open {
		_ = c.Close() // it is being abandoned
	}
}

func (r *Result) fail(class policy.Class, text string) {
	r.Outcome.Class, r.Error = class, clean(text)
}
