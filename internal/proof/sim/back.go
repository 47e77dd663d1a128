package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// A store that goes back to an earlier state under a running node, as a database does that fails
// over to a standby which was behind. It then gives row ids a second time.

// goBack takes a copy of the store, and later restores the store to it. Nothing happens if the
// configuration has changed meanwhile or an endpoint is deleted: configuration does not go back
// here. Nothing goes back in the last third, whose events have to keep every promise.
func (w *world) goBack() {
	if w.agenda.now > chaosTime*2/3 {
		return
	}
	version, then, over, since := w.version(), w.model.Snapshot(), maps.Clone(w.over), w.agenda.now
	w.agenda.in(w.between(100*time.Millisecond, 15*time.Second), func() {
		deleted := slices.ContainsFunc(w.endpoints, func(r *receiver) bool { return !r.config.DeletedAt.IsZero() })
		if w.healing || w.version() != version || deleted {
			return
		}
		w.model.Restore(then)
		w.back++
		w.trace("the store goes back by %v", w.agenda.now-since)
		w.history.Faults = append(w.history.Faults, history.Fault{Kind: history.Rewind, Start: since, End: w.agenda.now})
		maps.Copy(w.over, over) // some of it may have been lost with a past that comes back now
		for seq := range w.over {
			if d, err := w.model.Delivery(context.Background(), store.Everyone(), seq); err != nil || !d.Status.Final() {
				delete(w.over, seq)
			}
		}
		for id := range w.committed {
			if _, _, err := w.model.Event(context.Background(), store.Everyone(), "", id); err != nil {
				delete(w.committed, id)
			}
		}
	})
}

func (w *world) version() int64 {
	version, _, err := w.model.Version(context.Background())
	if err != nil {
		panic(err)
	}
	return version
}

// remember keeps an event for its attempts, as the engine's cache does.
func (n *node) remember(number int64, ev *grapnel.Event) {
	if n.events[number] == nil || n.w.options.Mutant != SendsByNumber {
		n.events[number] = ev
	}
}

// event returns the event to send, as package engine does: from memory or the store, if it
// certainly is the delivery's event. Without an event it returns the outcome for the core.
func (n *node) event(a core.Attempt) (*grapnel.Event, *core.Finished) {
	ctx, h, model := context.Background(), &a.Head, n.w.model
	result := &core.Finished{Endpoint: a.Config.ID, Delivery: h.Delivery}
	ev := n.events[h.Event]
	if ev != nil && (n.w.options.Mutant == SendsByNumber || ev.Tenant == a.Config.Tenant && h.Carries(ev)) {
		return ev, result
	}
	evs, err := model.Events(ctx, []int64{h.Event})
	if err != nil {
		panic(err)
	}
	if ev = evs[0]; ev == nil {
		result.Unsendable = core.ReasonDamaged
		return nil, result
	}
	if ev.Tenant == a.Config.Tenant && h.Carries(ev) {
		return ev, result
	}
	is, _, err := model.Head(ctx, h.Delivery)
	if err != nil {
		panic(err)
	}
	if ev.Tenant == a.Config.Tenant && is != nil && h.Same(is) {
		return ev, result
	}
	n.w.trace("%s is another one now", grapnel.PlainDeliveryID(h.CreatedAt, h.Delivery))
	result.Foreign = true
	return nil, result
}

// stands says whether the store's delivery is the one that its sender remembers.
func (w *world) stands(h *store.Head) bool {
	is, first, err := w.model.Head(context.Background(), h.Delivery)
	if err != nil {
		panic(err)
	}
	return is != nil && first && h.Same(is) && h.Attempts == is.Attempts
}
