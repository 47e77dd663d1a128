package engine

import (
	"context"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/configuration"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// A tenant can be moved from this store to another (package cells). While a tenant is not open
// here, its events are refused and the core leaves its endpoints, as it leaves those that another
// node owns. That avoids repeated requests, and lets a move begin once no attempt is in flight.
// Safety does not depend on it: the store refuses all writes of a sealed tenant.

// decides says whether this engine owns an endpoint now.
func (e *Engine) decides(ep *grapnel.Endpoint) bool {
	return e.shards.Has(ep.ID) && e.Snapshot().Open(ep.Tenant)
}

// settle configures in the core the endpoints that differ between two configurations, and returns
// the queues whose consumers have to claim again. It does not wait for attempts in flight, because
// nothing else of the configuration can change meanwhile: reopen configures what the core is still
// leaving.
func (e *Engine) settle(ctx context.Context, before, conf *configuration.Snapshot) ([]string, error) {
	opened, closed := conf.Turned(before)
	if err := e.close(ctx, conf, closed); err != nil {
		return nil, err
	}
	back, standings, err := e.standingsOf(ctx, conf, opened)
	if err != nil {
		return nil, err
	}
	changed, queues := conf.Differs(before, opened)
	if len(changed) == 0 {
		return queues, nil
	}
	return queues, e.await(ctx, input{ask: func(*core.Core, time.Time) {
		for id := range back {
			e.away.Delete(id)
		}
		for _, ep := range changed {
			// Another node owns the other endpoints, or their tenant is not open here. The node
			// that takes the shard, or opens the tenant, reads the newest configuration then.
			if _, away := e.away.Load(ep.ID); !away && e.decides(ep) {
				e.step(core.Configured{Endpoint: ep, Newest: conf.Newest, Standing: standings[ep.ID]})
			}
		}
	}})
}

// close makes the core leave the endpoints of tenants that are not open any more.
func (e *Engine) close(ctx context.Context, conf *configuration.Snapshot, closed map[string]bool) error {
	if len(closed) == 0 {
		return nil
	}
	return e.await(ctx, input{ask: func(*core.Core, time.Time) {
		for _, ep := range conf.Endpoints() {
			if closed[ep.Tenant] {
				e.away.Store(ep.ID, true)
				e.step(core.Leave{Endpoint: ep.ID})
			}
		}
	}})
}

// standingsOf returns the endpoints whose tenants were opened, without those that the core is still
// leaving, and their recorded standings. These are read after the core has left the endpoints,
// because until then outcomes may be added.
func (e *Engine) standingsOf(ctx context.Context, conf *configuration.Snapshot, opened map[string]bool) (
	map[string]bool, map[string]store.Standing, error) {
	if len(opened) == 0 {
		return nil, nil, nil
	}
	back := map[string]bool{}
	err := e.await(ctx, input{ask: func(c *core.Core, _ time.Time) {
		for _, ep := range conf.Endpoints() {
			if opened[ep.Tenant] && !c.Leaving(ep.ID) {
				back[ep.ID] = true
			}
		}
	}})
	if err != nil {
		return nil, nil, err
	}
	all, err := e.readStandings(ctx)
	standings := map[string]store.Standing{}
	for id := range back {
		if st, there := all[id]; there {
			e.metrics.stands(&st)
			standings[id] = st
		}
	}
	return back, standings, err
}

// readStandings reads the recorded standings of all endpoints.
func (e *Engine) readStandings(ctx context.Context) (map[string]store.Standing, error) {
	all, err := store.Within(ctx, func() ([]store.Standing, error) { return e.store.Standings(ctx) })
	standings := make(map[string]store.Standing, len(all))
	for i := range all {
		standings[all[i].Endpoint] = all[i]
	}
	return standings, err
}

// noteSeal remembers that the store has refused a write of an endpoint because its tenant is
// sealed. This node may not know of the seal yet: the next round of ownership reads it.
func (e *Engine) noteSeal(endpoint string, sealed bool) {
	if sealed && e.shards != nil {
		e.sealed.Store(endpoint, true)
	}
}

// left reports that the core has left an endpoint. If that was because its tenant was closed, the
// shard stays this node's; and if the tenant was opened again meanwhile, reopen gets the endpoint.
func (e *Engine) left(endpoint string) {
	conf := e.Snapshot()
	ep := conf.At(endpoint)
	open := ep == nil || conf.Open(ep.Tenant)
	_, sealed := e.sealed.LoadAndDelete(endpoint)
	_, away := e.away.Load(endpoint)
	e.shards.Left(endpoint, !sealed && !away && open)
	if away && open {
		e.returned.add(endpoint)
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
	select {
	case r.wake <- struct{}{}:
	default:
	}
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
func (e *Engine) reopenAll() {
	for {
		select {
		case <-e.returned.wake:
		case <-e.over:
			return
		}
		ids := e.returned.take()
		if err := e.reopen(e.sending, ids); err != nil && e.sending.Err() == nil {
			e.log.Warn("reading endpoints of a tenant that stays failed; retrying", "endpoints", len(ids), "err", err)
			select {
			case <-time.After(reopenAgain):
				e.returned.add(ids...)
			case <-e.over:
				return
			}
		}
	}
}

// reopen configures in the core endpoints that it has left, with their recorded standings of now.
// It holds the configuration's lock, so the core gets the newest configuration, once.
func (e *Engine) reopen(ctx context.Context, ids []string) error {
	if err := e.Lock(ctx); err != nil {
		return err
	}
	defer e.Unlock()
	ctx, cancel := e.shards.Reading(ctx)
	defer cancel()
	_, newest, err := e.StoreVersion(ctx)
	if err != nil {
		return err
	}
	standings, err := e.readStandings(ctx)
	if err != nil {
		return err
	}
	conf := e.Snapshot()
	return e.await(ctx, input{ask: func(c *core.Core, _ time.Time) {
		for _, id := range ids {
			ep := conf.At(id)
			if ep != nil && !conf.Open(ep.Tenant) {
				continue // closed again: settle has it back when the tenant opens
			}
			e.away.Delete(id)
			if ep == nil || c.Has(id) || !e.decides(ep) {
				continue
			}
			st := standings[id]
			e.metrics.stands(&st)
			e.step(core.Configured{Endpoint: ep, Newest: newest, Standing: st})
		}
	}})
}

// Leads says whether this node does the work that one node does for all that share the store.
func (e *Engine) Leads() bool { return e.shards.Leads() }

// Quiet says whether, on all nodes, no delivery of a closed tenant is in progress any more.
func (e *Engine) Quiet(ctx context.Context, tenant string) (bool, error) {
	quiet, err := e.OwnQuiet(ctx, tenant)
	if err != nil || !quiet {
		return quiet, err
	}
	return e.shards.Quiet(ctx, tenant)
}

// OwnQuiet is Quiet for this node. It reads the newest configuration first, because a node that
// does not know of the closing could still attempt.
func (e *Engine) OwnQuiet(ctx context.Context, tenant string) (bool, error) {
	if err := e.CatchUp(ctx); err != nil {
		return false, err
	}
	conf := e.Snapshot()
	if conf.Open(tenant) {
		return false, nil
	}
	quiet := true
	err := e.await(ctx, input{ask: func(c *core.Core, _ time.Time) {
		for _, ep := range conf.Endpoints() {
			if ep.Tenant == tenant && c.Has(ep.ID) {
				quiet = false
			}
		}
	}})
	return quiet, err
}

// IDs returns the codec for the ids of the store's deliveries.
func (e *Engine) IDs() *grapnel.IDs { return e.ids }

// Readings are the deliveries that an id may mean: one of this store, or one that a tenant had in
// another store before it was moved here.
func (e *Engine) Readings(id string) []grapnel.Reading { return e.ids.Readings(id, e.Tenancies()) }
