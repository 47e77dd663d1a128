package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// exact compares what the engine has counted with what the store counts, by tenant.
func (b *bench) exact(when string) {
	b.t.Helper()
	synctest.Wait() // for outcomes that are being recorded
	counted, err := countPending(context.Background(), b.store, b.engine.Snapshot())
	if err != nil {
		b.t.Fatal(err)
	}
	want := newPending(nil)
	want.set(counted)
	p := b.engine.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	if fmt.Sprint(p.waiting) != fmt.Sprint(want.waiting) || p.total != want.total || len(p.expected) != 0 || p.calls != 0 {
		b.t.Errorf("%s the engine counts %v (%d in all, %v expected, %d calls on their way), the store %v", when, p.waiting, p.total, p.expected,
			p.calls, want.waiting)
	}
}

// TestATenantMayHaveSoMuchWaiting: a tenant has at most its limit of pending deliveries, however
// many publish at once, before and after a restart; other tenants do not notice, and finished
// deliveries make room.
func TestATenantMayHaveSoMuchWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(o *Options) { o.MaxPending = 100 })
		defer b.close()
		r := &receiver{then: status(500)}
		b.endpoint("one", r, nil)
		b.endpoint("two", r, nil)
		b.endpoint("quiet", r, func(ep *grapnel.Endpoint) { ep.EventTypes = []string{"order.*"} })
		b.endpoint("foreign", &receiver{}, func(ep *grapnel.Endpoint) { ep.Tenant = "other" })
		var wg sync.WaitGroup
		var mu sync.Mutex
		taken, refused := 0, 0
		for i := range 80 {
			ev := &grapnel.Event{
				ID:          fmt.Sprintf("evt_%d", i),
				Tenant:      "default",
				Type:        "test.event",
				Data:        []byte("1"),
				ContentType: grapnel.JSONType,
				OccurredAt:  time.Now(),
				AcceptedAt:  time.Now(),
			}
			wg.Go(func() {
				_, err := b.engine.Publish(context.Background(), []store.Incoming{{Event: ev}}, nil)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					taken++
					return
				}
				refused++
				b.refused(err, grapnel.CodeQuota, "too much")
			})
		}
		wg.Wait()
		b.count = 80
		if taken != 50 || refused != 30 {
			t.Errorf("%d taken, %d refused", taken, refused)
		}
		if got := b.shed(); got[" single quota"] != 30 || len(got) != 1 {
			t.Errorf("counted: %v", got)
		}
		b.exact("when it is full")
		for range 2 {
			b.refused(b.try(1), grapnel.CodeQuota, "one more")
			b.refused(b.try(2), grapnel.CodeQuota, "two more")
			b.halt()
			b.start(core.Options{})
			b.exact("after a restart")
		}
		other := &grapnel.Event{
			ID:          "evt_other",
			Tenant:      "other",
			Type:        "test.event",
			Data:        []byte("1"),
			ContentType: grapnel.JSONType,
			OccurredAt:  time.Now(),
			AcceptedAt:  time.Now(),
		}
		if _, err := b.engine.Publish(context.Background(), []store.Incoming{{Event: other}}, nil); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		unwanted := &grapnel.Event{
			ID:          "evt_unwanted",
			Tenant:      "nobody",
			Type:        "a",
			Data:        []byte("1"),
			ContentType: grapnel.JSONType,
			OccurredAt:  time.Now(),
			AcceptedAt:  time.Now(),
		}
		if _, err := b.engine.Publish(context.Background(), []store.Incoming{{Event: unwanted}}, nil); err != nil {
			t.Errorf("what nobody wants: %v", err)
		}
		for _, d := range b.deliveries("one")[:2] {
			if err := b.engine.Skip(context.Background(), store.Everyone(), d.Seq, grapnel.By{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.try(1); err != nil {
			t.Errorf("two were skipped: %v", err)
		}
		b.refused(b.try(1), grapnel.CodeQuota, "full again")
		skipped := b.deliveries("one")[0].Seq
		_, err := b.engine.Retry(context.Background(), store.Everyone(), skipped, grapnel.By{}, nil)
		b.refused(err, grapnel.CodeQuota, "delivering again")
		if err := b.engine.DeleteEndpoint(context.Background(), store.Everyone(), "two", grapnel.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		b.exact("after an endpoint was deleted")
		if err := b.try(1); err != nil {
			t.Errorf("an endpoint's were ended: %v", err)
		}
		once := &store.Once{
			Key:     "key_1/a",
			Now:     time.Now(),
			Expires: time.Now().Add(time.Hour),
			Answer:  func(any) store.Answer { return store.Answer{Status: 200} },
		}
		for range 2 {
			if _, err := b.engine.Retry(context.Background(), store.Everyone(), skipped, grapnel.By{}, once); err != nil {
				t.Errorf("delivering again: %v", err)
			}
		}
		b.exact("at last")
	})
}

// TestOnlyWhatWasAppliedIsOver: a change that did not apply is counted by the change that finished
// the delivery.
func TestOnlyWhatWasAppliedIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.endpoint("ep", &receiver{}, nil)
		page := []core.Change{
			{Endpoint: "ep", Change: store.Change{Status: grapnel.Delivered}},
			{Endpoint: "ep", Change: store.Change{Status: grapnel.Pending}},
			{Endpoint: "unknown", Change: store.Change{Status: grapnel.Delivered}},
		}
		results := []store.Changed{{Applied: true}, {Applied: true}, {Applied: true}}
		conf := b.engine.Snapshot()
		if got := settled(conf, page, nil, results); len(got) != 1 || got[0] != (share{"default", -1}) {
			t.Errorf("applied: %v", got)
		}
		if got := settled(conf, page, nil, make([]store.Changed, 3)); len(got) != 0 {
			t.Errorf("not applied: %v", got)
		}
	})
}

// TestWhatTheDisabledDropIsNotWaiting.
func TestWhatTheDisabledDropIsNotWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(o *Options) { o.MaxPending = 1 })
		defer b.close()
		p := parsed(t, `{"disable":{"pending":"drop"}}`)
		b.endpoint("ep", &receiver{}, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy, ep.Status = "", p, grapnel.EndpointDisabled })
		if err := b.try(10); err != nil {
			t.Error(err)
		}
		b.exact("afterwards")
	})
}

// TestTheCountFollows: the count includes deliveries, dead letters, operational events,
// redeliveries, duplicates and endings. After lost answers it is right again once all is quiet.
func TestTheCountFollows(t *testing.T) {
	for name, loses := range map[string]bool{"all is well": false, "answers are lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dice := rand.New(rand.NewPCG(1, 2))
				var mu sync.Mutex
				broken, lost := false, 0
				b := newBench(t, &memory.Faulty{Store: memory.New(), Injure: func(string) memory.Fault {
					mu.Lock()
					defer mu.Unlock()
					if !broken || dice.IntN(4) > 0 {
						return memory.Fault{}
					}
					lost++
					return memory.Fault{Err: errors.New("the answer is lost"), Applied: dice.IntN(2) == 0}
				}})
				defer b.close()
				b.endpoint("bad", &receiver{then: status(422)}, brief(t))
				b.endpoint("good", &receiver{}, nil)
				b.endpoint("gone", &receiver{then: status(500)}, nil)
				ctx, all := context.Background(), store.Everyone()
				mu.Lock()
				broken = loses
				mu.Unlock()
				for i := range 100 {
					_ = b.try(1 + i%3) // errors are what this is about
					if i%5 == 0 {
						b.count -= 2 // those ids again
					}
					_, _ = b.engine.Retry(ctx, all, int64(1+i), grapnel.By{}, nil)
					_ = b.engine.Skip(ctx, all, int64(3*i), grapnel.By{Reason: "x"})
					time.Sleep(300 * time.Millisecond)
				}
				_ = b.engine.DeleteEndpoint(ctx, all, "gone", grapnel.By{})
				time.Sleep(20 * time.Second)
				mu.Lock()
				broken = false
				mu.Unlock()
				if loses {
					time.Sleep(2 * b.engine.bounds.Recorder.Tidy)
				}
				if loses != (lost > 20) {
					t.Errorf("%d answers were lost", lost)
				}
				if b.kinds("good")["delivery_failed"] == 0 {
					t.Error("nothing was told")
				}
				b.exact("at the end")
				if got := read(t, b.engine, "grapnel_pending")[""]; int64(got) != b.engine.pending.all() {
					t.Errorf("the metric says %d", got)
				}
			})
		})
	}
}

// TestRecountWhileBusy: a count that was made while others wrote is taken, and made again.
func TestRecountWhileBusy(t *testing.T) {
	p := newPending(nil)
	p.begin(share{"t", 3})
	p.end([]share{{"t", 3}}, nil, errors.New("lost"))
	counting := func(n int64, meanwhile func()) func() ([]share, error) {
		return func() ([]share, error) { meanwhile(); return []share{{"t", n}}, nil }
	}
	if err := p.recount(func() ([]share, error) { return nil, errors.New("no") }); err == nil || !p.doubtful {
		t.Error("a count that failed counts")
	}
	_ = p.recount(counting(3, func() { p.begin(share{"t", 1}); p.end([]share{{"t", 1}}, []share{{"t", 1}}, nil) }))
	if p.all() != 3 || !p.doubtful {
		t.Errorf("%d, in doubt: %v", p.all(), p.doubtful)
	}
	_ = p.recount(counting(4, func() {}))
	if p.all() != 4 || p.doubtful {
		t.Errorf("%d, in doubt: %v", p.all(), p.doubtful)
	}
	_ = p.recount(counting(9, func() { t.Error("what is not in doubt is counted") }))
}

// TestAnotherNodeFinishesWhatThisOneCounts: a publish is not refused for deliveries that another
// node has finished. Refusals that are right cause few counts.
func TestAnotherNodeFinishesWhatThisOneCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, counts := memory.New(), new(atomic.Int64)
		b := newTunedBench(t, &memory.Faulty{Store: s, Injure: func(call string) memory.Fault {
			if call == "Counts" {
				counts.Add(1)
			}
			return memory.Fault{}
		}}, func(o *Options) {
			o.MaxPending = 10
			o.Cluster = &ownership.Options{Ownership: &estate{}, Node: store.Node{ID: "me"}, Lease: leaseHere, Peers: neighbours{}}
		})
		defer b.close()
		time.Sleep(leaseHere)
		b.endpoint("ep", &receiver{}, func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
		if err := b.try(10); err != nil {
			t.Fatal(err)
		}
		counts.Store(0)
		for range 100 {
			b.refused(b.try(1), grapnel.CodeQuota, "all of them are pending")
		}
		if n := counts.Load(); n != 1 {
			t.Errorf("100 refusals at once counted %d times", n)
		}
		ending := store.Ending{UpTo: 10, Status: grapnel.Discarded, Reason: "by another node", At: time.Now()}
		if n, err := s.End(t.Context(), "ep", ending, 10); n != 10 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(b.engine.bounds.Recorder.Recount)
		if err := b.try(10); err != nil {
			t.Errorf("none is pending: %v", err)
		}
		b.refused(b.try(1), grapnel.CodeQuota, "all of them are pending again")
	})
}
