package queue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

// refusing is a store that can refuse every outcome.
type refusing struct {
	store.Store
	refuses atomic.Bool
	most    atomic.Int64 // heads in one read
}

func (s *refusing) Heads(ctx context.Context, endpoint string, limit int) ([]store.Head, error) {
	s.most.Store(max(s.most.Load(), int64(limit)))
	return s.Store.Heads(ctx, endpoint, limit)
}

func (s *refusing) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	if s.refuses.Load() {
		return nil, grapnel.Errorf(grapnel.CodeUnavailable, "not now")
	}
	return s.Store.Record(ctx, changes)
}

// Leases expire, and the store refuses to record any. A sweep then ends, and
// the next ones record the leases once the store takes them again.
func TestSweepEndsWhateverTheStoreRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &refusing{Store: memory.New()}
		w := newWorld(t, s)
		defer w.halt()
		q := w.queue(func(ep *grapnel.Endpoint) { ep.Ordering, ep.Queue.MaxLeased = grapnel.Unordered, 1000 })
		for range w.broker.bounds.Over {
			w.publish("")
		}
		got := w.next(q, "c1", 1000)
		s.refuses.Store(true)
		before := w.called("LeaseList")
		w.injure.Store(new(func(method string) memory.Fault {
			if method == "LeaseList" && w.called(method) > before+1000 {
				s.refuses.Store(false)
			}
			return memory.Fault{}
		}))
		backoff.Wait(nil, time.Minute)
		if n := w.called("LeaseList") - before; n > 60 {
			t.Errorf("the leases were listed %d times in a minute", n)
		}
		s.refuses.Store(false)
		backoff.Wait(nil, 2*time.Second)
		for i := range got {
			if d := w.delivery(got[i].Delivery); len(d.Attempts) != 1 {
				t.Fatalf("recorded is %+v", d)
			}
		}
	})
}

// Deliveries become too old, and the store refuses to end any. A sweep does
// not read ever more of them into memory.
func TestSweepReadsOnePageOfWhatTheStoreRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &refusing{Store: memory.New()}
		w := newWorld(t, s)
		defer w.halt()
		w.queue(func(ep *grapnel.Endpoint) {
			ep.Ordering, ep.Policy.MaxAge = grapnel.Unordered, policy.Duration(time.Minute)
		})
		for range 5 * w.broker.bounds.Over {
			w.publish("")
		}
		s.refuses.Store(true)
		backoff.Wait(nil, time.Minute+time.Millisecond)
		s.most.Store(0)
		backoff.Wait(nil, time.Minute)
		if most := int(s.most.Load()); most != w.broker.bounds.Over {
			t.Errorf("%d heads were read at once", most)
		}
		s.refuses.Store(false)
		backoff.Wait(nil, time.Minute)
		if n, err := w.broker.Counts(context.Background(), "que_1"); err != nil || int(n.Dead) != w.events {
			t.Errorf("counts are %+v, %v", n, err)
		}
	})
}

// Messages were accepted by a clock that was two days ahead, and one of them was leased. Once the
// clock is right they are due, and the lease has expired; until then its consumer may settle it.
func TestMessagesOfAClockThatWasAhead(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue(func(ep *grapnel.Endpoint) { ep.Ordering = grapnel.Unordered })
		backoff.Wait(nil, time.Minute)
		synctest.Wait() // the sweep of this instant would notice the clock before the messages are there
		ahead := time.Now().Add(48 * time.Hour)
		w.broker.mu.Lock()
		w.broker.swept = ahead
		w.broker.mu.Unlock()
		for i := range 3 {
			ev := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "default", Type: "test.event", Data: []byte("1"), ContentType: grapnel.JSONType,
				OccurredAt: ahead, AcceptedAt: ahead}
			if _, err := w.engine.Publish(t.Context(), []store.Incoming{{Event: ev}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		c := store.Claim{Queue: q.ID, Now: ahead}
		for _, token := range []string{"lse_lost", "lse_kept"} {
			c.Wants = append(c.Wants, store.Want{Token: token, Consumer: "c0", For: time.Minute})
		}
		if done, err := w.store.Claim(t.Context(), c); err != nil || len(done.Leases) != 2 {
			t.Fatal(done, err)
		}
		if err := w.settle("lse_kept", Answer{Verdict: Ack}); err != nil {
			t.Errorf("its consumer cannot settle a lease: %v", err)
		}
		backoff.Wait(nil, 2*time.Minute)
		got := w.next(q, "c1", 10)
		if len(got) != 2 || got[0].Number+got[1].Number != 3 {
			t.Errorf("two minutes later there are %d messages: %+v", len(got), got)
		}
	})
}

// The store cannot be read for half an hour. The log has a few lines about it, however many queues
// there are, and one at the next failure.
func TestSweepsThatFailAreLoggedSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		w := &world{t: t, store: memory.New(), log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelError}))}
		w.start()
		for i := range 5 {
			w.queue(func(ep *grapnel.Endpoint) { ep.ID, ep.Queue.Name = fmt.Sprint("que_", i), fmt.Sprint("q", i) })
		}
		for _, outage := range []time.Duration{30 * time.Minute, time.Minute} {
			w.injure.Store(new(func(method string) memory.Fault {
				if method == "LeaseList" {
					return memory.Fault{Err: errCrashed}
				}
				return memory.Fault{}
			}))
			backoff.Wait(nil, outage)
			w.injure.Store(nil)
			backoff.Wait(nil, time.Minute)
		}
		w.halt()
		lines, begun := strings.Count(logged.String(), "ending expired leases"), strings.Count(logged.String(), "failures=1 ")
		if lines > 20 || begun != 2 || !strings.Contains(logged.String(), "queues=5") {
			t.Errorf("logged:\n%s", &logged)
		}
	})
}
