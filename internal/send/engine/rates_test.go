package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// by publishes n events of a tenant in one call.
func (b *bench) by(tenant string, n int) error {
	events := make([]store.Incoming, n)
	for i := range events {
		b.count++
		events[i].Event = &grapnel.Event{ID: fmt.Sprintf("evt_%d", b.count), Tenant: tenant, Type: "test.event", Data: []byte("1"),
			ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}
	}
	_, err := b.engine.Publish(context.Background(), events, nil)
	return err
}

// terms sets a tenant's own limits.
func (b *bench) terms(tenant string, is grapnel.Terms) {
	b.t.Helper()
	if _, err := b.engine.ChangeTerms(context.Background(), store.Everyone(), tenant,
		func(t *grapnel.Terms) (*grapnel.AuditEntry, error) { *t = is; return nil, nil }); err != nil { //nolint:nilnil // no entry
		b.t.Fatal(err)
	}
}

// limited checks a refusal by a tenant's limit, which lets left events through.
func (b *bench) limited(err error, code grapnel.Code, limit string, left int64) {
	b.t.Helper()
	e, is := errors.AsType[*grapnel.Error](err)
	if !is {
		b.t.Fatalf("not refused: %v", err)
	}
	if e.Code != code || e.RetryAfter <= 0 || e.Quota == nil || e.Quota.Name != limit || e.Quota.Left != left || e.Quota.Window < time.Second {
		b.t.Errorf("%v, %+v", err, e.Quota)
	}
}

// published counts the stored events of a tenant.
func (b *bench) published(tenant string) int {
	b.t.Helper()
	list, err := b.store.EventList(b.t.Context(), store.Everyone(), store.EventQuery{Tenant: tenant, Limit: 1000})
	if err != nil {
		b.t.Fatal(err)
	}
	return len(list)
}

// TestATenantAtItsRateCostsOthersNothing: a tenant publishes at most its burst at once, and its
// rate from then on, however many calls it makes at the same time. Other tenants are not refused.
func TestATenantAtItsRateCostsOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(o *Options) { o.PublishRate = &grapnel.RateLimit{PerSecond: 10, Burst: 20} })
		defer b.close()
		var calls sync.WaitGroup
		var good atomic.Int64
		for i := range 200 {
			ev := &grapnel.Event{ID: fmt.Sprintf("evt_loud_%d", i), Tenant: "loud", Type: "test.event", Data: []byte("1"),
				ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}
			calls.Go(func() {
				if _, err := b.engine.Publish(context.Background(), []store.Incoming{{Event: ev}}, nil); err == nil {
					good.Add(1)
				}
			})
		}
		for range 20 {
			if err := b.by("quiet", 1); err != nil {
				t.Errorf("another tenant: %v", err)
			}
		}
		calls.Wait()
		if n := b.published("loud"); good.Load() != 20 || n != 20 || b.published("quiet") != 20 {
			t.Errorf("%d accepted, %d stored", good.Load(), n)
		}
		if got := b.shed(); got[" single rate"] != 180 || len(got) != 1 {
			t.Error(got)
		}
		b.limited(b.by("loud", 1), grapnel.CodeRateLimited, publishRate, 0)
		time.Sleep(time.Second)
		b.limited(b.by("loud", 11), grapnel.CodeRateLimited, publishRate, 10)
		if err := b.by("loud", 10); err != nil {
			t.Error(err)
		}
		b.limited(b.by("quiet", 31), grapnel.CodeRateLimited, publishRate, 10)
		b.terms("loud", grapnel.Terms{PublishRate: &grapnel.RateLimit{PerSecond: 1000, Burst: 1000}})
		time.Sleep(2 * time.Second) // debts are times: what it owes of its former rate is paid by the clock
		for range 9 {
			if err := b.by("loud", 100); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestQuotaIsTheLimitWithLeastLeft: of the rate and the day. Asking for it costs a tenant without
// limits no allocation.
func TestQuotaIsTheLimitWithLeastLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(*Options) {})
		defer b.close()
		b.terms("a", grapnel.Terms{PublishRate: &grapnel.RateLimit{PerSecond: 10, Burst: 20}, EventsPerDay: 22})
		for _, want := range []grapnel.Quota{
			{Name: publishRate, Most: 20, Window: 2 * time.Second, Left: 15},
			{Name: publishRate, Most: 20, Window: 2 * time.Second, Left: 10},
			{Name: eventsPerDay, Most: 22, Window: 24 * time.Hour, Left: 7},
		} {
			if err := b.by("a", 5); err != nil {
				t.Fatal(err)
			}
			if got := b.engine.Quota("a"); got == nil || *got != want {
				t.Errorf("%+v", got)
			}
			if want.Left == 10 {
				time.Sleep(time.Second)
			}
		}
		if n := testing.AllocsPerRun(100, func() {
			if b.engine.Quota("b") != nil {
				t.Error("a tenant without limits has one")
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// TestALargeBatchIsTakenByARestedTenant: else it would be refused forever. The tenant then pays for
// all of it.
func TestALargeBatchIsTakenByARestedTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(o *Options) { o.PublishRate = &grapnel.RateLimit{PerSecond: 10, Burst: 10} })
		defer b.close()
		if err := b.by("a", 100); err != nil {
			t.Fatal(err)
		}
		b.limited(b.by("a", 1), grapnel.CodeRateLimited, publishRate, 0)
		time.Sleep(9 * time.Second)
		b.limited(b.by("a", 1), grapnel.CodeRateLimited, publishRate, 0)
		time.Sleep(100 * time.Millisecond)
		if err := b.by("a", 1); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatIsNotStoredCountsForNothing: neither for the rate nor for the day.
func TestWhatIsNotStoredCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		s := &memory.Faulty{Store: memory.New(), Injure: func(call string) memory.Fault {
			if call == "Append" && full.Load() {
				return memory.Fault{Err: grapnel.Errorf(grapnel.CodeStorageFull, "full")}
			}
			return memory.Fault{}
		}}
		b := newTunedBench(t, s, func(o *Options) {
			o.PublishRate, o.EventsPerDay = &grapnel.RateLimit{PerSecond: 10, Burst: 10}, 10
		})
		defer b.close()
		full.Store(true)
		for range 5 {
			if err := b.by("a", 10); grapnel.CodeOf(err) != grapnel.CodeStorageFull {
				t.Error(err)
			}
		}
		full.Store(false)
		if err := b.by("a", 10); err != nil {
			t.Error(err)
		}
		b.limited(b.by("a", 1), grapnel.CodeRateLimited, publishRate, 0)
		time.Sleep(time.Minute)
		b.limited(b.by("a", 1), grapnel.CodeQuota, eventsPerDay, 0)
		time.Sleep(time.Minute) // the refusal by the day has used nothing of the rate
		if debt := b.engine.rates.debts.Debt("a", time.Now()); debt != 0 {
			t.Error(debt)
		}
	})
}

// TestTheDaysEventsAreCountedThroughRestarts: by all nodes together, each event once, until
// midnight in UTC.
func TestTheDaysEventsAreCountedThroughRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		tune := func(o *Options) { o.EventsPerDay = 100 }
		b := newTunedBench(t, s, tune)
		other := newTunedBench(t, s, tune)
		other.count = 1000
		defer func() { b.close(); other.close() }()
		take := func(b *bench, n int) {
			t.Helper()
			if err := b.by("a", n); err != nil {
				t.Error(err)
			}
		}
		take(b, 60)
		b.count -= 40
		take(b, 40) // again: they are duplicates
		b.limited(b.by("a", 41), grapnel.CodeQuota, eventsPerDay, 40)
		time.Sleep(time.Minute)
		take(other, 30)
		time.Sleep(time.Minute)
		take(b, 1)
		time.Sleep(time.Minute)
		b.limited(b.by("a", 10), grapnel.CodeQuota, eventsPerDay, 9)
		b.halt()
		b.start(core.Options{})
		b.limited(b.by("a", 10), grapnel.CodeQuota, eventsPerDay, 9)
		take(b, 9)
		b.limited(b.by("a", 1), grapnel.CodeQuota, eventsPerDay, 0)
		if err := b.by("b", 100); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		if got := b.shed(); got[" single day"] != 1 || got[" batch day"] != 1 {
			t.Error(got)
		}
		e, _ := errors.AsType[*grapnel.Error](b.by("a", 1))
		time.Sleep(e.RetryAfter)
		take(b, 100)
		b.terms("a", grapnel.Terms{EventsPerDay: 150})
		take(b, 50)
		b.limited(b.by("a", 1), grapnel.CodeQuota, eventsPerDay, 0)
	})
}

// TestATenantMayHaveItsOwnLimitOfPendingDeliveries: higher or lower than the server's.
func TestATenantMayHaveItsOwnLimitOfPendingDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(o *Options) { o.MaxPending = 10 })
		defer b.close()
		b.endpoint("ep", &receiver{}, func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
		b.refused(b.try(11), grapnel.CodeQuota, "the server's limit")
		b.terms("default", grapnel.Terms{MaxPending: 5})
		b.refused(b.try(6), grapnel.CodeQuota, "a lower one")
		b.terms("default", grapnel.Terms{MaxPending: 20})
		if err := b.try(20); err != nil {
			t.Error(err)
		}
		b.refused(b.try(1), grapnel.CodeQuota, "a higher one")
	})
}
