package queue

import (
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/trace"
)

// granted remembers leases that this process granted, so that settling one need not read it. It
// decides nothing: a lease that it does not have is read from the store.
type granted struct {
	most    int // leases
	mu      sync.Mutex
	byToken map[string]grapnel.Lease
	spans   map[string]trace.Span // of those leases whose events are traced
}

func newGranted(most int) *granted {
	return &granted{most: most, byToken: map[string]grapnel.Lease{}, spans: map[string]trace.Span{}}
}

func (g *granted) put(leases []grapnel.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range leases {
		if _, there := g.byToken[leases[i].Token]; there || len(g.byToken) < g.most {
			g.byToken[leases[i].Token] = leases[i]
		}
	}
}

func (g *granted) get(token string) (grapnel.Lease, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, known := g.byToken[token]
	return l, known
}

// drop forgets a lease, and returns its span; nil: it has none.
func (g *granted) drop(token string) *trace.Span {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, traced := g.spans[token]
	g.remove(token)
	if !traced {
		return nil
	}
	return &s
}

func (g *granted) remove(token string) {
	delete(g.byToken, token)
	delete(g.spans, token)
}

// begun remembers the span of a lease.
func (g *granted) begun(token string, s trace.Span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, there := g.byToken[token]; there {
		g.spans[token] = s
	}
}

// forget drops leases that ended before a time: of deliveries that operators skipped, and of
// deleted queues.
func (g *granted) forget(before time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for token := range g.byToken {
		if g.byToken[token].Until.Before(before) {
			g.remove(token)
		}
	}
}
