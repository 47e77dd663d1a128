package queue

import (
	"maps"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/trace"
)

// granted remembers leases that this process granted, so that settling one need not read it. It
// decides nothing: a lease that it does not have is read from the store.
type granted struct {
	most    int // leases
	mu      sync.Mutex
	byToken map[string]grant
}

// grant is a lease with its span; nil: it has none, because its event is not traced.
type grant struct {
	grapnel.Lease
	span *trace.Span
}

func newGranted(most int) *granted {
	return &granted{most: most, byToken: map[string]grant{}}
}

func (g *granted) put(leases []grapnel.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range leases {
		if is, there := g.byToken[leases[i].Token]; there || len(g.byToken) < g.most {
			g.byToken[leases[i].Token] = grant{leases[i], is.span}
		}
	}
}

func (g *granted) get(token string) (grapnel.Lease, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	is, known := g.byToken[token]
	return is.Lease, known
}

// drop forgets a lease, and returns its span; nil: it has none.
func (g *granted) drop(token string) *trace.Span {
	g.mu.Lock()
	defer g.mu.Unlock()
	span := g.byToken[token].span
	delete(g.byToken, token)
	return span
}

// begun remembers the span of a lease.
func (g *granted) begun(token string, s trace.Span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if is, there := g.byToken[token]; there {
		g.byToken[token] = grant{is.Lease, &s}
	}
}

// forget drops leases that ended before a time: of deliveries that operators skipped, and of
// deleted queues.
func (g *granted) forget(before time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.byToken, func(_ string, is grant) bool { return is.Until.Before(before) })
}
