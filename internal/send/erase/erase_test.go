package erase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// engine ends deliveries in the store, as the engine's cores do, and has a book of the
// configuration.
type engine struct {
	*configuration.Book
	s    store.Store
	fail func() error
}

// newBook reads the configuration, as a process does when it starts.
func newBook(t *testing.T, s store.Configuration) *configuration.Book {
	o := configuration.Options{Store: s, Log: slog.New(slog.DiscardHandler)}
	o.Settle = func(context.Context, *configuration.Snapshot, *configuration.Snapshot) ([]string, error) {
		return nil, nil
	}
	o.WakeQueues = func([]string) {}
	o.Confirm = func(context.Context) error { return nil }
	o.Reading, o.Current = context.WithCancel, func() error { return nil }
	b := configuration.NewBook(o)
	for b.Load(t.Context()) != nil { // the store fails sometimes
	}
	return b
}

// ClearTenant deletes endpoints without waiting for their deliveries.
func (e *engine) ClearTenant(ctx context.Context, tenant string, page int) (deleted int, left bool, err error) {
	if err := errors.Join(e.fail(), e.CatchUp(ctx)); err != nil {
		return 0, false, err
	}
	for _, ep := range e.Snapshot().Endpoints() {
		if ep.Tenant != tenant {
			continue
		}
		_, err := e.s.End(ctx, ep.ID, store.Ending{Status: grapnel.Dropped, At: start}, 1000)
		if err == nil {
			is := ep.Endpoint
			is.DeletedAt = start
			_, err = e.s.PutEndpoint(ctx, store.Everyone(), is, store.With{})
		}
		if err == nil {
			err = e.s.RemoveEndpoint(ctx, ep.ID)
		}
		return 1, true, err
	}
	deleted, err = e.DeleteAllOf(ctx, tenant, page)
	return deleted, deleted > 0, err
}

func (e *engine) Leads() bool { return true }

func (e *engine) EndErased(ctx context.Context, tenant, event string) (ended int, err error) {
	if err := e.fail(); err != nil {
		return 0, err
	}
	_, all, err := e.s.Event(ctx, store.Of(tenant), tenant, event)
	for i := range all {
		if !all[i].Status.Final() {
			_, err = e.s.Record(ctx, []store.Change{{Delivery: all[i].Seq, Expect: store.AnyAttempts, Status: grapnel.Discarded,
				ReasonCode: grapnel.ReasonErased, At: start}})
			ended++
		}
	}
	return ended, err
}

// world is a store with events of two tenants, and a runner that may be replaced, as by a crash.
type world struct {
	*testing.T
	store  *memory.Store
	faulty *memory.Faulty
	engine *engine
	runner *Runner
	later  time.Duration // since the start; each look of finish is a second later
}

func newWorld(t *testing.T, events int) *world {
	w := &world{T: t, store: memory.New()}
	w.faulty, w.engine = &memory.Faulty{Store: w.store}, &engine{s: w.store, fail: func() error { return nil }}
	for _, tenant := range []string{"acme", "bolt"} {
		ep := grapnel.Endpoint{ID: "ep_" + tenant, Tenant: tenant, Ordering: grapnel.OrderByKey, Status: grapnel.EndpointEnabled}
		put, err := w.store.PutEndpoint(t.Context(), store.Everyone(), ep, store.With{})
		w.must(err)
		for i := range events {
			e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: tenant, Type: "user.changed", Key: fmt.Sprint("user-", i%2),
				Data: fmt.Appendf(nil, `{"n":%d}`, i%2), Metadata: map[string]string{"n": fmt.Sprint(i % 2), "m": "x"}, AcceptedAt: start}
			_, err = w.store.Append(t.Context(), store.Batch{Config: put.Version,
				Events: []store.Incoming{{Event: e, Targets: []store.Target{{Endpoint: ep.ID, Ordered: true}}}}})
			w.must(err)
		}
	}
	w.restart()
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) restart() {
	tiny := bounds.Fill(Bounds{Page: 2, Rows: 3})
	w.engine.Book = newBook(w.T, w.faulty)
	w.runner = New(Options{Bounds: tiny, Engine: w.engine, Store: w.faulty, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return start.Add(w.later) }})
}

// erased are the ids of the tenant's erased events.
func (w *world) erased(tenant string) (ids []string) {
	list, err := w.store.EventList(w.Context(), store.Everyone(), store.EventQuery{Tenant: tenant, Limit: 1000})
	w.must(err)
	for _, e := range slices.Backward(list) {
		if !e.ErasedAt.IsZero() {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// finish runs the job until it is done.
func (w *world) finish(id string) *Job {
	w.Helper()
	for range 1000 {
		_, _ = w.runner.turn(w.Context())
		j, err := w.runner.Get(w.Context(), id)
		w.must(err)
		if j.State == Done {
			return j
		}
		w.later += time.Second
	}
	w.Fatal("the erasure does not end")
	return nil
}

// TestSelections: each kind of selection erases the events it names, of the tenant alone, with
// their pending deliveries, and is forgotten at the end.
func TestSelections(t *testing.T) {
	for by, s := range map[string]Selection{ByKey: {Key: "user-1"}, ByMetadata: {Metadata: map[string]string{"n": "1", "m": "x"}},
		ByFilter: {Filter: "event.data.n == 1"}} {
		w := newWorld(t, 6)
		j, _, err := w.runner.Events(t.Context(), "acme", s, grapnel.By{Actor: "key_1", Reason: "a ticket"}, nil)
		w.must(err)
		done := w.finish(j.ID)
		if got := w.erased("acme"); !slices.Equal(got, []string{"evt_1", "evt_3", "evt_5"}) || w.erased("bolt") != nil {
			t.Errorf("%s: erased %v and %v", by, got, w.erased("bolt"))
		}
		if done.Selection != nil || done.By != by || done.Counts["events"] != 3 || done.Counts["deliveries_ended"] != 3 || done.FinishedAt.IsZero() {
			t.Errorf("%s: %+v", by, done)
		}
		audit, err := w.store.AuditList(t.Context(), store.Everyone(), store.AuditQuery{Endpoint: j.ID, Limit: 10})
		w.must(err)
		if len(audit) != 2 || audit[1].Actor != "key_1" || audit[1].Reason != "a ticket" || audit[0].Actor != grapnel.ActorItself ||
			strings.Contains(audit[0].Reason, "user-1") {
			t.Errorf("%s: audit %+v", by, audit)
		}
		all, err := w.runner.List(t.Context(), "", 10)
		if err != nil || len(all) != 1 || all[0].ID != j.ID {
			t.Errorf("%s: list %+v, %v", by, all, err)
		}
		d, err := w.store.Delivery(t.Context(), store.Everyone(), 2)
		if err != nil || d.Status != grapnel.Discarded || d.ReasonCode != grapnel.ReasonErased {
			t.Errorf("%s: %+v, %v", by, d, err)
		}
	}
}

// TestMetadataHasAllMembers: an event that lacks a member, or has it with another value, stays.
func TestMetadataHasAllMembers(t *testing.T) {
	w := newWorld(t, 4)
	for _, other := range []map[string]string{{"n": "1", "m": "y"}, {"n": "1", "absent": ""}} {
		j, _, err := w.runner.Events(t.Context(), "acme", Selection{Metadata: other}, grapnel.By{}, nil)
		w.must(err)
		if w.finish(j.ID); w.erased("acme") != nil {
			t.Errorf("%v erased %v", other, w.erased("acme"))
		}
	}
	if _, _, err := w.runner.Events(t.Context(), "acme", Selection{Filter: "event.("}, grapnel.By{}, nil); grapnel.CodeOf(err) != grapnel.CodeInvalid {
		t.Errorf("a filter that does not compile: %v", err)
	}
}

// TestLaterEventsStay: events that were accepted after the order are not erased.
func TestLaterEventsStay(t *testing.T) {
	w := newWorld(t, 4)
	j, _, err := w.runner.Events(t.Context(), "acme", Selection{Key: "user-1"}, grapnel.By{}, nil)
	w.must(err)
	conf, err := w.store.Config(t.Context())
	w.must(err)
	e := &grapnel.Event{ID: "later", Tenant: "acme", Type: "a", Key: "user-1", Data: []byte(`1`), AcceptedAt: start}
	_, err = w.store.Append(t.Context(), store.Batch{Config: conf.Version, Events: []store.Incoming{{Event: e}}})
	w.must(err)
	if w.finish(j.ID); len(w.erased("acme")) != 2 {
		t.Errorf("erased %v", w.erased("acme"))
	}
}

// TestErasureThroughFaults: calls fail, with or without their effect, and the process is replaced
// at random moments. At the end everything is erased, once.
func TestErasureThroughFaults(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, 9)
		random := rand.New(rand.NewPCG(7, seed))
		lost := errors.New("lost")
		w.engine.fail = func() error {
			if random.IntN(4) == 0 {
				return lost
			}
			return nil
		}
		j, _, err := w.runner.Events(t.Context(), "acme", Selection{Filter: "true"}, grapnel.By{}, nil)
		w.must(err)
		faults := 0
		w.faulty.Injure = func(string) memory.Fault {
			if faults < 60 && random.IntN(3) == 0 {
				faults++
				return memory.Fault{Err: lost, Applied: random.IntN(2) == 0}
			}
			return memory.Fault{}
		}
		for range 40 {
			if random.IntN(3) == 0 {
				w.restart()
			}
			_, _ = w.runner.turn(t.Context())
		}
		w.faulty.Injure, w.engine.fail = nil, func() error { return nil }
		w.finish(j.ID)
		if got := w.erased("acme"); len(got) != 9 || faults == 0 {
			t.Errorf("seed %d: erased %v after %d faults", seed, got, faults)
		}
		if off, err := w.store.Imbalance(t.Context()); off != 0 || err != nil {
			t.Errorf("seed %d: imbalance %d, %v", seed, off, err)
		}
	}
}
