package engine

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Decides says whether this node owns an endpoint. The owner of the shard also answers true for an
// endpoint that was removed, so exactly one node reports on it.
func (e *Engine) Decides(endpoint string) bool {
	if ep := e.Snapshot().At(endpoint); ep != nil {
		return e.decides(ep)
	}
	return e.shards.Has(endpoint)
}

// ended reports the endpoints of deliveries that a replay created and whose first attempt finished
// them.
func (e *Engine) ended(page []core.Change, results []store.Changed) {
	if e.replayed == nil {
		return
	}
	for i := range results {
		if a := page[i].Attempt; results[i].Applied && page[i].Status.Final() && a != nil && a.Trigger == grapnel.TriggerReplay {
			e.replayed(page[i].Endpoint)
		}
	}
}

// PutReplay creates a replay or changes it. A new one is refused first when the store is
// overloaded.
func (o *orders) PutReplay(ctx context.Context, scope store.Scope, r grapnel.Replay, along store.With) (store.Put, error) {
	if r.Revision == 0 {
		if err := o.admission.enter(replay); err != nil {
			return store.Put{}, err
		}
		defer o.admission.leave()
	}
	return o.store.PutReplay(ctx, scope, r, along)
}

// Advance makes a step of a replay and hints at the heads that it created. It is refused like other
// new work.
func (o *orders) Advance(ctx context.Context, tenant string, step store.ReplayStep) ([]store.Redelivered, error) {
	if err := o.admission.enter(replay); err != nil {
		return nil, err
	}
	defer o.admission.leave()
	expected := plus(nil, tenant, int64(len(step.Items)))
	if err := o.admission.announce(o.pending, replay, expected...); err != nil {
		return nil, err
	}
	began := o.admission.begin()
	again, err := o.store.Advance(ctx, step)
	o.admission.end(began, err)
	var made []share
	var heads []store.Head
	for i := range again {
		if again[i].Delivery != 0 {
			made = plus(made, tenant, 1)
		}
		if again[i].Head != nil {
			heads = append(heads, *again[i].Head)
		}
	}
	o.pending.end(expected, made, err)
	o.arrived(heads)
	return again, err
}
