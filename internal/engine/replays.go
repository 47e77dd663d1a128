package engine

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Decides says whether this node decides about an endpoint, and not another one. Of one that is forgotten somebody has to say that it is.
func (e *Engine) Decides(endpoint string) bool {
	if ep := e.config.Load().at(endpoint); ep != nil {
		return e.decides(ep)
	}
	return e.shards.has(endpoint)
}

// PutReplay creates a replay or changes it. A new one is the first thing to be refused when there is more to do than the store can take.
func (e *Engine) PutReplay(ctx context.Context, scope store.Scope, r grapnel.Replay, along store.With) (store.Put, error) {
	if r.Revision == 0 {
		if err := e.admission.enter(replay); err != nil {
			return store.Put{}, err
		}
		defer e.admission.leave()
	}
	return e.store.PutReplay(ctx, scope, r, along)
}

// Advance makes a step of a replay and hints at the heads it has made. It is refused like any other new work.
func (e *Engine) Advance(ctx context.Context, tenant string, step store.ReplayStep) ([]store.Redelivered, error) {
	if err := e.admission.enter(replay); err != nil {
		return nil, err
	}
	defer e.admission.leave()
	expected := plus(nil, tenant, int64(len(step.Items)))
	if err := e.announce(replay, expected...); err != nil {
		return nil, err
	}
	began := e.admission.begin()
	again, err := e.store.Advance(ctx, step)
	e.admission.end(began, err)
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
	e.pending.end(expected, made, err)
	e.arrived(heads)
	return again, err
}

// ended says which endpoints have got to the end of a delivery that a replay has made, as far as its first attempt decided that.
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
