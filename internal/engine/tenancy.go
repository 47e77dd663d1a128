package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/backoff"
	"github.com/grapnelhq/grapnel/internal/configuration"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/ownership"
	"github.com/grapnelhq/grapnel/internal/store"
)

// tenancy makes the core have the endpoints that this node owns and whose tenants are open here.
//
// A tenant can be moved from this store to another (package cells). While a tenant is not open
// here, its events are refused and the core leaves its endpoints, as it leaves those that another
// node owns. That avoids repeated requests, and lets a move begin once no attempt is in flight.
// Safety does not depend on it: the store refuses all writes of a sealed tenant.
type tenancy struct {
	store   Store
	book    *configuration.Book
	shards  *ownership.Shards
	metrics *Metrics
	log     *slog.Logger
	inputs  *inputs
	sending context.Context  // ends when draining takes too long
	step    func(core.Input) // gives the core an input; only for functions that inputs.ask calls

	// endpoints that the core leaves because the store refuses writes of their sealed tenants
	sealed sync.Map
	// endpoints that the core leaves or has left because their tenants were closed, or that it leaves
	// because another node removed them
	away     sync.Map
	returned returned
}

// Decides says whether this node owns an endpoint. The owner of the shard also answers true for an
// endpoint that was removed, so exactly one node reports on it.
func (t *tenancy) Decides(endpoint string) bool {
	conf := t.book.Snapshot()
	ep := conf.At(endpoint)
	return t.shards.Owns(endpoint) && (ep == nil || conf.Open(ep.Tenant))
}

// decides says whether this engine owns an endpoint now.
func (t *tenancy) decides(ep *grapnel.Endpoint) bool {
	return t.shards.Has(ep.ID) && t.book.Snapshot().Open(ep.Tenant)
}

// settle configures in the core the endpoints that differ between two configurations, and returns
// the queues whose consumers have to claim again. It does not wait for attempts in flight, because
// nothing else of the configuration can change meanwhile: reopen configures what the core is still
// leaving. An engine that has ended attempts nothing, so every change has taken effect there.
func (t *tenancy) settle(ctx context.Context, before, conf *configuration.Snapshot) (queues []string, err error) {
	defer func() {
		if errors.Is(err, errStopping) {
			err = nil
		}
	}()
	opened, closed := conf.Turned(before)
	if err := t.close(ctx, conf, closed); err != nil {
		return nil, err
	}
	back, standings, err := t.standingsOf(ctx, conf, opened)
	if err != nil {
		return nil, err
	}
	changed, removed, queues := conf.Differs(before, opened)
	if len(changed)+len(removed) == 0 {
		return queues, nil
	}
	return queues, t.inputs.ask(ctx, func(c *core.Core, _ time.Time) {
		for id := range back {
			t.away.Delete(id)
		}
		for _, id := range removed {
			if c.Has(id) { // another node has removed it while this one stood still: nothing else leaves it
				t.away.Store(id, true)
				t.step(core.Leave{Endpoint: id})
			}
		}
		for _, ep := range changed {
			// Another node owns the other endpoints, or their tenant is not open here. The node
			// that takes the shard, or opens the tenant, reads the newest configuration then.
			if _, away := t.away.Load(ep.ID); !away && t.decides(ep) {
				t.step(core.Configured{Endpoint: ep, Newest: conf.Newest, Standing: standings[ep.ID]})
			}
		}
	})
}

// close makes the core leave the endpoints of tenants that are not open any more.
func (t *tenancy) close(ctx context.Context, conf *configuration.Snapshot, closed map[string]bool) error {
	if len(closed) == 0 {
		return nil
	}
	return t.inputs.ask(ctx, func(*core.Core, time.Time) {
		for _, ep := range conf.Endpoints() {
			if closed[ep.Tenant] {
				t.away.Store(ep.ID, true)
				t.step(core.Leave{Endpoint: ep.ID})
			}
		}
	})
}

// standingsOf returns the endpoints whose tenants were opened, without those that the core is still
// leaving, and their recorded standings. These are read after the core has left the endpoints,
// because until then outcomes may be added.
func (t *tenancy) standingsOf(ctx context.Context, conf *configuration.Snapshot, opened map[string]bool) (
	map[string]bool, map[string]store.Standing, error) {
	if len(opened) == 0 {
		return nil, nil, nil
	}
	back := map[string]bool{}
	err := t.inputs.ask(ctx, func(c *core.Core, _ time.Time) {
		for _, ep := range conf.Endpoints() {
			if opened[ep.Tenant] && !c.Leaving(ep.ID) {
				back[ep.ID] = true
			}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	all, err := t.readStandings(ctx)
	standings := map[string]store.Standing{}
	for id := range back {
		if st, there := all[id]; there {
			t.metrics.stands(&st)
			standings[id] = st
		}
	}
	return back, standings, err
}

// readStandings reads the recorded standings of all endpoints.
func (t *tenancy) readStandings(ctx context.Context) (map[string]store.Standing, error) {
	all, err := store.Within(ctx, func() ([]store.Standing, error) { return t.store.Standings(ctx) })
	standings := make(map[string]store.Standing, len(all))
	for i := range all {
		standings[all[i].Endpoint] = all[i]
	}
	return standings, err
}

// noteSeal remembers that the store has refused a write of an endpoint because its tenant is
// sealed. This node may not know of the seal yet: the next round of ownership reads it.
func (t *tenancy) noteSeal(endpoint string, sealed bool) {
	if sealed && t.shards != nil {
		t.sealed.Store(endpoint, true)
	}
}

// left reports that the core has left an endpoint. If that was because its tenant was closed, the
// shard stays this node's; and if the tenant was opened again meanwhile, reopen gets the endpoint.
func (t *tenancy) left(endpoint string) {
	conf := t.book.Snapshot()
	ep := conf.At(endpoint)
	open := ep == nil || conf.Open(ep.Tenant)
	_, sealed := t.sealed.LoadAndDelete(endpoint)
	_, away := t.away.Load(endpoint)
	t.shards.Left(endpoint, !sealed && !away && open)
	if away && open {
		t.returned.add(endpoint)
	}
}

// returned are endpoints that the core has left since their tenants opened again.
type returned struct {
	mu   sync.Mutex
	ids  []string
	wake chan struct{} // has room for one
}

func (r *returned) add(ids ...string) {
	r.mu.Lock()
	r.ids = append(r.ids, ids...)
	r.mu.Unlock()
	token(r.wake)
}

func (r *returned) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := r.ids
	r.ids = nil
	return ids
}

// reopenAgain is the pause before reopening is tried again.
const reopenAgain = time.Second

// reopenAll reopens returned endpoints until the engine is over.
func (t *tenancy) reopenAll() {
	for {
		select {
		case <-t.returned.wake:
		case <-t.inputs.over:
			return
		}
		ids := t.returned.take()
		if err := t.reopen(t.sending, ids); err != nil && t.sending.Err() == nil {
			t.log.Warn("reading endpoints of a tenant that stays failed; retrying", "endpoints", len(ids), "err", err)
			if !backoff.Wait(t.inputs.over, reopenAgain) {
				return
			}
			t.returned.add(ids...)
		}
	}
}

// reopen configures in the core endpoints that it has left, with their recorded standings of now.
// It holds the configuration's lock, so the core gets the newest configuration, once.
func (t *tenancy) reopen(ctx context.Context, ids []string) error {
	if err := t.book.Lock(ctx); err != nil {
		return err
	}
	defer t.book.Unlock()
	ctx, cancel := t.shards.Reading(ctx)
	defer cancel()
	_, newest, err := t.book.StoreVersion(ctx)
	if err != nil {
		return err
	}
	standings, err := t.readStandings(ctx)
	if err != nil {
		return err
	}
	conf := t.book.Snapshot()
	return t.inputs.ask(ctx, func(c *core.Core, _ time.Time) {
		for _, id := range ids {
			ep := conf.At(id)
			if ep != nil && !conf.Open(ep.Tenant) {
				continue // closed again: settle has it back when the tenant opens
			}
			t.away.Delete(id)
			if ep == nil || c.Has(id) || !t.decides(ep) {
				continue
			}
			st := standings[id]
			t.metrics.stands(&st)
			t.step(core.Configured{Endpoint: ep, Newest: newest, Standing: st})
		}
	})
}

// Quiet says whether, on all nodes, no delivery of a closed tenant is in progress any more.
func (t *tenancy) Quiet(ctx context.Context, tenant string) (bool, error) {
	quiet, err := t.OwnQuiet(ctx, tenant)
	if err != nil || !quiet {
		return quiet, err
	}
	return t.shards.Quiet(ctx, tenant)
}

// OwnQuiet is Quiet for this node. It reads the newest configuration first, because a node that
// does not know of the closing could still attempt.
func (t *tenancy) OwnQuiet(ctx context.Context, tenant string) (bool, error) {
	if err := t.book.CatchUp(ctx); err != nil {
		return false, err
	}
	conf := t.book.Snapshot()
	if conf.Open(tenant) {
		return false, nil
	}
	quiet := true
	err := t.inputs.ask(ctx, func(c *core.Core, _ time.Time) {
		for _, ep := range conf.Endpoints() {
			if ep.Tenant == tenant && c.Has(ep.ID) {
				quiet = false
			}
		}
	})
	return quiet, err
}
