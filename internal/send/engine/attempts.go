package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// attempts makes the requests that the core asks for, each in a goroutine of its own.
type attempts struct {
	store   Store
	sender  Sender
	book    *configuration.Book
	shards  *ownership.Shards
	ids     *grapnel.IDs
	events  *cache
	metrics *Metrics
	log     *slog.Logger
	inputs  *inputs
	traces  *trace.Tracer
	sending context.Context                                           // of requests; cancelled when draining takes too long
	link    func(to *grapnel.Endpoint, message *grapnel.Event) string // Options.ContactLink

	idle     chan core.Attempt // received by goroutines that wait for an attempt
	running  sync.WaitGroup    // those goroutines
	wentBack sync.Once         // the log mentions it once
	unread   atomic.Int64      // reads of events in a row that failed
}

// begin gives an attempt to an idle goroutine, or starts another one. There are about as many as
// slots. They are reused because a request needs a deep stack, and growing a new one for each costs
// more than the core's whole decision.
func (t *attempts) begin(a core.Attempt) {
	select {
	case t.idle <- a:
	default:
		t.running.Go(func() {
			for {
				t.attempt(a)
				select {
				case a = <-t.idle:
				case <-t.inputs.over:
					return
				}
			}
		})
	}
}

// attempt sends one request and reports the result to the core.
func (t *attempts) attempt(a core.Attempt) {
	result := &core.Finished{Endpoint: a.Config.ID, Delivery: a.Head.Delivery}
	sending, epoch := t.shards.Sending(t.sending, a.Config.ID)
	event, err := t.event(&a)
	switch ep := t.book.Snapshot().At(a.Config.ID); {
	case ep == nil || ep.Status != grapnel.EndpointEnabled || !ep.DeletedAt.IsZero():
		// It was disabled or deleted after the core's decision, and the caller may have been
		// answered already.
		result.Outcome.Class = policy.ClassInternal
	case sending == nil: // another node owns it, or will soon
		result.Outcome.Class = policy.ClassInternal
	case errors.Is(err, errForeign):
		result.Foreign = true
		t.foreign(t.id(a.Head), a.Config.ID)
	case err != nil:
		if t.sending.Err() == nil { // else the drain timeout ended the read, which the loop logs
			if n := t.unread.Add(1); backoff.Tells(int(n)) {
				t.log.Error("reading an event failed; the attempt is repeated", "delivery", t.id(a.Head), "failures", n, "err", err)
			}
		}
		result.Outcome.Class = policy.ClassInternal
	case event == nil:
		t.log.Error("event missing or damaged; delivery failed", "delivery", t.id(a.Head), "event_seq", a.Head.Event)
		result.Unsendable = core.ReasonDamaged
	case !event.ErasedAt.IsZero():
		result.Unsendable = core.ReasonErased
	default:
		result.News, result.Event = grapnel.Operational(event.Type), core.Named{ID: event.ID, Type: event.Type, Key: event.Key}
		span, id := attempt(t.traces, &a, event), t.id(a.Head)
		mailer, link := t.contact(a.Config, event)
		r := t.sender.Send(sending, egress.Delivery{
			Endpoint: a.Config, Event: event, ID: id, Position: a.Head.Position, Number: a.Number, Trigger: a.Trigger,
			CreatedAt: a.Head.CreatedAt,
			Epoch:     epoch, Still: t.shards.Still(a.Config.ID, epoch), Trace: span.send,
			Proxy: t.book.Terms(a.Config.Tenant).Proxy.Text, Mailer: mailer, Link: link,
		})
		if result.Unsendable = r.Unsendable; r.Unsendable != "" {
			break
		}
		result.Outcome = r.Outcome
		result.Attempt = grapnel.Attempt{
			StartedAt: r.StartedAt, Duration: r.Duration, Phases: r.Phases, Peer: r.Peer,
			StatusCode: r.Outcome.Status, Class: r.Outcome.Class, Error: r.Error,
			RequestHeaders: r.Sent, ResponseHeaders: r.Headers, ResponseBody: r.Body,
		}
		t.metrics.attempted(a, r, id)
		if result.News && grapnel.IsAlert(event.Type) {
			t.metrics.alerted(a.Config, &r)
		}
		span.end(t.traces, t.log, &a, event, &r, id)
		if r.Outcome.Class == policy.ClassInternal && sending.Err() == nil && !r.Deferred {
			t.log.Error("attempt could not be sent; it is repeated", "delivery", id, "endpoint", a.Config.ID, "err", r.Error)
		}
	}
	t.inputs.send(result)
}

// contact returns what a message to a customer's contact needs besides its event: the URL of the
// mail server, and the message's link. Each attempt has a link of its own, and no store has any.
func (t *attempts) contact(to *grapnel.Endpoint, event *grapnel.Event) (mailer, link string) {
	if to.Channel == nil || to.Channel.Contact == nil {
		return "", ""
	}
	if t.link != nil {
		link = t.link(to, event)
	}
	return t.book.Sender().URL.Text, link
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
func (t *attempts) event(a *core.Attempt) (_ *grapnel.Event, err error) {
	h, tenant := &a.Head, a.Config.Tenant
	if ev := t.events.get(h.Event); ev != nil && ev.Tenant == tenant && h.Carries(ev) {
		return ev, nil
	}
	defer func() {
		if err == nil {
			t.unread.Store(0)
		}
	}()
	ctx, cancel := t.shards.Reading(t.sending)
	defer cancel()
	evs, err := t.store.Events(ctx, []int64{h.Event})
	if err != nil || len(evs) == 0 || evs[0] == nil {
		return nil, err
	}
	switch ev := evs[0]; {
	case ev.Tenant != tenant:
		return nil, errForeign
	case h.Carries(ev):
		return ev, nil
	default:
		is, _, err := t.store.Head(ctx, h.Delivery)
		if err == nil && (is == nil || !h.Same(is)) {
			err = errForeign
		}
		return ev, err
	}
}

// foreign counts a row id that belongs to another delivery now, and logs the first one only. A
// store that was set back gives many row ids again, and one line for each would bury all others.
func (t *attempts) foreign(delivery, endpoint string) {
	t.metrics.foreign.Inc()
	t.wentBack.Do(func() {
		t.log.Error("row id belongs to another delivery now, so the store lost transactions or was restored; nothing sent or recorded, "+
			"heads read again; further ones are counted in grapnel_foreign_rows_total", "delivery", delivery, "endpoint", endpoint)
	})
}

func (t *attempts) id(h store.Head) string { return t.ids.Delivery(h.CreatedAt, h.Delivery) }
