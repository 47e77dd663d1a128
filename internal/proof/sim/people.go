package sim

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// try makes one call and repeats it, with the same id, until it gets a success.
func (w *world) try(p *published, done func()) {
	call := history.Publish{ID: p.id, Key: p.key, Hash: "data of " + p.id, Invoke: w.agenda.now, Return: w.agenda.now, NotBefore: p.notBefore,
		Endpoints: ids(w.subscribers(p.tenant))} // as matched now; replaced by the endpoints at the commit, if there is one
	again := func(result history.Result) {
		call.Result, call.Return = result, w.agenda.now
		w.history.Publishes = append(w.history.Publishes, call)
		if result == history.OK {
			done()
			return
		}
		w.agenda.in(w.between(50*time.Millisecond, 3*time.Second), func() { w.try(p, done) })
	}
	n := w.node
	if n == nil {
		again(history.Failed)
		return
	}
	answered, back := false, w.back
	answer := func(d time.Duration, result history.Result) {
		w.agenda.in(d, func() {
			if answered {
				return
			}
			answered = true
			if (w.node != n || w.back != back) && result == history.OK {
				result = history.Unknown // the answer was lost with the node, or with the store
			}
			again(result)
		})
	}
	if w.options.Mutant == AcknowledgesEarly {
		answer(0, history.OK)
	}
	w.agenda.in(w.between(0, 5*time.Millisecond), func() {
		if w.node != n {
			answer(0, history.Unknown)
			return
		}
		back = w.back
		heads, err := w.append(p)
		if err != nil {
			answer(w.between(0, time.Second), history.Unknown)
			return
		}
		n.hint(heads)
		answer(w.between(0, 3*time.Millisecond), history.OK)
	})
}

// subscribers are the endpoints that currently get a tenant's events.
func (w *world) subscribers(tenant string) (rs []*receiver) {
	for _, r := range w.endpoints {
		if r.config.DeletedAt.IsZero() && r.config.Tenant == tenant {
			rs = append(rs, r)
		}
	}
	return rs
}

func ids(rs []*receiver) []string {
	var list []string
	for _, r := range rs {
		list = append(list, r.config.ID)
	}
	return list
}

// append commits an event for the endpoints that exist now.
func (w *world) append(p *published) ([]store.Head, error) {
	ctx := context.Background()
	var targets []store.Target
	for _, r := range w.subscribers(p.tenant) {
		targets = append(targets, target(&r.config))
	}
	ev := p.event(w.now())
	in := store.Incoming{Event: ev, Targets: targets}
	if p.notBefore > 0 {
		in.NotBefore = w.base.Add(p.notBefore)
	}
	accepted, err := w.store.Append(ctx, store.Batch{Config: w.version(), Events: []store.Incoming{in}})
	w.trace("publish %s: %v", p.id, err)
	if _, known := w.committed[p.id]; !known {
		if _, _, lookErr := w.model.Event(ctx, store.Everyone(), p.tenant, p.id); lookErr == nil {
			w.committed[p.id] = ids(w.subscribers(p.tenant))
		}
	}
	if err == nil && w.node != nil && !accepted.Events[0].Duplicate {
		w.node.remember(accepted.Events[0].Seq, ev)
	}
	return accepted.Heads, err
}

// misfortunes plans faults and operators' actions.
func (w *world) misfortunes() {
	w.every(20*time.Second, w.plan.crash, w.crash)
	w.every(40*time.Second, w.plan.cleanStop, w.leave)
	w.every(60*time.Second, w.plan.clockJump, w.jump)
	w.every(5*time.Second, w.plan.receiverDown, func() { r := w.anyone(); r.down = !r.down })
	w.every(5*time.Second, w.plan.receiverSlow, func() { r := w.anyone(); r.slow = !r.slow })
	w.every(5*time.Second, w.plan.operator, w.operate)
	w.every(15*time.Second, w.plan.operator, w.sample)
	if w.options.Tidy {
		w.tidying()
	}
	if w.options.Back {
		w.every(20*time.Second, w.plan.back, w.goBack)
	}
}

// jump moves the node's clock, at most an hour from the true time.
func (w *world) jump() {
	to := w.between(-time.Hour, time.Hour)
	if w.rand.IntN(2) == 0 {
		to = w.between(-10*time.Second, 10*time.Second)
	}
	w.trace("the clock jumps by %v", to-w.skew)
	w.skew = to
	w.history.Faults = append(w.history.Faults, history.Fault{Kind: history.ClockJump, Start: w.agenda.now, End: w.agenda.now})
}

// injure decides the fault of a call of the store, if any.
func (w *world) injure(method string) (f memory.Fault) {
	switch {
	case method == "Config":
	case w.chance(w.plan.storeError):
		f.Err = errCommit
	case w.chance(w.plan.storeUnknown):
		f.Err, f.Applied = errCommit, method == "Record" || method == "Append" || method == "End" || method == "Again" || method == "MakeDue" ||
			method == "Advance" || method == "PutReplay"
	}
	return f
}

// operate carries out a random operator's action.
func (w *world) operate() {
	r := w.anyone()
	switch w.rand.IntN(8) {
	case 0, 1:
		switch {
		case r.config.Status != grapnel.EndpointEnabled:
			r.act(history.Enable, func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
		case w.rand.IntN(2) == 0:
			r.act(history.Pause, pause)
		default:
			r.act(history.Disable, disable)
			if w.rand.IntN(2) == 0 {
				w.agenda.in(w.between(0, 3*time.Second), func() {
					r.act(history.Enable, func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
				})
			}
		}
	case 2:
		if w.rand.IntN(4) == 0 {
			r.act(history.Delete, func(ep *grapnel.Endpoint) { ep.DeletedAt = w.now() })
		}
	case 3, 4:
		w.order(store.RetryNow, history.Retry)
	case 5:
		w.probe(r)
	default:
		w.order(store.Skip, history.Skip)
	}
}

// order gives a random delivery an order.
func (w *world) order(verb store.Verb, kind history.Kind) {
	all, err := w.model.DeliveryList(context.Background(), store.Everyone(), store.DeliveryQuery{Limit: 30})
	if err != nil || len(all) == 0 || w.node == nil {
		return
	}
	w.orderOf(&all[w.rand.IntN(len(all))], verb, kind)
}

// probe tests whether an endpoint has recovered, as package engine does: with the head that is due
// first.
func (w *world) probe(r *receiver) {
	heads, err := w.model.Heads(context.Background(), r.config.ID, 1)
	if err != nil {
		panic(err)
	}
	if len(heads) == 0 || w.node == nil {
		return
	}
	d, err := w.model.Delivery(context.Background(), store.Everyone(), heads[0].Delivery)
	if err != nil {
		panic(err)
	}
	w.orderOf(d, store.Probe, history.Retry)
}

func (w *world) orderOf(d *grapnel.Delivery, verb store.Verb, kind history.Kind) {
	n := w.node
	action := history.Action{Kind: kind, Endpoint: d.EndpointID, Delivery: d.PlainID(), Invoke: w.agenda.now, Result: history.Unknown}
	w.history.Actions = append(w.history.Actions, action)
	mine := &w.history.Actions[len(w.history.Actions)-1]
	at := len(w.history.Actions) - 1
	if d.Status.Final() {
		if kind != history.Retry || n.leaving {
			mine.Result, mine.Return = history.Failed, w.agenda.now
			return
		}
		w.again(n, d, at)
		return
	}
	w.token++
	w.orders[w.token] = func(err error) {
		w.trace("%s %s: %v", verb, d.PlainID(), err)
		done := &w.history.Actions[at]
		done.Return, done.Result = w.agenda.now, history.OK
		if err != nil {
			done.Result = history.Failed
		}
	}
	n.step(core.Operated{Order: store.Order{Token: w.token, Verb: verb, Endpoint: d.EndpointID, Delivery: d.Seq, Event: d.EventSeq, Created: d.CreatedAt,
		Reason: "skipped by the simulation"}})
}

// again creates a new delivery of a finished one.
func (w *world) again(n *node, d *grapnel.Delivery, at int) {
	r := w.receiver(d.EndpointID)
	if !r.config.DeletedAt.IsZero() {
		w.history.Actions[at].Result = history.Failed
		return
	}
	made, err := w.model.Again(context.Background(), store.Everyone(), store.Redelivery{Of: d.Seq, Trigger: grapnel.TriggerManual,
		Ordered: r.config.Ordered(), At: w.now()})
	if err != nil {
		panic(err)
	}
	done := &w.history.Actions[at]
	done.Made, done.Result, done.Return = grapnel.PlainDeliveryID(made.CreatedAt, made.Delivery), history.OK, w.agenda.now
	if made.Head != nil {
		n.hint([]store.Head{*made.Head})
	}
}

// setUp creates the endpoints and plans publishes, faults and operators' actions.
func (w *world) setUp() {
	all := kinds()
	if w.options.Back {
		all = all[:5] // without those that have a circuit: a learned standing does not go back
	}
	for _, ep := range w.createEndpoints(all, func(ep *grapnel.Endpoint) {
		if w.rand.IntN(3) == 0 {
			ep.RateLimit = &grapnel.RateLimit{PerSecond: 0.5 + 10*w.rand.Float64(), Burst: 1 + w.rand.IntN(4)}
		}
	}) {
		w.endpoints = append(w.endpoints, &receiver{w: w, config: ep, watch: watch{rules: ep.Policy.BreakerRules(), began: map[int64]int{}}})
	}
	w.publishers(func(p *published, done func()) {
		p.poison = w.chance(w.plan.poison)
		w.try(p, done)
	})
	w.misfortunes()
	w.aged()
}
