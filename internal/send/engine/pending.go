package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/store"
)

// pending counts the pending deliveries of each tenant. It starts with the store's count and adds
// the results of the engine's own writes. If the answer to a write is lost, its result is unknown:
// the count is in doubt until it is read again (recount).
//
// Other nodes that share the store create and finish deliveries as well. So this node counts again
// before it refuses.
type pending struct {
	again func() ([]share, error) // the store's count; nil: no other node uses the store
	rest  time.Duration           // between two counts that refusals cause, at least
	clock func() time.Time        // with the reading of the monotonic clock

	counting sync.Mutex
	next     time.Time // when a refusal may cause a count again

	most func(tenant string) int64 // limit of a tenant; 0: none

	mu      sync.Mutex
	total   int64
	waiting map[string]int64 // by tenant
	// in flight to the store, so that two callers do not both get the last one
	expected map[string]int64
	calls    int   // writes in flight
	moves    int64 // writes that returned
	doubtful bool
}

func newPending(most func(tenant string) int64) *pending {
	return &pending{most: most, waiting: map[string]int64{}, expected: map[string]int64{}}
}

// share is a number of deliveries of one tenant.
type share struct {
	tenant string
	n      int64
}

// plus adds to one tenant's share. One call has few tenants, mostly one.
func plus(shares []share, tenant string, n int64) []share {
	if n == 0 {
		return shares
	}
	for i := range shares {
		if shares[i].tenant == tenant {
			shares[i].n += n
			return shares
		}
	}
	return append(shares, share{tenant, n})
}

// expecting counts the pending deliveries that accepting the events will create.
func expecting(events []store.Incoming) (shares []share) {
	for i := range events {
		shares = plus(shares, events[i].Event.Tenant, waits(events[i].Targets))
	}
	return shares
}

// made counts the pending deliveries that accepting the events has created.
func made(shares []share, events []store.Incoming, done store.Accepted) []share {
	for i, placed := range done.Events {
		if !placed.Duplicate && !placed.Conflict {
			shares = plus(shares, events[i].Event.Tenant, waits(events[i].Targets))
		}
	}
	return shares
}

func waits(targets []store.Target) (n int64) {
	for i := range targets {
		if targets[i].Drop == "" {
			n++
		}
	}
	return n
}

// reserve announces a write as begin does, unless a tenant would exceed its limit.
func (p *pending) reserve(expected []share) error {
	err := p.try(expected)
	if err == nil || p.again == nil {
		return err
	}
	p.counting.Lock()
	defer p.counting.Unlock()
	if now := p.clock(); !now.Before(p.next) {
		p.doubt()
		failed := p.recount(p.again)
		ended := p.clock()
		p.next = ended.Add(max(p.rest, 20*ended.Sub(now))) // counting takes at most a twentieth of the time
		if failed != nil {
			return err
		}
	}
	return p.try(expected)
}

// try is reserve by the count as it is.
func (p *pending) try(expected []share) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range expected {
		if now, most := p.waiting[s.tenant]+p.expected[s.tenant], p.most(s.tenant); most > 0 && now+s.n > most {
			return fmt.Errorf("tenant %s has %d pending deliveries and this would create %d more; the limit is %d", s.tenant, now, s.n, most)
		}
	}
	p.announce(expected)
	return nil
}

// begin announces a write that may exceed the limit.
func (p *pending) begin(expected ...share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.announce(expected)
}

func (p *pending) announce(expected []share) {
	p.calls++
	for _, s := range expected {
		add(p.expected, s.tenant, s.n)
	}
}

// end takes the result of a write that was announced.
func (p *pending) end(expected, made []share, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
	p.moves++
	for _, s := range expected {
		add(p.expected, s.tenant, -s.n)
	}
	for _, s := range made {
		add(p.waiting, s.tenant, s.n)
		p.total += s.n
	}
	if unknown(err) {
		p.doubtful = true
	}
}

func add(to map[string]int64, tenant string, n int64) {
	if to[tenant] += n; to[tenant] == 0 {
		delete(to, tenant)
	}
}

// unknown says whether a failed write may have happened.
func unknown(err error) bool {
	return err != nil && grapnel.CodeOf(err) == "" && !errors.Is(err, store.ErrStale)
}

// all is the number of pending deliveries of all tenants.
func (p *pending) all() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// written is the number of writes that have returned.
func (p *pending) written() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.moves
}

// recount reads the count from the store if it is in doubt. Writes during that read may be in its
// result or not; then the new count is better than the old one, and still in doubt.
func (p *pending) recount(count func() ([]share, error)) error {
	p.mu.Lock()
	doubtful, moves, quiet := p.doubtful, p.moves, p.calls == 0
	p.mu.Unlock()
	if !doubtful {
		return nil
	}
	counted, err := count()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubtful = !quiet || p.calls > 0 || p.moves != moves
	p.set(counted)
	return nil
}

// doubt makes the next recount read the store.
func (p *pending) doubt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubtful = true
}

func (p *pending) set(counted []share) {
	p.total = 0
	clear(p.waiting)
	for _, s := range counted {
		add(p.waiting, s.tenant, s.n)
		p.total += s.n
	}
}

// countPending reads the counts from the store.
func countPending(ctx context.Context, s Store, conf *configuration.Snapshot) ([]share, error) {
	counts, err := s.Counts(ctx, store.Everyone())
	if err != nil {
		return nil, err
	}
	var shares []share
	for id, by := range counts {
		if ep := conf.At(id); ep != nil {
			shares = append(shares, share{ep.Tenant, by[grapnel.Pending]})
		}
	}
	return shares, nil
}
