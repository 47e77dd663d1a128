package engine

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// step gives the core one input and carries out the effects that it returns.
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

// begin gives an attempt to an idle goroutine, or starts another one. There are about as many as
// slots. They are reused because a request needs a deep stack, and growing a new one for each costs
// more than the core's whole decision.
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

// attempt sends one request and reports the result to the core.
func (e *Engine) attempt(a core.Attempt) {
	result := core.Finished{Endpoint: a.Config.ID, Delivery: a.Head.Delivery}
	sending, epoch := e.sendingTo(a.Config.ID)
	event, err := e.event(&a)
	switch ep := e.Snapshot().At(a.Config.ID); {
	case ep == nil || ep.Status != grapnel.EndpointEnabled || !ep.DeletedAt.IsZero():
		// It was disabled or deleted after the core's decision, and the caller may have been
		// answered already.
		result.Outcome.Class = policy.ClassInternal
	case sending == nil: // another node owns it, or will soon
		result.Outcome.Class = policy.ClassInternal
	case errors.Is(err, errForeign):
		result.Foreign = true
		e.foreign(e.deliveryID(a.Head), a.Config.ID)
	case err != nil:
		e.log.Error("reading an event failed; the attempt is repeated", "delivery", e.deliveryID(a.Head), "err", err)
		result.Outcome.Class = policy.ClassInternal
	case event == nil:
		e.log.Error("event missing or damaged; delivery failed", "delivery", e.deliveryID(a.Head), "event_seq", a.Head.Event)
		result.Unsendable = core.ReasonDamaged
	default:
		result.News, result.Event = grapnel.Operational(event.Type), core.Named{ID: event.ID, Type: event.Type, Key: event.Key}
		r := e.sender.Send(sending, egress.Delivery{
			Endpoint: a.Config, Event: event, ID: e.deliveryID(a.Head), Position: a.Head.Position, Number: a.Number, Trigger: a.Trigger,
			CreatedAt: a.Head.CreatedAt,
			Epoch:     epoch, Still: e.shards.Still(a.Config.ID, epoch),
		})
		if result.Unsendable = r.Unsendable; r.Unsendable != "" {
			break
		}
		result.Outcome = r.Outcome
		result.Attempt = grapnel.Attempt{
			StartedAt: r.StartedAt, Duration: r.Duration, Phases: r.Phases,
			StatusCode: r.Outcome.Status, Class: r.Outcome.Class, Error: r.Error,
			RequestHeaders: r.Sent, ResponseHeaders: r.Headers, ResponseBody: r.Body,
		}
		e.metrics.attempted(a, r)
		if r.Outcome.Class == policy.ClassInternal && sending.Err() == nil && !r.Deferred {
			e.log.Error("attempt could not be sent; it is repeated", "delivery", e.deliveryID(a.Head), "endpoint", a.Config.ID, "err", r.Error)
		}
	}
	e.send(result)
}

// sendingTo returns the context and the epoch of an attempt at an endpoint; nil: this node may not
// attempt it.
func (e *Engine) sendingTo(endpoint string) (context.Context, int64) {
	if e.shards == nil {
		return e.sending, 0
	}
	return e.shards.Sending(endpoint)
}

// errForeign means that a row id in memory belongs to another delivery or event in the store.
var errForeign = errors.New("engine: the row id belongs to another delivery now")

// event returns the event to send from the cache or the store; nil: it is missing or damaged.
//
// A row id alone does not identify an event: a store that was set back gives it a second time
// (store.Identity). So the event must belong to the endpoint's tenant and be as old as the
// delivery. A redelivery is younger than its event. Its row is therefore read after the event: if
// the row still is this delivery, the store was not set back behind it, so the event it names is
// the right one.
func (e *Engine) event(a *core.Attempt) (*grapnel.Event, error) {
	h, tenant := &a.Head, a.Config.Tenant
	if ev := e.events.get(h.Event); ev != nil && ev.Tenant == tenant && h.Carries(ev) {
		return ev, nil
	}
	ctx, cancel := e.shards.Reading(e.sending)
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

// foreign counts a row id that belongs to another delivery now, and logs the first one only. A
// store that was set back gives many row ids again, and one line for each would bury all others.
func (e *Engine) foreign(delivery, endpoint string) {
	e.metrics.foreign.Inc()
	e.wentBack.Do(func() {
		e.log.Error("row id belongs to another delivery now, so the store lost transactions or was restored; nothing sent or recorded, "+
			"heads read again; further ones are counted in grapnel_foreign_rows_total", "delivery", delivery, "endpoint", endpoint)
	})
}

func (e *Engine) deliveryID(h store.Head) string { return e.ids.Delivery(h.CreatedAt, h.Delivery) }
