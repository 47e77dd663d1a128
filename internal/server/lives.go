package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/face/api"
	"github.com/grapnelhq/grapnel/internal/face/svix"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/nodes/peer"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
)

// newLives makes the handler of requests, with the life that began at the start.
func newLives(s *Server) *lives {
	l := &lives{server: s}
	l.put(s.life)
	return l
}

// ServeHTTP passes the request to the current life.
func (l *lives) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*l.handler.Load()).ServeHTTP(w, r)
}

// put serves with a life from then on.
func (l *lives) put(next *life) {
	numbers := l.server.registry()
	next.measure(numbers)
	handler := next.front(l.server, promhttp.HandlerFor(numbers, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	l.now.Store(next)
	l.server.limit(next) // Change may have missed it
	l.handler.Store(&handler)
}

// keep delivers until ctx ends, and begins a new life after the database went back. Any other error
// of the store goes to failed.
func (l *lives) keep(ctx context.Context, failed chan<- error) {
	for is := l.now.Load(); is != nil; {
		running, stop := context.WithCancel(ctx)
		var work sync.WaitGroup
		work.Go(func() { is.run(running, l.server.options.Silent) })
		var fatal error
		select {
		case fatal = <-is.store.Fatal():
		case <-ctx.Done():
		}
		if !errors.Is(fatal, store.ErrWentBack) {
			if fatal != nil {
				failed <- fatal
			}
			work.Wait()
			stop()
			return
		}
		l.server.log.Error("database went back or was replaced; closed, opening it again", "err", fatal)
		is.closed.Store(true)
		is.end()
		is.engine.Forsake()
		stop()
		work.Wait()
		_ = is.store.Close() // it has nothing left to write
		if is = l.open(ctx, is); is != nil {
			l.put(is)
			l.server.log.Info("database opened again")
		}
	}
}

// open begins the next life, as soon as the database allows; nil: ctx ended before.
func (l *lives) open(ctx context.Context, was *life) *life {
	for failures := 1; ctx.Err() == nil; failures++ {
		next, err := l.try(ctx, was)
		if err == nil {
			return next
		}
		if ctx.Err() != nil {
			break
		}
		after := backoff.Store.After(failures)
		l.server.log.Warn("opening the database again failed; retrying", "err", err, "after", after.String())
		backoff.Wait(ctx.Done(), after)
	}
	return nil
}

// try opens the database once, as the start does.
func (l *lives) try(ctx context.Context, was *life) (_ *life, err error) {
	var opened cleanup
	defer func() {
		if err != nil {
			opened.run()
		}
	}()
	s, next := l.server, newLife(was.place, was.seen)
	if err := next.open(ctx, s, &opened); err != nil {
		return nil, err
	}
	if _, err := next.ensureAdminKey(ctx, s.options.AdminKey, s.options.Name); err != nil {
		return nil, err
	}
	return next, next.release(ctx, s.node)
}

// release releases the shards that this node's earlier life owned, so that no node waits for the
// end of its leases. That life has stopped.
func (l *life) release(ctx context.Context, node string) error {
	ownership, ok := l.store.(store.Ownership)
	if !ok {
		return nil
	}
	shards, err := ownership.ShardList(ctx)
	if err != nil {
		return err
	}
	var owned []store.Owned
	for _, s := range shards {
		if s.Owner == node {
			owned = append(owned, store.Owned{Shard: s.Number, Epoch: s.Epoch})
		}
	}
	return ownership.Release(ctx, node, owned)
}

// closedFor is the pause that callers are asked to make while the database is opened again.
const closedFor = time.Second

// lasting says whether a path is answered without the store: it says that the process lives, or is
// the status page.
func lasting(path string) bool { return path == "/livez" || strings.HasPrefix(path, "/status") }

// guarded refuses requests once the database went back, and ends those in progress.
func (l *life) guarded(s *Server, face http.Handler) http.Handler {
	if _, mayGoBack := l.store.(*postgres.Store); !mayGoBack {
		return face
	}
	refuse := api.Refuse(s.options.PublicURL, s.proxies)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.closed.Load() && !lasting(r.URL.Path) {
			refuse(w, r, ingress.Refusal{
				Status: http.StatusServiceUnavailable, Code: grapnel.CodeUnavailable, RetryAfter: closedFor,
				Detail: "The database was replaced by another one; this server is reading it again.",
			})
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if !lasting(r.URL.Path) {
			defer context.AfterFunc(l.alive, cancel)()
		}
		face.ServeHTTP(w, r.WithContext(ctx))
	})
}

// besides adds the route for other nodes to those of the API.
func (l *life) besides(s *Server, api http.Handler) http.Handler {
	if l.peers == nil {
		return api
	}
	nodes := l.guarded(s, peer.Handler(answering{l.engine, l.consents}, peer.Options{Bounds: s.options.Bounds.Peer, Secret: l.secret}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == peer.Path {
			nodes.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// front is the handler of all requests.
func (l *life) front(s *Server, metrics http.Handler) http.Handler {
	passes := l.passes(s)
	face := l.face(s, metrics, passes)
	return l.besides(s, l.withSvix(s, face, s.dashboard(l.guarded(s, face), passes)))
}

// withSvix puts the API of Svix before the pages, if the operator wants it.
func (l *life) withSvix(s *Server, face, next http.Handler) http.Handler {
	if !s.options.SvixAPI {
		return next
	}
	other := l.guarded(s, svix.New(svix.Options{Bounds: s.options.Bounds.Svix, API: face, Tenants: l.engine, MaxEvent: s.options.MaxEvent}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, svix.Prefix) {
			other.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
