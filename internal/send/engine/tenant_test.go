package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// meanwhile is a store that calls a function before it stores the next events.
type meanwhile struct {
	*memory.Store
	appending func()
}

func (s *meanwhile) Append(ctx context.Context, b store.Batch) (store.Accepted, error) {
	if do := s.appending; do != nil {
		s.appending = nil
		do()
	}
	return s.Store.Append(ctx, b)
}

// TestATenantThatIsDeletedGetsNothing: an event that was matched before the order and stored after
// it is refused, nothing of the tenant is attempted any more, and what parts of the engine still
// know of it is not stored. Then the endpoints go, with their deliveries.
func TestATenantThatIsDeletedGetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &meanwhile{Store: memory.New()}
		b := newTunedBench(t, s, nil)
		defer b.close()
		var r receiver
		r.answer(status(500))
		b.endpoint("ep", &r, nil)
		b.publish("", 3)
		time.Sleep(time.Second)
		event := func(id string) []store.Incoming {
			return []store.Incoming{{Event: &grapnel.Event{ID: id, Tenant: "default", Type: "test.event", Data: []byte(`{"a":1}`),
				ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}}}
		}
		again, err := b.engine.Publish(t.Context(), event("evt_1"), nil)
		if err != nil || !again.Events[0].Duplicate {
			t.Fatal(again, err)
		}
		s.appending = func() {
			order := grapnel.TenantEnd{Tenant: "default", Job: "ers_1"}
			if _, _, err := b.engine.EndTenant(t.Context(), order, store.With{}); err != nil {
				t.Error(err)
			}
		}
		_, late := b.engine.Publish(t.Context(), event("late"), nil)
		_, test := b.engine.Test(t.Context(), store.Everyone(), "ep", event("test")[0].Event, 0, nil)
		ep, _ := b.engine.Endpoint(store.Everyone(), "ep")
		ep.ID, ep.Revision = "another", 0
		_, endpoint := b.engine.PutEndpoint(t.Context(), store.Everyone(), ep, store.With{})
		_, replay := b.engine.PutReplay(t.Context(), store.Everyone(), grapnel.Replay{ID: "rpl_1", Tenant: "default", Endpoint: "ep"},
			store.With{})
		for what, err := range map[string]error{"an event": late, "a test": test, "an endpoint": endpoint, "a replay": replay} {
			if grapnel.CodeOf(err) != grapnel.CodeTenantEnds {
				t.Errorf("%s: %v", what, err)
			}
		}
		before := len(r.log())
		time.Sleep(24 * time.Hour)
		if after := len(r.log()); before == 0 || after != before {
			t.Errorf("%d attempts before, %d a day later", before, after)
		}
		for _, kind := range []string{store.DuplicatesKind, "issue", usageKind} {
			docs, err := s.DocumentList(t.Context(), store.Of("default"), store.DocumentQuery{Kind: kind, Limit: 9})
			for _, d := range docs {
				if time.Since(d.At) < 23*time.Hour || err != nil {
					t.Errorf("stored a %s of the tenant: %s, %v", kind, d.Body, err)
				}
			}
		}
		for left := true; left; {
			if _, left, err = b.engine.ClearTenant(t.Context(), "default", 1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		ds := b.deliveries("ep")
		for i := range ds {
			if ds[i].Status != grapnel.Dropped {
				t.Errorf("%+v", ds[i])
			}
		}
		if len(ds) != 3 || len(b.engine.Endpoints(store.Everyone())) > 0 {
			t.Errorf("%d deliveries", len(ds))
		}
	})
}
