package engine

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// orders carries out people's requests: retry, skip, discard, probe, empty, replay. The node that
// owns the endpoint carries the order out, and its core answers.
type orders struct {
	store     Store
	book      *configuration.Book
	shards    *ownership.Shards
	now       func() time.Time
	bounds    RecorderBounds
	inputs    *inputs
	admission *admission
	pending   *pending

	arrived func([]store.Head)
	end     func(context.Context, core.End) (int, error)

	tokens  atomic.Int64
	waiting sync.Map // token → chan error, of orders that the core has not answered yet
}

// Retry tries a pending delivery now. A finished one is delivered again, as a new delivery at the
// end of its lane; that of a test is a test again.
func (o *orders) Retry(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By, once *store.Once) (store.Redelivered, error) {
	d, err := o.store.Delivery(ctx, scope, delivery)
	if err != nil {
		return store.Redelivered{}, err
	}
	if !d.Status.Final() {
		done := store.Redelivered{Delivery: delivery, CreatedAt: d.CreatedAt}
		answer := once.Known(done)
		err := o.order(ctx, store.Order{Verb: store.RetryNow, Endpoint: d.EndpointID, Delivery: delivery, Event: d.EventSeq,
			Created: d.CreatedAt, Audit: o.entry(grapnel.VerbRetry, d, by), Answer: answer})
		if err != nil || answer == nil {
			return done, err
		}
		// Nothing was changed if an attempt is in flight, or if another node has carried the order out.
		then, err := o.store.Remember(ctx, answer.Once())
		if then != nil && !bytes.Equal(then.Body, answer.Answer.Body) {
			done.Answer = then
		}
		return done, err
	}
	ep := o.book.Snapshot().Endpoint(scope, d.EndpointID)
	if ep == nil {
		return store.Redelivered{}, grapnel.Errorf(grapnel.CodeConflict, "the delivery's endpoint is deleted")
	}
	if ep.DropReason() != "" {
		return store.Redelivered{}, errDrops
	}
	trigger := grapnel.TriggerManual
	if d.Test() {
		trigger = grapnel.TriggerTest
	}
	return o.again(ctx, scope, ep.Tenant, store.Redelivery{
		Of: delivery, Trigger: trigger, Ordered: ep.Ordered(), At: o.now(), Once: once,
		Audit: o.entry(grapnel.VerbRetry, d, by),
	})
}

// again creates a redelivery. It is refused first when the store is overloaded, because the
// original delivery has been finished already.
func (o *orders) again(ctx context.Context, scope store.Scope, tenant string, r store.Redelivery) (store.Redelivered, error) {
	if err := o.admission.enter(replay); err != nil {
		return store.Redelivered{}, err
	}
	defer o.admission.leave()
	one := share{tenant, 1}
	if err := o.admission.announce(o.pending, replay, one); err != nil {
		return store.Redelivered{}, err
	}
	again, err := o.store.Again(ctx, scope, r)
	var made []share
	if err == nil && again.Answer == nil {
		made = append(made, one)
	}
	o.pending.end([]share{one}, made, err)
	if err == nil && again.Head != nil {
		o.arrived([]store.Head{*again.Head})
	}
	return again, err
}

// errDrops refuses a delivery for an endpoint that is disabled and whose policy drops deliveries
// meanwhile.
var errDrops = grapnel.Errorf(grapnel.CodeConflict, "the endpoint is disabled and its policy drops its deliveries: enable it first")

// Skip finishes a pending delivery on a person's request as skipped: the receiver has it already.
// The key's next delivery follows.
func (o *orders) Skip(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By) error {
	return o.giveUp(ctx, scope, delivery, by, store.Skip, grapnel.VerbSkip)
}

// Discard finishes a pending delivery on a person's request as discarded: it is not needed. The
// key's next delivery follows.
func (o *orders) Discard(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By) error {
	return o.giveUp(ctx, scope, delivery, by, store.Discard, grapnel.VerbDiscard)
}

// EndErased ends the pending deliveries of an event that is going to be erased, and returns how
// many there were. A delivery whose attempt is in flight ends with it.
func (o *orders) EndErased(ctx context.Context, tenant, event string) (ended int, err error) {
	_, all, err := o.store.Event(ctx, store.Of(tenant), tenant, event)
	if grapnel.CodeOf(err) == grapnel.CodeDamaged {
		return 0, nil // its deliveries end at their next attempts
	}
	for i := range all {
		d := &all[i]
		if err != nil || d.Status.Final() {
			continue
		}
		err = o.order(ctx, store.Order{Verb: store.Erase, Endpoint: d.EndpointID, Delivery: d.Seq, Event: d.EventSeq, Created: d.CreatedAt})
		if code := grapnel.CodeOf(err); code == grapnel.CodeConflict || code == grapnel.CodeNotFound {
			err = nil // it has ended meanwhile, or its endpoint was deleted, which ends it
		}
		ended++
	}
	return ended, err
}

func (o *orders) giveUp(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By, verb store.Verb, noted grapnel.Verb) error {
	d, err := o.store.Delivery(ctx, scope, delivery)
	if err != nil {
		return err
	}
	if d.Status.Final() {
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is already %s", d.Status)
	}
	return o.order(ctx, store.Order{Verb: verb, Endpoint: d.EndpointID, Delivery: delivery, Event: d.EventSeq,
		Created: d.CreatedAt, Reason: by.Reason, Audit: o.entry(noted, d, by)})
}

// Probe attempts the earliest due head of an endpoint whose circuit is open now, instead of at its
// next probe.
func (o *orders) Probe(ctx context.Context, scope store.Scope, endpoint string, by grapnel.By) error {
	ep := o.book.Snapshot().Endpoint(scope, endpoint)
	if ep == nil {
		return store.ErrNotFound("endpoint")
	}
	heads, err := o.store.Heads(ctx, endpoint, 1)
	if err != nil {
		return err
	}
	if len(heads) == 0 || core.ForLater(&ep.Policy, &heads[0], o.now()) {
		return grapnel.Errorf(grapnel.CodeConflict, "the endpoint has no pending delivery to probe it with: send it a test")
	}
	entry := grapnel.AuditEntry{At: o.now(), Tenant: ep.Tenant, Actor: by.Actor, Verb: grapnel.VerbProbe, Endpoint: endpoint,
		Delivery: grapnel.PlainDeliveryID(heads[0].CreatedAt, heads[0].Delivery), Reason: by.Reason}
	return o.order(ctx, store.Order{Verb: store.Probe, Endpoint: endpoint, Delivery: heads[0].Delivery, Event: heads[0].Event,
		Created: heads[0].CreatedAt, Audit: &entry})
}

// entry is the audit entry of an order about a delivery.
func (o *orders) entry(verb grapnel.Verb, d *grapnel.Delivery, by grapnel.By) *grapnel.AuditEntry {
	return &grapnel.AuditEntry{At: o.now(), Tenant: d.Tenant, Actor: by.Actor, Verb: verb, Endpoint: d.EndpointID, Delivery: d.PlainID(),
		Reason: by.Reason}
}

// order carries an order out here, or sends it to the node that owns its endpoint.
func (o *orders) order(ctx context.Context, order store.Order) error {
	if !o.shards.Has(order.Endpoint) {
		return o.shards.Order(ctx, order)
	}
	return o.operate(ctx, order)
}

// operate gives the core an order and waits for its answer.
func (o *orders) operate(ctx context.Context, order store.Order) error {
	order.Token = o.tokens.Add(1)
	reply := make(chan error, 1)
	o.waiting.Store(order.Token, reply)
	defer o.waiting.Delete(order.Token)
	if !o.inputs.send(core.Operated{Order: order}) {
		return errStopping
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-o.inputs.over:
		return errStopping
	}
}

// answer gives the core's answer to the caller of the order, if it still waits.
func (o *orders) answer(token int64, err error) {
	if reply, ok := o.waiting.LoadAndDelete(token); ok {
		reply.(chan error) <- err
	}
}

// Operate carries out an order from another node, if this node owns its endpoint.
func (o *orders) Operate(ctx context.Context, order store.Order) error {
	if !o.shards.Has(order.Endpoint) {
		return grapnel.Errorf(grapnel.CodeUnavailable, "endpoint %s is moving from one node to another: try again", order.Endpoint)
	}
	return o.operate(ctx, order)
}

// Empty discards all deliveries in a queue now, leased ones too, and returns their number.
func (o *orders) Empty(ctx context.Context, scope store.Scope, queue string, by grapnel.By) (int, error) {
	ep := o.book.Snapshot().Endpoint(scope, queue)
	if ep == nil || ep.Queue == nil {
		return 0, store.ErrNotFound("queue")
	}
	_, newest, err := o.store.Version(ctx)
	if err != nil {
		return 0, err
	}
	at := o.now()
	entry := grapnel.AuditEntry{At: at, Tenant: ep.Tenant, Actor: by.Actor, Verb: grapnel.VerbEmpty, Endpoint: ep.ID, Reason: by.Reason}
	if err := o.store.Note(ctx, entry); err != nil {
		return 0, err
	}
	ending := store.Ending{UpTo: newest, Status: grapnel.Discarded, Reason: "discarded: the queue was emptied", At: at}
	if by.Reason != "" {
		ending.Reason += ": " + by.Reason
	}
	for all := 0; ; {
		n, err := o.end(ctx, core.End{Endpoint: ep.ID, Ending: ending, Limit: o.bounds.Empty})
		if all += n; err != nil || n < o.bounds.Empty {
			return all, err
		}
	}
}

// close answers all callers that still wait.
func (o *orders) close() {
	o.waiting.Range(func(token, _ any) bool {
		o.answer(token.(int64), errStopping)
		return true
	})
}

// PutReplay creates a replay or changes it. A new one is refused first when the store is
// overloaded.
func (o *orders) PutReplay(ctx context.Context, scope store.Scope, r grapnel.Replay, along store.With) (store.Put, error) {
	if r.Revision == 0 {
		if err := o.book.Accepts(r.Tenant); err != nil {
			return store.Put{}, err
		}
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
