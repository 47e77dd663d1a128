package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/allowance"
)

// filterWork keeps the filters of one tenant from taking every processor. A tenant's filters may do
// FilterRate units of work a second, and FilterBurst at once. Beyond that its publishes run their
// filters one after the other, and all such tenants together use half of the processors. So a
// publish of another tenant finds a processor. It breaks if filters run without a pass.
type filterWork struct {
	bounds Bounds
	now    func() time.Time
	done   *allowance.Tenants
	share  chan struct{} // one element for each pass that runs in turn

	mu      sync.Mutex
	tenants map[string]*tenantWork
}

// tenantWork is the filter work of one tenant while it has passes.
type tenantWork struct {
	turn   chan struct{} // holds one element while a pass runs
	passes int           // in progress
}

func newFilterWork(b Bounds, now func() time.Time) *filterWork {
	w := &filterWork{bounds: b, now: now, share: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), tenants: map[string]*tenantWork{}}
	w.done = allowance.New(w.worth(b.FilterBurst), b.FilterTenants)
	return w
}

// errFiltersBusy refuses a publish whose tenant has too many others waiting for their filters.
// Without it one tenant's publishes would fill the slots of all publishes.
var errFiltersBusy = errors.New("too many publishes of the tenant wait for its filters")

// pass is the permission of one publish to run filters. It belongs to one goroutine.
type pass struct {
	work  *filterWork
	name  string
	of    *tenantWork // nil: no filter has run yet
	holds bool        // the tenant's turn and a share
}

func (w *filterWork) pass(tenant string) *pass { return &pass{work: w, name: tenant} }

// step counts the work that filters have done since the last step, and returns once the next filter
// may run: at once, or when it is the publish's turn.
func (p *pass) step(ctx context.Context, did int64) error {
	crowded := p.begin()
	free := p.charge(did)
	if p.holds {
		runtime.Gosched() // a filter can hold a processor for as long as the scheduler allows
		return nil
	}
	if free {
		return nil
	}
	if crowded {
		return errFiltersBusy
	}
	select {
	case p.of.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case p.work.share <- struct{}{}:
		p.holds = true
		return nil
	case <-ctx.Done():
		<-p.of.turn
		return ctx.Err()
	}
}

// begin enters the pass in its tenant's record, if it is not there yet. It says whether more than
// FilterPasses of the tenant's publishes are in progress.
func (p *pass) begin() (crowded bool) {
	w := p.work
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.of == nil {
		if p.of = w.tenants[p.name]; p.of == nil {
			p.of = &tenantWork{turn: make(chan struct{}, 1)}
			w.tenants[p.name] = p.of
		}
		p.of.passes++
	}
	return p.of.passes > w.bounds.FilterPasses
}

// charge counts work, and says whether the tenant is within FilterBurst.
func (p *pass) charge(did int64) (free bool) {
	now := p.work.now()
	return p.work.done.Use(p.name, now, now, p.work.worth(did))
}

// worth is the time that a tenant needs, at FilterRate, for this much work.
func (w *filterWork) worth(units int64) time.Duration {
	return time.Duration(float64(units) / float64(w.bounds.FilterRate) * float64(time.Second))
}

// end counts the last work and gives the turn back.
func (p *pass) end(did int64) {
	if p.of == nil {
		return
	}
	p.charge(did)
	if p.holds {
		<-p.work.share
		<-p.of.turn
	}
	p.work.mu.Lock()
	defer p.work.mu.Unlock()
	if p.of.passes--; p.of.passes == 0 {
		delete(p.work.tenants, p.name)
	}
}
