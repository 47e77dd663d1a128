package engine

import (
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// step gives the core one input and carries out what it wants.
func (e *Engine) step(in core.Input) {
	for _, effect := range e.core.Step(e.now(), in) {
		switch effect := effect.(type) {
		case core.Attempt:
			e.begin(effect)
		case core.Record:
			e.recorder.add(effect.Change)
		case core.Reply:
			e.answer(effect.Token, effect.Err)
		case core.Left:
			e.left(effect.Endpoint)
		default:
			e.chores.add(effect)
		}
	}
}

// begin hands an attempt to a goroutine that has nothing to do, or starts one more. There are about as many as slots. They are
// kept because a request needs a deep stack, and to grow it anew for each costs more than the core's whole decision.
func (e *Engine) begin(a core.Attempt) {
	select {
	case e.idle <- a:
	default:
		e.attempts.Go(func() {
			for {
				e.attempt(a)
				select {
				case a = <-e.idle:
				case <-e.over:
					return
				}
			}
		})
	}
}

// attempt sends one request and tells the core how it went.
func (e *Engine) attempt(a core.Attempt) {
	result := core.Finished{Endpoint: a.Config.ID, Delivery: a.Head.Delivery}
	sending, epoch := e.sendingTo(a.Config.ID)
	event, err := e.event(&a)
	switch ep := e.config.Load().at(a.Config.ID); {
	case ep == nil || ep.Status != grapnel.EndpointEnabled || !ep.DeletedAt.IsZero():
		// It was stopped between the core's decision and this moment, and whoever stopped it may have been told so already.
		result.Outcome.Class = policy.ClassInternal
	case sending == nil: // it is not this node's any more, or about to be another's
		result.Outcome.Class = policy.ClassInternal
	case errors.Is(err, errForeign):
		result.Foreign = true
		e.foreign(deliveryID(a.Head), a.Config.ID)
	case err != nil:
		e.log.Error("an event could not be read", "delivery", deliveryID(a.Head), "error", err)
		result.Outcome.Class = policy.ClassInternal
	case event == nil:
		e.log.Error("an event is missing or damaged", "delivery", deliveryID(a.Head), "event_seq", a.Head.Event)
		result.Damaged = true
	default:
		result.News, result.Event = grapnel.Operational(event.Type), core.Named{ID: event.ID, Type: event.Type, Key: event.Key}
		r := e.sender.Send(sending, egress.Delivery{
			Endpoint: a.Config, Event: event, ID: deliveryID(a.Head), Position: a.Head.Position, Number: a.Number, Trigger: a.Trigger,
			Epoch: epoch, Still: e.still(a.Config.ID, epoch),
		})
		result.Outcome = r.Outcome
		result.Attempt = grapnel.Attempt{
			StartedAt: r.StartedAt, Duration: r.Duration, Phases: r.Phases,
			StatusCode: r.Outcome.Status, Class: r.Outcome.Class, Error: r.Error,
			RequestHeaders: r.Sent, ResponseHeaders: r.Headers, ResponseBody: r.Body,
		}
		e.metrics.attempted(a, r)
		if r.Outcome.Class == policy.ClassInternal && sending.Err() == nil {
			e.log.Error("an attempt could not be made and will be repeated", "delivery", deliveryID(a.Head), "endpoint", a.Config.ID, "error", r.Error)
		}
	}
	e.send(result)
}

// sendingTo is the context of an attempt at an endpoint, and the epoch in which it is made; nil: it must not be made.
func (e *Engine) sendingTo(endpoint string) (context.Context, int64) {
	if e.shards == nil {
		return e.sending, 0
	}
	return e.shards.sending(endpoint)
}

// still is asked at the last moment, after what may have taken long: a name that was resolved, a handshake, a processor that was elsewhere.
func (e *Engine) still(endpoint string, epoch int64) func() bool {
	if e.shards == nil {
		return nil
	}
	return func() bool {
		sending, is := e.shards.sending(endpoint)
		return sending != nil && is == epoch
	}
}

// errForeign says that a row id in memory is another delivery's, or another event's, in the store.
var errForeign = errors.New("engine: the row id is another delivery's now")

// event returns the event to send from the cache or the store; nil: it is missing or damaged.
//
// A number alone does not say which event it is: a store that went back to an earlier state gives it a
// second time (store.Identity). So the event must be of the endpoint's tenant and as old as the delivery.
// A redelivery is younger than its event: then its row is read after the event, and if that is still the
// delivery meant, the store has not gone back behind it and the event that it names is the right one.
func (e *Engine) event(a *core.Attempt) (*grapnel.Event, error) {
	h, tenant := &a.Head, a.Config.Tenant
	if ev := e.events.get(h.Event); ev != nil && ev.Tenant == tenant && h.Carries(ev) {
		return ev, nil
	}
	ctx, cancel := e.reading(e.sending)
	defer cancel()
	evs, err := e.store.Events(ctx, []int64{h.Event})
	if err != nil || len(evs) == 0 || evs[0] == nil {
		return nil, err
	}
	switch ev := evs[0]; {
	case ev.Tenant != tenant:
		return nil, errForeign
	case h.Carries(ev):
		return ev, nil
	default:
		is, _, err := e.store.Head(ctx, h.Delivery)
		if err == nil && (is == nil || !h.Same(is)) {
			err = errForeign
		}
		return ev, err
	}
}

// foreign counts a row id that is another delivery's now, and logs the first one. A store that went back
// gives many row ids again, so one entry for each would bury the others.
func (e *Engine) foreign(delivery, endpoint string) {
	e.metrics.foreign.Inc()
	e.wentBack.Do(func() {
		e.log.Error("row id belongs to another delivery now, so the store lost transactions or was restored; nothing sent or recorded, "+
			"heads read again; further ones are counted in grapnel_foreign_rows_total", "delivery", delivery, "endpoint", endpoint)
	})
}

func deliveryID(h store.Head) string { return grapnel.DeliveryID(h.CreatedAt, h.Delivery) }

// pause is how long the n-th failure in a row of talking to the store is waited out.
func pause(n int) time.Duration { return min(50*time.Millisecond<<min(n, 7), 5*time.Second) }
