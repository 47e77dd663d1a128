package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
)

func newInside() *inside { return &inside{idle: make(chan struct{})} }

func (i *inside) enter() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return false
	}
	i.running++
	return true
}

func (i *inside) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running--
	i.end()
}

// end closes idle where nothing runs any more and nothing may begin.
func (i *inside) end() {
	select {
	case <-i.idle:
	default:
		if i.closed && i.running == 0 {
			close(i.idle)
		}
	}
}

// shut lets nothing in any more, and waits for what runs until ctx ends.
func (i *inside) shut(ctx context.Context) error {
	i.mu.Lock()
	i.closed = true
	i.end()
	i.mu.Unlock()
	select {
	case <-i.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Relays says whether a source has the outbox of a DSN.
func (s *Server) Relays(dsn string) bool {
	return slices.ContainsFunc(s.lives.now.Load().engine.Sources(store.Everyone()), func(in grapnel.Source) bool {
		return in.Outbox != nil && in.Outbox.DSN.Text == dsn
	})
}

// Handler answers what the server's own addresses answer, for a program that this server is part
// of. Once the server drains, it refuses.
func (s *Server) Handler() http.Handler {
	next, refuse := s.entrance(s.lives), api.Refuse(s.options.PublicURL, s.proxies)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.inside.enter() {
			refuse(w, r, ingress.Refusal{Status: http.StatusServiceUnavailable, Code: grapnel.CodeUnavailable, RetryAfter: closedFor,
				Detail: "This server stops."})
			return
		}
		defer s.inside.leave()
		next.ServeHTTP(w, r)
	})
}
