package erase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// retaining is a store with events of three types, of which user.changed retains none.
type retaining struct {
	*world
	now  time.Time
	ends []int64 // deliveries that ended since the last look
}

func newRetaining(t *testing.T) *retaining {
	w := &retaining{world: newWorld(t, 0), now: start.Add(time.Hour)}
	for i, name := range []string{"user.changed", "user.gone"} {
		is := grapnel.EventType{ID: fmt.Sprint("typ_", i), Tenant: "acme", Name: name,
			Retain: []grapnel.TypeRetain{grapnel.RetainNone, grapnel.RetainAll}[i]}
		_, err := w.engine.PutEventType(t.Context(), store.Everyone(), is, store.With{})
		w.must(err)
	}
	w.again()
	return w
}

// again replaces the process.
func (w *retaining) again() {
	w.restart()
	w.runner.o.Now = func() time.Time { return w.now }
	b := &w.runner.bounds
	b.Page, b.Pause, b.Retain.Late, b.Retain.Left = 7, 0, time.Minute, 3
}

// publish accepts an event for some of the two endpoints, and returns its deliveries.
func (w *retaining) publish(tenant, eventType string, n, endpoints int) []grapnel.Delivery {
	w.Helper()
	targets := []string{"ep_" + tenant, "ep_other_" + tenant}[:endpoints]
	for _, id := range targets {
		if _, there := w.engine.Endpoint(store.Everyone(), id); !there {
			_, err := w.store.PutEndpoint(w.Context(), store.Everyone(), grapnel.Endpoint{ID: id, Tenant: tenant,
				Ordering: grapnel.OrderByKey, Status: grapnel.EndpointEnabled}, store.With{})
			w.must(err)
			w.must(w.engine.CatchUp(w.Context()))
		}
	}
	conf, err := w.store.Config(w.Context())
	w.must(err)
	e := &grapnel.Event{ID: fmt.Sprint("evt_", n), Tenant: tenant, Type: eventType, Key: fmt.Sprint("k", n%3),
		Data: []byte(`"content"`), AcceptedAt: w.now}
	in := store.Incoming{Event: e}
	for _, id := range targets {
		in.Targets = append(in.Targets, store.Target{Endpoint: id, Ordered: true})
	}
	_, err = w.store.Append(w.Context(), store.Batch{Config: conf.Version, Events: []store.Incoming{in}})
	w.must(err)
	_, all, err := w.store.Event(w.Context(), store.Of(tenant), tenant, e.ID)
	w.must(err)
	return all
}

// end ends a delivery, and names its event as the engine does, unless the name gets lost.
func (w *retaining) end(d grapnel.Delivery, status grapnel.Status, kind string, lost bool) {
	w.Helper()
	c := store.Change{Delivery: d.Seq, Expect: store.AnyAttempts, Status: status, At: w.now, Attempt: &grapnel.Attempt{Number: 1,
		StartedAt: w.now, ResponseBody: []byte("content")}}
	if status == grapnel.Failed {
		c.ReasonCode = grapnel.ReasonExhausted
	}
	done, err := w.store.Record(w.Context(), []store.Change{c})
	w.must(err)
	if done[0].Applied && status == grapnel.Delivered && !lost && w.engine.Snapshot().RetainsNone("acme", kind) {
		w.runner.Delivered("acme", kind, d.EventSeq)
	}
}

// content says which events have content.
func (w *retaining) content(tenant string) (ids []string) {
	w.Helper()
	list, err := w.store.EventList(w.Context(), store.Everyone(), store.EventQuery{Tenant: tenant, Limit: 1000})
	w.must(err)
	for _, e := range slices.Backward(list) {
		if (len(e.Data) > 0) != e.ErasedAt.IsZero() {
			w.Fatalf("event %s is erased at %v and has %q", e.ID, e.ErasedAt, e.Data)
		}
		if len(e.Data) > 0 {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// TestNothingIsRetained: an event of the type loses its content once no delivery needs it, and not
// before; others keep theirs. With the named ones, a sweep is enough.
func TestNothingIsRetained(t *testing.T) {
	w := newRetaining(t)
	sweep := func(want ...string) {
		t.Helper()
		w.must(w.runner.sweep(t.Context()))
		if got := w.content("acme"); !slices.Equal(got, want) {
			t.Fatalf("%v have content, want %v", got, want)
		}
	}
	one, other := w.publish("acme", "user.changed", 1, 2), w.publish("acme", "user.gone", 2, 1)
	w.end(one[0], grapnel.Delivered, "user.changed", false)
	w.end(other[0], grapnel.Delivered, "", false) // a queue's consumers do not say the type
	sweep("evt_1", "evt_2")
	w.end(one[1], grapnel.Delivered, "", false)
	sweep("evt_2")
	dead := w.publish("acme", "user.changed", 3, 2)
	w.end(dead[0], grapnel.Failed, "user.changed", false)
	w.end(dead[1], grapnel.Delivered, "user.changed", false)
	sweep("evt_2", "evt_3")
	again, err := w.store.Again(t.Context(), store.Everyone(), store.Redelivery{Of: dead[0].Seq, Trigger: grapnel.TriggerManual, At: w.now})
	w.must(err)
	d, err := w.store.Delivery(t.Context(), store.Everyone(), again.Delivery)
	w.must(err)
	w.end(*d, grapnel.Delivered, "user.changed", false)
	sweep("evt_2")
	// Its dead letter, that it is a duplicate, and its attempts stay.
	d, err = w.store.Delivery(t.Context(), store.Everyone(), dead[1].Seq)
	w.must(err)
	if len(d.Attempts) != 1 || d.Attempts[0].ResponseBody != nil || d.Key != "k0" {
		t.Fatalf("%+v", d)
	}
}

// late hides an event, as a transaction does that commits after later ones.
type late struct {
	Store
	hidden int64
}

func (l *late) EventList(ctx context.Context, scope store.Scope, q store.EventQuery) ([]grapnel.Event, error) {
	list, err := l.Store.EventList(ctx, scope, q)
	return slices.DeleteFunc(list, func(e grapnel.Event) bool { return e.Seq == l.hidden }), err
}

// TestSearchPassesNoLateEvent: a search finds an event that became visible after events with higher
// row ids, which an earlier search has looked at.
func TestSearchPassesNoLateEvent(t *testing.T) {
	w := newRetaining(t)
	for n := range 3 {
		w.publish("acme", "user.changed", n, 0)
		w.now = w.now.Add(25 * time.Second)
	}
	w.now = w.now.Add(5 * time.Second) // only the last two are younger than a commit takes
	hides := &late{w.faulty, 2}
	w.runner.o.Store = hides
	w.must(w.runner.search(t.Context()))
	if got := w.content("acme"); !slices.Equal(got, []string{"evt_1"}) {
		t.Fatalf("%v have content", got)
	}
	hides.hidden = 0
	w.must(w.runner.search(t.Context()))
	if got := w.content("acme"); got != nil {
		t.Fatalf("%v have content", got)
	}
}

// TestSearchFindsTheRest: a search erases events whose names are lost, that match nothing, and that
// were accepted before the type retained none. It leaves and remembers those that a delivery needs,
// and passes none that became visible late.
func TestSearchFindsTheRest(t *testing.T) {
	for seed := range uint64(40) {
		w := newRetaining(t)
		random := rand.New(rand.NewPCG(seed, 43))
		w.engine.fail = func() error { return nil }
		lost := errors.New("lost")
		var open []grapnel.Delivery
		var letters []int64
		for n := range 60 {
			kind := []string{"user.changed", "user.changed", "user.gone"}[random.IntN(3)]
			if n == 20 {
				w.again() // without the names
			}
			open = append(open, w.publish("acme", kind, n, random.IntN(3))...)
			w.publish("bolt", "user.changed", n, 0)
			for range random.IntN(3) {
				if len(open) == 0 {
					break
				}
				i := random.IntN(len(open))
				d := open[i]
				open = slices.Delete(open, i, i+1)
				if random.IntN(4) == 0 {
					w.end(d, grapnel.Failed, d.Type, false)
					letters = append(letters, d.Seq)
				} else {
					w.end(d, grapnel.Delivered, d.Type, random.IntN(2) == 0)
				}
			}
			w.now = w.now.Add(time.Duration(random.IntN(30)) * time.Second)
			w.faulty.Injure = func(string) memory.Fault {
				if random.IntN(4) == 0 {
					return memory.Fault{Err: lost, Applied: random.IntN(2) == 0}
				}
				return memory.Fault{}
			}
			if err := w.runner.sweep(t.Context()); err != nil && !errors.Is(err, lost) {
				t.Fatal(err)
			}
			if random.IntN(3) == 0 {
				if err := w.runner.search(t.Context()); err != nil && !errors.Is(err, lost) {
					t.Fatal(err)
				}
			}
			w.faulty.Injure = nil
			if d, err := w.store.Document(t.Context(), store.Everyone(), "acme", kindSearched, "typ_0"); err == nil {
				var place searched
				if err := json.Unmarshal(d.Body, &place); err != nil || len(place.Left) > 3 {
					t.Fatalf("seed %d: %+v, %v", seed, place, err)
				}
			}
			w.needed("acme")
		}
		for _, seq := range letters {
			w.must(w.store.Annotate(t.Context(), store.Everyone(), store.Annotation{Delivery: seq, Discard: "of no use", At: w.now}))
		}
		for _, d := range open {
			w.end(d, grapnel.Delivered, d.Type, true)
		}
		w.now = w.now.Add(time.Hour)
		w.must(w.runner.search(t.Context()))
		w.must(w.runner.search(t.Context()))
		w.needed("acme")
		if left := w.types(w.content("acme")); slices.Contains(left, "user.changed") {
			t.Fatalf("seed %d: events with content: %v", seed, left)
		}
		if got := len(w.content("bolt")); got != 60 {
			t.Fatalf("seed %d: %d of another tenant's events have content", seed, got)
		}
	}
}

// needed fails if an event that has a pending delivery, or a dead letter, or another type, has no
// content.
func (w *retaining) needed(tenant string) {
	w.Helper()
	list, err := w.store.EventList(w.Context(), store.Everyone(), store.EventQuery{Tenant: tenant, Limit: 1000})
	w.must(err)
	for _, e := range list {
		_, all, err := w.store.Event(w.Context(), store.Everyone(), tenant, e.ID)
		w.must(err)
		if len(e.Data) == 0 && (e.Type != "user.changed" || slices.ContainsFunc(all, func(d grapnel.Delivery) bool {
			return !d.Status.Final() || d.Status == grapnel.Failed && d.Mark.DiscardedAt.IsZero()
		})) {
			w.Fatalf("event %s has no content: %+v", e.ID, all)
		}
	}
}

// types are the types of some of acme's events.
func (w *retaining) types(ids []string) (types []string) {
	w.Helper()
	for _, id := range ids {
		e, _, err := w.store.Event(w.Context(), store.Everyone(), "acme", id)
		w.must(err)
		types = append(types, e.Type)
	}
	return types
}
