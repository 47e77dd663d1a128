package queue

import (
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
)

// granted remembers leases that this process granted, so that settling one need not read it. It
// decides nothing: a lease that it does not have is read from the store.
type granted struct {
	most    int // leases
	mu      sync.Mutex
	byToken map[string]grapnel.Lease
}

func newGranted(most int) *granted { return &granted{most: most, byToken: map[string]grapnel.Lease{}} }

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

func (g *granted) drop(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.byToken, token)
}

// forget drops leases that ended before a time: of deliveries that operators skipped, and of
// deleted queues.
func (g *granted) forget(before time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for token := range g.byToken {
		if g.byToken[token].Until.Before(before) {
			delete(g.byToken, token)
		}
	}
}
