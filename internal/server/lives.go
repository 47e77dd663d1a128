package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api"
	"github.com/grapnelhq/grapnel/internal/backoff"
	"github.com/grapnelhq/grapnel/internal/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
)

// lives closes a cell and opens it again while the server keeps running.
//
// All parts of a cell remember rows by the ids that its database assigned. After the database went
// back (store.ErrWentBack), those ids mean other rows. So the whole cell is dropped without
// recording anything, and opened as at the start. Meanwhile its requests are answered 503. The
// other cells stay; the parts that know all cells, such as the router, are rebuilt around them.
type lives struct {
	first   *Server
	now     atomic.Pointer[Server] // the server with its current cells
	handler atomic.Pointer[http.Handler]

	mu       sync.Mutex
	replaced context.CancelFunc // ends alive
	alive    context.Context    // ends when now is replaced
}

// newLives makes the handler of requests.
func newLives(s *Server) *lives {
	l := &lives{first: s}
	l.put(s)
	return l
}

// ServeHTTP passes the request to the current cells.
func (l *lives) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*l.handler.Load()).ServeHTTP(w, r)
}

// put rebuilds the parts that know all cells of a server, and serves with them from then on.
func (l *lives) put(s *Server) {
	numbers := s.registry()
	for _, c := range s.cells {
		c.measure(s.labelled(numbers, c))
	}
	handler := s.front(promhttp.HandlerFor(numbers, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	if l.replaced != nil {
		defer l.replaced()
	}
	l.alive, l.replaced = context.WithCancel(context.Background())
	l.now.Store(s)
	l.handler.Store(&handler)
}

// replace puts a new cell in the place of one that ended.
func (l *lives) replace(i int, c *cell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := *l.now.Load()
	s.cells = slices.Clone(s.cells)
	s.cells[i] = c
	l.put(&s)
}

// move carries out moves of tenants between the current cells, until ctx ends.
func (l *lives) move(ctx context.Context) {
	for ctx.Err() == nil {
		l.mu.Lock()
		s, alive := l.now.Load(), l.alive
		l.mu.Unlock()
		moving, end := context.WithCancel(ctx)
		stop := context.AfterFunc(alive, end)
		s.directory.Run(moving)
		<-moving.Done() // a server without moves returns at once
		stop()
		end()
	}
}

// keep runs a cell until ctx ends, and opens it again after its database went back. Any other error
// of the store goes to failed.
func (l *lives) keep(ctx context.Context, i int, failed chan<- error) {
	for c := l.first.cells[i]; c != nil; {
		running, stop := context.WithCancel(ctx)
		var work sync.WaitGroup
		work.Go(func() { c.run(running, l.first.options.Silent) })
		var fatal error
		select {
		case fatal = <-c.store.Fatal():
		case <-ctx.Done():
		}
		if !errors.Is(fatal, store.ErrWentBack) {
			if fatal != nil {
				failed <- l.first.of(c, fatal)
			}
			work.Wait()
			stop()
			return
		}
		l.first.log.Error("database went back or was replaced; cell closed, opening it again", "cell", c.name, "err", fatal)
		c.closed.Store(true)
		c.end()
		c.engine.Forsake()
		stop()
		work.Wait()
		_ = c.store.Close() // it has nothing left to write
		if c = l.open(ctx, i, c); c != nil {
			l.replace(i, c)
			l.first.log.Info("cell opened again", "cell", c.name)
		}
	}
}

// open opens a cell in the place of one that ended, as soon as its database allows; nil: ctx ended
// before.
func (l *lives) open(ctx context.Context, i int, was *cell) *cell {
	for failures := 1; ctx.Err() == nil; failures++ {
		c, err := l.try(ctx, i, was)
		if err == nil {
			return c
		}
		if ctx.Err() != nil {
			break
		}
		after := backoff.Store.After(failures)
		l.first.log.Warn("opening a cell again failed; retrying", "cell", was.name, "err", err, "after", after.String())
		backoff.Wait(ctx.Done(), after)
	}
	return nil
}

// try opens a cell once, as the start does.
func (l *lives) try(ctx context.Context, i int, was *cell) (_ *cell, err error) {
	var opened cleanup
	defer func() {
		if err != nil {
			opened.run()
		}
	}()
	s, c := l.first, newCell(was.name, was.place, was.seen)
	if err := c.open(ctx, s, &opened); err != nil {
		return nil, err
	}
	if i == 0 {
		if _, err := c.ensureAdminKey(ctx, s.options.AdminKey); err != nil {
			return nil, err
		}
	}
	return c, c.release(ctx, s.node)
}

// release releases the shards that this node's earlier life owned, so that no node waits for the
// end of its leases. That life has stopped.
func (c *cell) release(ctx context.Context, node string) error {
	ownership, ok := c.store.(store.Ownership)
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

// closedFor is the pause that callers of a closed cell are asked to make.
const closedFor = time.Second

// lasting says whether a path is answered without the store: it says that the process lives, or is
// the status page.
func lasting(path string) bool { return path == "/livez" || strings.HasPrefix(path, "/status") }

// guarded refuses requests once the cell's database went back, and ends those in progress.
func (c *cell) guarded(s *Server, face http.Handler) http.Handler {
	if _, mayGoBack := c.store.(*postgres.Store); !mayGoBack {
		return face
	}
	refuse := api.Refuse(s.options.PublicURL, s.options.Proxies)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.closed.Load() && !lasting(r.URL.Path) {
			refuse(w, r, ingress.Refusal{
				Status: http.StatusServiceUnavailable, Code: grapnel.CodeUnavailable, RetryAfter: closedFor,
				Detail: "The database was replaced by another one; this server is reading it again.",
			})
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if !lasting(r.URL.Path) {
			defer context.AfterFunc(c.alive, cancel)()
		}
		face.ServeHTTP(w, r.WithContext(ctx))
	})
}
