package engine

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Retry tries a waiting delivery now; one that is over is delivered again, as a new delivery at the end of its lane.
func (e *Engine) Retry(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By, once *store.Once) (store.Redelivered, error) {
	d, err := e.store.Delivery(ctx, scope, delivery)
	if err != nil {
		return store.Redelivered{}, err
	}
	if !d.Status.Final() {
		err := e.order(ctx, core.Operated{Verb: core.RetryNow, Endpoint: d.EndpointID, Delivery: delivery, Event: d.EventSeq, Created: d.CreatedAt,
			Audit: e.entry(grapnel.VerbRetry, d, by)})
		return store.Redelivered{Delivery: delivery, CreatedAt: d.CreatedAt}, err
	}
	ep := e.config.Load().endpoint(scope, d.EndpointID)
	if ep == nil {
		return store.Redelivered{}, grapnel.Errorf(grapnel.CodeConflict, "the delivery's endpoint is gone")
	}
	if ep.DropReason() != "" {
		return store.Redelivered{}, errDrops
	}
	return e.again(ctx, scope, ep.Tenant, store.Redelivery{
		Of: delivery, Trigger: grapnel.TriggerManual, Ordered: ep.Ordering == grapnel.OrderByKey, At: e.now(), Once: once,
		Audit: e.entry(grapnel.VerbRetry, d, by),
	})
}

// again makes a delivery once more. It is the first thing to be refused when there is more to do than the store can take: what is
// delivered again has waited before.
func (e *Engine) again(ctx context.Context, scope store.Scope, tenant string, r store.Redelivery) (store.Redelivered, error) {
	if err := e.admission.enter(replay); err != nil {
		return store.Redelivered{}, err
	}
	defer e.admission.leave()
	one := share{tenant, 1}
	if err := e.announce(replay, one); err != nil {
		return store.Redelivered{}, err
	}
	again, err := e.store.Again(ctx, scope, r)
	var made []share
	if err == nil && again.Answer == nil {
		made = append(made, one)
	}
	e.pending.end([]share{one}, made, err)
	if err == nil && again.Head != nil {
		e.arrived([]store.Head{*again.Head})
	}
	return again, err
}

// errDrops refuses a delivery that would have to wait where nothing waits.
var errDrops = grapnel.Errorf(grapnel.CodeConflict, "the endpoint is disabled and its policy drops what would wait: enable it first")

// Skip ends a waiting delivery because a person says so, as one that is taken for received; its key moves on.
func (e *Engine) Skip(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By) error {
	return e.giveUp(ctx, scope, delivery, by, core.Skip, grapnel.VerbSkip)
}

// Discard ends a waiting delivery because a person says so, as one that nobody needs; its key moves on.
func (e *Engine) Discard(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By) error {
	return e.giveUp(ctx, scope, delivery, by, core.Discard, grapnel.VerbDiscard)
}

func (e *Engine) giveUp(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By, verb core.Verb, noted grapnel.Verb) error {
	d, err := e.store.Delivery(ctx, scope, delivery)
	if err != nil {
		return err
	}
	if d.Status.Final() {
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is over: it is %s", d.Status)
	}
	return e.order(ctx, core.Operated{Verb: verb, Endpoint: d.EndpointID, Delivery: delivery, Event: d.EventSeq, Created: d.CreatedAt, Reason: by.Reason,
		Audit: e.entry(noted, d, by)})
}

// Probe tries an endpoint that is left alone without waiting for the time of the next probe, with the head that is due first.
func (e *Engine) Probe(ctx context.Context, scope store.Scope, endpoint string, by grapnel.By) error {
	ep := e.config.Load().endpoint(scope, endpoint)
	if ep == nil {
		return store.ErrNotFound("endpoint")
	}
	heads, err := e.store.Heads(ctx, endpoint, 1)
	if err != nil {
		return err
	}
	if len(heads) == 0 {
		return grapnel.Errorf(grapnel.CodeConflict, "nothing waits for the endpoint, so there is nothing to probe it with: send it a test")
	}
	entry := grapnel.AuditEntry{At: e.now(), Tenant: ep.Tenant, Actor: by.Actor, Verb: grapnel.VerbProbe, Endpoint: endpoint,
		Delivery: deliveryID(heads[0]), Reason: by.Reason}
	return e.order(ctx, core.Operated{Verb: core.Probe, Endpoint: endpoint, Delivery: heads[0].Delivery, Event: heads[0].Event, Created: heads[0].CreatedAt,
		Audit: &entry})
}

// entry is the audit entry of an order about a delivery.
func (e *Engine) entry(verb grapnel.Verb, d *grapnel.Delivery, by grapnel.By) *grapnel.AuditEntry {
	return &grapnel.AuditEntry{At: e.now(), Tenant: d.Tenant, Actor: by.Actor, Verb: verb, Endpoint: d.EndpointID, Delivery: d.ID(),
		Reason: by.Reason}
}

// order has an order carried out where its endpoint is decided about.
func (e *Engine) order(ctx context.Context, o core.Operated) error {
	if !e.shards.has(o.Endpoint) {
		return e.shards.order(ctx, o)
	}
	return e.operate(ctx, o)
}

// operate gives the core an order and waits for its answer.
func (e *Engine) operate(ctx context.Context, o core.Operated) error {
	conf := e.config.Load()
	if ep := conf.at(o.Endpoint); ep != nil {
		if err := conf.away(ep.Tenant); err != nil {
			return err
		}
	}
	o.Token = e.tokens.Add(1)
	reply := make(chan error, 1)
	e.waiting.Store(o.Token, reply)
	defer e.waiting.Delete(o.Token)
	if !e.send(o) {
		return errStopping
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.over:
		return errStopping
	}
}

// answer hands the core's answer to whoever gave the order, if they still wait.
func (e *Engine) answer(token int64, err error) {
	if reply, ok := e.waiting.LoadAndDelete(token); ok {
		reply.(chan error) <- err
	}
}
