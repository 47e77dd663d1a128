package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

func batchOf(n int) (events []store.Incoming) {
	data := []byte(`{"l":[` + strings.Repeat("0,", 99) + `0]}`)
	for i := range n {
		events = append(events, store.Incoming{Event: &grapnel.Event{ID: fmt.Sprintf("evt_%d", i), Tenant: "default", Type: "a", Data: data,
			ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}})
	}
	return events
}

// TestFiltersShareABudget: a publish whose filters do too much work together is refused, and
// nothing of it is stored; neither is one whose caller is gone. Less at once is taken.
func TestFiltersShareABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(o *Options) { o.Bounds.Filters = 20_000 })
		defer b.close()
		for i := range 20 {
			b.endpoint(fmt.Sprint("ep", i), &receiver{}, func(ep *grapnel.Endpoint) { ep.Filter = fmt.Sprintf("event.data.l.all(x, x != %d)", i+1) })
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		for ctx, want := range map[context.Context]error{
			t.Context(): &grapnel.Error{Code: grapnel.CodeTooCostly}, gone: context.Canceled,
		} {
			_, err := b.engine.Publish(ctx, batchOf(10), nil)
			if grapnel.CodeOf(err) != grapnel.CodeOf(want) || grapnel.CodeOf(want) == "" && !errors.Is(err, want) {
				t.Errorf("ten events at twenty filters: %v, want %v", err, want)
			}
		}
		if events, err := b.store.EventList(t.Context(), store.Everyone(), store.EventQuery{Limit: 10}); err != nil || len(events) != 0 {
			t.Errorf("%d events are stored, %v", len(events), err)
		}
		if done, err := b.engine.Publish(t.Context(), batchOf(1), nil); err != nil || done.Events[0].Deliveries != 20 {
			t.Errorf("one event: %+v, %v", done.Events, err)
		}
	})
}

// TestATenantMayUseSoManyTypes and no more, however its events come. Types that it has published,
// and other tenants, are unaffected, also after a restart.
func TestATenantMayUseSoManyTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		for begin := range 2 {
			b := newTunedBench(t, db, func(o *Options) { o.MaxTypes, o.Bounds.Types = 3, 2 })
			event := func(i int, tenant, name string) store.Incoming {
				return store.Incoming{Event: &grapnel.Event{ID: fmt.Sprintf("evt_%d_%d_%s", begin, i, name), Tenant: tenant, Type: name, Data: []byte(`{}`),
					ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}}
			}
			for i, name := range []string{"a", "b", "b", "c", "a", "d", "e", "c", "d"} {
				in := event(i, "default", name)
				_, err := b.engine.Publish(t.Context(), []store.Incoming{in}, nil)
				if refused := name > "c"; refused != (grapnel.CodeOf(err) == grapnel.CodeTooManyTypes) || !refused && err != nil {
					t.Errorf("begin %d: event %d of type %s: %v", begin, i, name, err)
				}
				if _, _, err := b.store.Event(t.Context(), store.Everyone(), "default", in.Event.ID); (err == nil) != (name <= "c") {
					t.Errorf("begin %d: reading event %d of type %s: %v", begin, i, name, err)
				}
			}
			mixed := []store.Incoming{event(20, "default", "a"), event(21, "default", "d"), event(22, "other", "d"), event(23, "default", "b")}
			faults, err := b.engine.Check(t.Context(), mixed)
			if err != nil || len(faults) != 1 || len(faults[1]) != 1 || faults[1][0].Pointer != "/type" || !strings.Contains(faults[1][0].Detail, "--max-types") {
				t.Errorf("begin %d: faults are %v, %v", begin, faults, err)
			}
			b.close()
		}
	})
}

// TestTypesOfRefusedEventsAreNotCounted: events of three new types are refused by their schemas,
// and three because the tenant has too many pending deliveries. Once it may publish again, it may
// use two other types.
func TestTypesOfRefusedEventsAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(o *Options) { o.MaxTypes, o.MaxPending = 3, 1 })
		defer b.close()
		b.endpoint("ep", &receiver{}, func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
		publish := func(name string) error {
			events := []store.Incoming{{Event: &grapnel.Event{ID: "evt_" + name, Tenant: "default", Type: name, Data: []byte(`{}`),
				ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}}}
			if faults, err := b.engine.Check(t.Context(), events); err != nil || len(faults) > 0 {
				t.Errorf("type %s: faults are %v, %v", name, faults, err)
			}
			_, err := b.engine.Publish(t.Context(), events, nil)
			return err
		}
		for _, name := range []string{"x", "y", "z"} {
			b.register("default", name, `{"required":["id"]}`)
			if faults, err := b.engine.Check(t.Context(), []store.Incoming{eventOf("default", name, `{}`)}); err != nil || len(faults) != 1 {
				t.Errorf("type %s: faults are %v, %v", name, faults, err)
			}
		}
		if err := publish("a"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b", "c", "d"} {
			if err := publish(name); grapnel.CodeOf(err) != grapnel.CodeQuota {
				t.Errorf("an event of type %s beyond the quota: %v", name, err)
			}
		}
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
		time.Sleep(time.Second) // the pending delivery finishes
		for _, name := range []string{"e", "f"} {
			if err := publish(name); err != nil {
				t.Errorf("an event of type %s: %v", name, err)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestTypesOfEventsThatAreNotStoredAreNotCounted: an id that is published again with other types is
// refused each time, and a webhook that was received before is not stored again, whatever its type.
// Two other types may be used afterwards.
func TestTypesOfEventsThatAreNotStoredAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(o *Options) { o.MaxTypes = 3 })
		defer b.close()
		publish := func(id, name string, known *store.Known) store.Placed {
			t.Helper()
			done, err := b.engine.Publish(t.Context(), []store.Incoming{{Known: known, Event: &grapnel.Event{ID: id, Tenant: "default", Type: name,
				Data: []byte(`{}`), ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}}}, nil)
			if err != nil {
				t.Fatalf("%s of type %s: %v", id, name, err)
			}
			return done.Events[0]
		}
		known := &store.Known{Source: "src", By: []byte("key"), Until: time.Now().Add(time.Hour)}
		publish("evt_1", "a", known)
		for _, name := range []string{"b", "c", "d"} {
			if !publish("evt_1", name, nil).Conflict || !publish("evt_"+name, name, known).Duplicate {
				t.Errorf("an event of type %s is stored", name)
			}
		}
		publish("evt_2", "e", nil)
		publish("evt_3", "f", nil)
	})
}

// TestATenantMayHaveSoManyEndpoints and no more. Changing one needs no room; deleting one makes
// some.
func TestATenantMayHaveSoManyEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(o *Options) { o.MaxEndpoints = 2 })
		defer b.close()
		b.endpoint("one", &receiver{}, nil)
		b.endpoint("two", &receiver{}, nil)
		b.endpoint("other", &receiver{}, func(ep *grapnel.Endpoint) { ep.Tenant = "another" })
		three := grapnel.Endpoint{
			ID:         "three",
			Tenant:     "default",
			URL:        "http://three.test/",
			PolicyName: "standard",
			Status:     grapnel.EndpointEnabled,
		}
		put := func() error {
			_, err := b.engine.PutEndpoint(t.Context(), store.Everyone(), three, store.With{})
			return err
		}
		if err := put(); grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(), "--max-endpoints") {
			t.Errorf("a third of two endpoints: %v", err)
		}
		b.update("two", func(ep *grapnel.Endpoint) { ep.Description = "changed" })
		if err := b.engine.DeleteEndpoint(t.Context(), store.Everyone(), "two", grapnel.By{}); err != nil {
			t.Fatal(err)
		}
		if err := put(); err != nil {
			t.Error(err)
		}
	})
}
