package engine

import (
	"context"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// pacing has publishers wait while this process has too little processor time to deliver what it
// accepts. Accepting the events of a batch takes a fifth of the time that their deliveries take. So
// without it batches would take most of the time, and a backlog would grow behind quick receivers.
//
// Time is short if many goroutines wait for a processor. While it is, a tenant may be Ahead
// deliveries ahead of its outcomes: its next publish waits until outcomes have caught up, but not
// longer than Pause. A slow receiver makes no publisher wait: attempts in progress wait for the
// network, and processors are idle.
//
// Deliveries that only another node or a consumer of a queue can finish are not counted.
type pacing struct {
	bounds PacingBounds
	clock  func() time.Time
	short  func() bool // one goroutine in Share waited long since the last call
	waited func()      // called for each publish that waits

	mu       sync.Mutex
	lookedAt time.Time
	busy     bool             // processor time is short
	ahead    map[string]int64 // by tenant, while busy
	changed  chan struct{}    // closed when a tenant that was too far ahead is not any more
}

func newPacing(b PacingBounds, clock func() time.Time, waited func()) *pacing {
	return &pacing{bounds: b, clock: clock, short: shortage(goroutines(b.Late), b.Share), waited: waited,
		ahead: map[string]int64{}, changed: make(chan struct{})}
}

// wait returns when the tenant may publish.
func (p *pacing) wait(ctx context.Context, tenant string) {
	changed := p.tooFar(tenant)
	if changed == nil {
		return
	}
	p.waited()
	longest := time.NewTimer(p.bounds.Pause)
	defer longest.Stop()
	for changed != nil {
		select {
		case <-changed:
			changed = p.tooFar(tenant)
		case <-longest.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// tooFar returns nil if the tenant may publish, else what to wait for.
func (p *pacing) tooFar(tenant string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look()
	if !p.busy || p.ahead[tenant] <= p.bounds.Ahead {
		return nil
	}
	return p.changed
}

// look finds out whether processor time is short, if it is time to.
func (p *pacing) look() {
	now := p.clock()
	if now.Sub(p.lookedAt) < p.bounds.Look {
		return
	}
	p.lookedAt = now
	if p.busy = p.short(); !p.busy {
		clear(p.ahead)
		p.wake()
	}
}

func (p *pacing) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// counts says whether accepted and recorded have to be called.
func (p *pacing) counts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy
}

// accepted counts deliveries that are to be made.
func (p *pacing) accepted(tenant string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy && n > 0 {
		p.ahead[tenant] += n
	}
}

// recorded counts an outcome.
func (p *pacing) recorded(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, there := p.ahead[tenant]
	if !there {
		return
	}
	p.ahead[tenant] = is - 1
	switch is - 1 {
	case p.bounds.Ahead:
		p.wake()
	case 0:
		delete(p.ahead, tenant)
	}
}

// outcomes counts the outcomes of a page.
func (p *pacing) outcomes(conf *configuration.Snapshot, page []core.Change, results []store.Changed) {
	if !p.counts() {
		return
	}
	for i := range results {
		if ep := conf.At(page[i].Endpoint); ep != nil && results[i].Applied {
			p.recorded(ep.Tenant)
		}
	}
}

// shortage returns a function that says whether processor time was short since its last call: one
// goroutine in share was late, and more than one. An idle program starts a few in a look, and on a
// machine with other programs one of them is late now and then.
func shortage(count func() (tardy, started uint64), share int) func() bool {
	var tardy, started uint64
	return func() bool {
		late, all := tardy, started
		tardy, started = count()
		late, all = tardy-late, started-all
		return late > 1 && late*uint64(share) >= all
	}
}

// goroutines returns a function that counts the goroutines that were started so far, or went on
// after a wait, and those of them that then waited for a processor for longer than late. Go times
// one of eight, and only those are counted.
func goroutines(late time.Duration) func() (tardy, started uint64) {
	samples := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	return func() (tardy, started uint64) {
		metrics.Read(samples)
		h := samples[0].Value.Float64Histogram()
		for i, n := range h.Counts {
			started += n
			if h.Buckets[i] >= late.Seconds() {
				tardy += n
			}
		}
		return tardy, started
	}
}
