package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// pending counts the deliveries that wait, by tenant. It starts with what the store counts and follows what the engine's own writes are
// answered. Where an answer is lost nobody knows what was written; then the count is in doubt, and made anew (recount).
type pending struct {
	most int64 // of one tenant; 0: no limit

	mu       sync.Mutex
	total    int64
	waiting  map[string]int64 // by tenant
	expected map[string]int64 // on their way to the store, so that two who come together do not both get the last place
	calls    int              // writes on their way
	moves    int64            // writes that came back
	doubtful bool
}

func newPending(most int64) *pending {
	return &pending{most: most, waiting: map[string]int64{}, expected: map[string]int64{}}
}

// share is how many deliveries of a tenant something is about.
type share struct {
	tenant string
	n      int64
}

// plus adds to one tenant's share. There are few tenants in one call, mostly one.
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

// expecting is what the acceptance of events will make wait.
func expecting(events []store.Incoming) (shares []share) {
	for i := range events {
		shares = plus(shares, events[i].Event.Tenant, waits(events[i].Targets))
	}
	return shares
}

// made is what it has made wait.
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

// reserve announces a write as begin does, unless a tenant would have more than it may.
func (p *pending) reserve(expected []share) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range expected {
		if now := p.waiting[s.tenant] + p.expected[s.tenant]; p.most > 0 && now+s.n > p.most {
			return fmt.Errorf("%d deliveries of tenant %s are waiting and this would make %d more; the limit is %d", now, s.tenant, s.n, p.most)
		}
	}
	p.announce(expected)
	return nil
}

// begin announces a write that is not for us to refuse.
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

// end takes the answer to a write that was announced.
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

// unknown says whether a write may have happened though it failed.
func unknown(err error) bool {
	return err != nil && grapnel.CodeOf(err) == "" && !errors.Is(err, store.ErrStale)
}

// all is how many wait.
func (p *pending) all() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// recount makes the count anew if it is in doubt. What is written while the store counts may be in its answer or not; then the new count
// is better than the old one and still in doubt.
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

// doubt has the count made anew.
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

// countPending asks the store.
func (e *Engine) countPending(ctx context.Context) ([]share, error) {
	counts, err := e.store.Counts(ctx, store.Everyone())
	if err != nil {
		return nil, err
	}
	conf := e.config.Load()
	var shares []share
	for id, by := range counts {
		if ep := conf.at(id); ep != nil {
			shares = append(shares, share{ep.Tenant, by[grapnel.Pending]})
		}
	}
	return shares, nil
}
