package sqlite

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

// TestListsOfManyBlocks compares lists with those of the model on a history long enough to have
// several blocks, rare and frequent values, redeliveries, and more pending deliveries than
// Bounds.Gathered. The suite's histories are too short for that.
func TestListsOfManyBlocks(t *testing.T) {
	rounds, queries := 20, 400
	if slow() {
		rounds, queries = 5, 8
	}
	random := rand.New(rand.NewPCG(1, 2))
	ours, _ := openNew(t)
	model := memory.New()
	both := func(do func(s store.Store) (any, error)) any {
		t.Helper()
		a, err := do(ours)
		if err != nil {
			t.Fatal(err)
		}
		b, err := do(model)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, a, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-model +ours):\n%s", diff)
		}
		return a
	}

	p, _ := policy.Preset("standard")
	tenants := []string{"acme", "bolt", "rare"}
	for i := range 9 {
		both(func(s store.Store) (any, error) {
			return s.PutEndpoint(t.Context(), store.Everyone(), grapnel.Endpoint{ID: fmt.Sprint("ep_", i), Tenant: tenants[i%3], Policy: p},
				store.With{})
		})
	}
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	at := func(n int) time.Time { return start.Add(time.Duration(n) * 7 * time.Second) }
	published := 0
	for range rounds {
		b := store.Batch{Config: 10}
		for range 700 {
			n := published
			published++
			tenant := random.IntN(2)
			if n%997 == 0 {
				tenant = 2
			}
			e := &grapnel.Event{ID: fmt.Sprint("evt_", n), Tenant: tenants[tenant], Type: fmt.Sprintf("thing.%d", random.IntN(3)),
				Data: []byte("{}"), AcceptedAt: at(n + random.IntN(900))}
			if n%811 == 0 {
				e.Type = "rare.one"
			}
			if random.IntN(2) == 0 {
				e.Key = fmt.Sprint("k", random.IntN(50))
			}
			if n%1201 == 0 {
				e.Key = "rare"
			}
			if n%13 == 0 {
				e.Source = "src_1"
			}
			in := store.Incoming{Event: e}
			for i := range 3 {
				target := store.Target{Endpoint: fmt.Sprint("ep_", i*3+tenant), Ordered: i != 2, Trigger: grapnel.TriggerSchedule}
				if i == 1 && n%5 != 0 || i == 2 && n%29 != 0 {
					continue
				}
				if n%487 == 0 {
					target.Drop = "dropped"
				}
				in.Targets = append(in.Targets, target)
			}
			b.Events = append(b.Events, in)
		}
		done := both(func(s store.Store) (any, error) { return s.Append(t.Context(), b) }).(store.Accepted)
		var changes []store.Change
		for _, h := range done.Heads {
			c := store.Change{Delivery: h.Delivery, Expect: h.Attempts, At: at(published), Status: grapnel.Delivered}
			if random.IntN(4) > 0 {
				c.Attempt = &grapnel.Attempt{Number: 1, StatusCode: 200, Class: policy.ClassNone}
			}
			if published/700%4 == 1 && random.IntN(300) == 0 {
				c.Attempt = &grapnel.Attempt{Number: 1, StatusCode: 204, Class: policy.ClassNone}
			}
			switch random.IntN(12) {
			case 0, 1, 2, 3:
				continue
			case 4:
				c.Status, c.ReasonCode = grapnel.Failed, grapnel.ReasonExhausted
				c.Attempt = &grapnel.Attempt{Number: 1, StatusCode: 500 + 3*random.IntN(2), Class: policy.ClassStatus5xx}
				if random.IntN(9) == 0 {
					c.ReasonCode, c.Attempt = grapnel.ReasonPermanent, &grapnel.Attempt{Number: 1, Class: "of its own"}
				}
			case 5:
				c.Status, c.Blocked = grapnel.Pending, true
			case 6:
				c.Status, c.Due, c.Attempt = grapnel.Pending, at(published+50), &grapnel.Attempt{Number: 1, Class: policy.ClassTimeout}
			}
			changes = append(changes, c)
		}
		both(func(s store.Store) (any, error) { return s.Record(t.Context(), changes) })
		for range 15 {
			r := store.Redelivery{Of: 1 + random.Int64N(done.Heads[len(done.Heads)-1].Delivery), Trigger: grapnel.TriggerManual, At: at(published)}
			both(func(s store.Store) (any, error) { return s.Again(t.Context(), store.Everyone(), r) })
		}
	}
	newest := both(func(s store.Store) (any, error) {
		c, err := s.Config(t.Context())
		return c.Newest, err
	}).(int64)
	if newest < int64(rounds)*4096/5 {
		t.Fatalf("only %d deliveries: not enough for several blocks", newest)
	}
	// ep_0 and ep_1 have more pending deliveries than Bounds.Gathered; ended ones leave gaps at the
	// beginning.
	both(func(s store.Store) (any, error) {
		return s.End(t.Context(), "ep_0", store.Ending{Status: grapnel.Skipped, At: at(published)}, 300)
	})

	pick := func(odds int, values ...string) string {
		if random.IntN(odds) > 0 {
			return ""
		}
		return values[random.IntN(len(values))]
	}
	statuses := [][]grapnel.Status{{grapnel.Failed}, {grapnel.Pending}, {grapnel.Held}, {grapnel.Delivered}, {grapnel.Dropped,
		grapnel.Skipped},
		{grapnel.Pending, grapnel.Held}, {grapnel.Failed, grapnel.Held}, {grapnel.Delivered, grapnel.Pending}}
	seen := 0
	for n := range queries {
		scope := store.Everyone()
		if tenant := pick(2, tenants...); tenant != "" {
			scope = store.Of(tenant)
		}
		dq := store.DeliveryQuery{
			Endpoint: pick(2, "ep_0", "ep_1", "ep_2", "ep_3", "ep_7", "ep_absent"), Tenant: pick(5, tenants...), Key: pick(5, "k1", "k2",
				"rare", "absent"),
			Type: pick(4, "thing.*", "thing.1", "rare.one", "*", "absent"), Limit: 1 + random.IntN(120),
		}
		if n%5 == 4 { // not at random: the queries of the short form are chosen by the numbers of the generator
			dq.Source = "src_1"
		}
		if random.IntN(2) == 0 {
			dq.Status = statuses[random.IntN(len(statuses))]
		}
		if random.IntN(3) == 0 {
			dq.HeldEndpoints = []string{"ep_0", "ep_7"}
		}
		if random.IntN(2) == 0 {
			dq.Before = random.Int64N(newest + 1000)
		}
		if random.IntN(3) == 0 {
			dq.From = at(random.IntN(published))
		}
		if random.IntN(3) == 0 {
			dq.To = at(random.IntN(published + 2000))
		}
		switch random.IntN(4) {
		case 0:
			dq.Class = policy.Class(pick(1, string(policy.ClassTimeout), string(policy.ClassStatus5xx), string(policy.ClassNone),
				"of its own", "absent"))
		case 1:
			dq.StatusCode = []int{200, 204, 500, 503, 404}[random.IntN(5)]
		}
		dq.ReasonCode = grapnel.ReasonCode(pick(6, string(grapnel.ReasonExhausted), string(grapnel.ReasonPermanent), "absent"))
		dq.DeadLetters = random.IntN(6) == 0
		t.Logf("%+v", dq)
		seen += len(both(func(s store.Store) (any, error) { return s.DeliveryList(t.Context(), scope, dq) }).([]grapnel.Delivery))
		eq := store.EventQuery{Type: dq.Type, Key: dq.Key, Tenant: dq.Tenant, From: dq.From, To: dq.To, Before: dq.Before, Limit: dq.Limit}
		both(func(s store.Store) (any, error) { return s.EventList(t.Context(), scope, eq) })
	}
	if seen < 5*queries {
		t.Errorf("the lists had only %d deliveries together", seen)
	}
	for _, selection := range []grapnel.Selection{{}, {To: at(published / 4)}, {Keys: []string{"k3", ""}, From: at(published / 2)},
		{Status: []grapnel.Status{grapnel.Delivered, grapnel.Skipped}, Keys: []string{"k1", "k2"}},
		{Status: []grapnel.Status{grapnel.Dropped, grapnel.Failed}, From: at(published / 3), To: at(published / 2)}} {
		both(func(s store.Store) (any, error) {
			q := store.CandidateQuery{Endpoint: "ep_1", Selection: selection, OverBy: at(published / 2), UpTo: newest - 100, Limit: 70}
			var all []grapnel.Delivery
			for {
				some, resume, err := s.Candidates(t.Context(), store.Everyone(), q)
				if all = append(all, some...); err != nil || resume == 0 {
					return all, err
				}
				q.After = resume
			}
		})
	}
	both(func(s store.Store) (any, error) { return s.Counts(t.Context(), store.Everyone()) })
	both(func(s store.Store) (any, error) { return s.Counts(t.Context(), store.Of("bolt")) })
	both(func(s store.Store) (any, error) { return s.Waiting(t.Context(), "ep_0", 1<<30) })
	both(func(s store.Store) (any, error) { return s.Heads(t.Context(), "ep_1", 1<<30) })
	for {
		if both(func(s store.Store) (any, error) {
			return s.End(t.Context(), "ep_0", store.Ending{Status: grapnel.Skipped, At: at(published)}, 1500)
		}).(int) == 0 {
			break
		}
	}
	both(func(s store.Store) (any, error) { return s.Counts(t.Context(), store.Everyone()) })
}
