package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// start starts the node with the stored state.
func (w *world) start() {
	limits := w.limits(2, 1)
	n := &node{w: w, core: core.New(limits), perHost: limits.PerHost, born: w.agenda.now, hosts: map[string]int{},
		againOf: map[string]int{}, missed: map[int64]bool{},
		events: map[int64]*grapnel.Event{}}
	n.step = n.take
	w.node = n
	w.restarted()
	standings, conf := w.standings(), w.configuration()
	w.trace("start")
	for i := range conf.Endpoints {
		ep := &conf.Endpoints[i]
		n.step(core.Configured{Endpoint: ep, Newest: conf.Newest, Standing: standings[ep.ID]})
	}
}

// take passes an input to the core and carries the effects out, as package engine does.
func (n *node) take(in core.Input) {
	w := n.w
	w.steps++
	for _, effect := range n.core.Step(w.now(), in) {
		switch effect := effect.(type) {
		case core.Attempt:
			n.occupy(effect)
			late := w.now().Sub(effect.ScheduledFor)
			if w.healing && w.plan.clockJump == 0 && effect.Config.RateLimit == nil && effect.Config.Policy.BreakerRules().Off &&
				effect.ScheduledFor.After(w.wellAt) && late > 2*time.Second {
				w.excess("an attempt is %v late", late)
			}
			n.attempt(effect)
		case core.Record:
			n.queue = append(n.queue, *effect.Change)
			n.record()
		case core.Load:
			n.load(effect)
		case core.End:
			n.later(w.between(time.Millisecond, 20*time.Millisecond), func() {
				count, err := w.store.End(context.Background(), effect.Endpoint, effect.Ending, effect.Limit)
				n.step(core.Ended{Endpoint: effect.Endpoint, Count: count, Err: err})
			})
		case core.MakeDue:
			n.later(w.between(time.Millisecond, 20*time.Millisecond), func() {
				count, err := w.store.MakeDue(context.Background(), effect.Endpoint, effect.MakingDue, 1+w.rand.IntN(3))
				if count > 0 {
					count = max(count, effect.Limit) // pages here are small, so there may be more
				}
				n.later(w.between(0, 5*time.Millisecond), func() {
					n.step(core.MadeDue{Endpoint: effect.Endpoint, Count: count, Err: err})
				})
			})
		case core.Reply:
			if done := w.orders[effect.Token]; done != nil {
				delete(w.orders, effect.Token)
				done(effect.Err)
			}
		case core.Disable:
			n.disable(effect)
		case core.Forget:
		}
	}
	n.sleep()
	if running, recording := n.core.Busy(); n.leaving && running == 0 && recording == 0 {
		w.left(n)
	}
}

// occupy counts an attempt against the slots.
func (n *node) occupy(a core.Attempt) {
	w, host := n.w, destination(a)
	if n.flying++; n.flying > n.core.Slots() || n.leaving {
		w.excess("attempt %d of %d slots, draining: %v", n.flying, n.core.Slots(), n.leaving)
	}
	if n.hosts[host]++; n.hosts[host] > n.perHost {
		w.excess("%d attempts at %s", n.hosts[host], host)
	}
	asked := a.Head.Trigger == grapnel.TriggerManual || a.Head.Trigger == grapnel.TriggerProbe
	if a.Number > 1 {
		if n.again++; n.again > max(1, n.core.Slots()/2) && !asked {
			w.excess("%d of %d slots are taken by retries", n.again, n.core.Slots())
		}
		tenant := a.Config.Tenant
		beside := slices.ContainsFunc(w.endpoints, func(r *receiver) bool { return r.config.Tenant != tenant && r.config.DeletedAt.IsZero() })
		if n.againOf[tenant]++; n.againOf[tenant] > n.mostAgain() && beside && !asked {
			w.excess("%d of %d slots are taken by retries of one tenant", n.againOf[tenant], n.core.Slots())
		}
	}
}

// sleep plans the next tick.
func (n *node) sleep() {
	at := n.core.Wake()
	if at.IsZero() || !n.wakes.IsZero() && !at.Before(n.wakes) && n.wakes.After(n.w.now()) {
		return
	}
	n.wakes = at
	n.later(min(at.Sub(n.w.now()), 10*time.Second), func() {
		n.wakes = time.Time{}
		n.step(core.Tick{})
	})
}

// record commits the queued changes, one page at a time, as package engine's recorder does.
func (n *node) record() {
	if n.busy || len(n.queue) == 0 {
		return
	}
	w := n.w
	n.busy = true
	if !n.waits {
		n.waits, n.since = true, w.agenda.now
	}
	took := w.between(200*time.Microsecond, 5*time.Millisecond)
	if w.chance(w.plan.stall) {
		took = w.between(time.Second, 15*time.Second)
		w.trace("the store stalls for %v", took)
		// Behind several stalls in a row an outcome waits for all of them.
		w.history.Limits.Commit = max(w.history.Limits.Commit, w.agenda.now+took-n.since+time.Second)
	}
	n.later(took, func() {
		page := n.queue[:min(len(n.queue), 1+w.rand.IntN(8))]
		n.queue = n.queue[len(page):]
		n.waits = len(n.queue) > 0
		changes := make([]store.Change, len(page))
		for i := range page {
			changes[i] = page[i].Change
		}
		results, err := w.store.Record(context.Background(), changes)
		answer, wait := core.Recorded{Changes: page, Results: results, Err: err}, w.between(0, time.Millisecond)
		if err != nil {
			wait = 100 * time.Millisecond
		}
		w.trace("record %d changes: %v", len(page), err)
		n.later(wait, func() {
			n.busy = false
			n.step(answer)
			n.record()
		})
	})
}

// load reads a page now and delivers it later: by then it may be outdated.
func (n *node) load(l core.Load) {
	w := n.w
	n.later(w.between(0, 2*time.Millisecond), func() {
		heads, err := w.store.Heads(context.Background(), l.Endpoint, l.Limit)
		late := w.between(0, 2*time.Millisecond)
		if w.chance(w.plan.loadLate) {
			late = w.between(0, 5*time.Second)
		}
		n.later(late, func() {
			n.step(core.Loaded{Endpoint: l.Endpoint, Heads: heads, Limit: l.Limit, Err: err})
		})
	})
}

// hint reports new heads to the core, or loses the hint.
func (n *node) hint(heads []store.Head) {
	w := n.w
	if len(heads) == 0 {
		return
	}
	if w.chance(w.plan.hintLost) {
		for i := range heads {
			n.missed[heads[i].Delivery] = true
		}
		return
	}
	times := 1
	if w.chance(w.plan.hintDouble) {
		times = 2
	}
	for range times {
		late := w.between(0, time.Millisecond)
		if w.chance(w.plan.hintLate) {
			late = w.between(0, 20*time.Second)
		}
		n.later(late, func() { n.step(core.Arrived{Heads: heads}) })
	}
}

// disable stores the core's own decision.
func (n *node) disable(d core.Disable) {
	w := n.w
	r := w.receiver(d.Endpoint)
	r.sentenced(d.Reason)
	if w.chance(w.plan.crash / 2) {
		w.agenda.in(w.between(0, 8*time.Millisecond), w.crash) // whether or not the decision was stored, this life does not carry it out
	}
	n.later(w.between(time.Millisecond, 10*time.Millisecond), func() {
		var err error
		switch {
		case r.config.Status == grapnel.EndpointDisabled:
		case w.chance(w.plan.storeError):
			err = errCommit
		default:
			r.act(history.Disable, func(ep *grapnel.Endpoint) {
				ep.Status, ep.DisabledReason, ep.DisabledByAnswer = grapnel.EndpointDisabled, d.Reason, d.ByAnswer
			})
		}
		n.step(core.Disabled{Endpoint: d.Endpoint, Err: err})
	})
}

// crash kills the node. Later it restarts.
func (w *world) crash() {
	if w.node == nil {
		return
	}
	w.trace("crash")
	down := w.between(10*time.Millisecond, 10*time.Second)
	w.history.Faults = append(w.history.Faults, history.Fault{Kind: history.Crash, Start: w.agenda.now, End: w.agenda.now + down})
	w.gone()
	w.agenda.in(down, w.start)
}

// leave stops the node as an operator would: it finishes requests in flight first.
func (w *world) leave() {
	if w.node == nil || w.node.leaving {
		return
	}
	w.trace("clean stop")
	w.node.leaving = true
	w.history.Faults = append(w.history.Faults, history.Fault{Kind: history.CleanStop, Start: w.agenda.now, End: w.agenda.now})
	w.node.step(core.Drain{})
}

func (w *world) left(n *node) {
	if w.node != n {
		return
	}
	w.trace("stopped")
	w.remembered()
	w.gone()
	w.agenda.in(w.between(time.Millisecond, time.Second), w.start)
}

// gone ends the node's life and its calls in progress.
func (w *world) gone() {
	w.node = nil
	for _, r := range w.endpoints {
		r.hangUp()
	}
	clear(w.orders) // their callers never learn the result
}

// errCommit is the error of a store call that failed, or whose answer was lost.
var errCommit = errors.New("sim: the connection to the store broke")
