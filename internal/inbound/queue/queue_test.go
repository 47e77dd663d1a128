package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New())
		defer w.halt()
		f(t, w)
	})
}

func TestSettlingInEveryWay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue(func(ep *grapnel.Endpoint) { ep.Ordering = grapnel.Unordered })
		for range 4 {
			w.publish("")
		}
		got := w.next(q, "c1", 10)
		if !slices.Equal(bodies(got), []string{"1", "2", "3", "4"}) {
			t.Fatalf("got %v", bodies(got))
		}
		for i, a := range []Answer{{Verdict: Ack}, {Verdict: Nack, Reason: "busy"}, {Verdict: Nack, Delay: time.Minute, HasDelay: true},
			{Verdict: Reject, Reason: "no such order"}} {
			if err := w.settle(got[i].Token, a); err != nil {
				t.Fatal(err)
			}
			if err := w.settle(got[i].Token, Answer{Verdict: Ack}); grapnel.CodeOf(err) != grapnel.CodeConflict {
				t.Errorf("settled twice: %v", err)
			}
		}
		if d := w.delivery(got[0].Delivery); d.Status != grapnel.Delivered || d.Attempts[0].Class != policy.ClassNone {
			t.Errorf("acked: %+v", d)
		}
		if d := w.delivery(got[1].Delivery); d.Status != grapnel.Pending || d.Waiting.Due.Sub(d.Attempts[0].StartedAt) != time.Second ||
			!strings.Contains(d.Reason, "c1 returned it: busy") {
			t.Errorf("nacked: %+v", d)
		}
		if d := w.delivery(got[2].Delivery); d.Waiting.Due.Sub(d.Attempts[0].StartedAt) != time.Minute {
			t.Errorf("nacked for a minute: %+v", d)
		}
		if d := w.delivery(got[3].Delivery); d.Status != grapnel.Failed || d.ReasonCode != grapnel.ReasonRejected ||
			!strings.Contains(d.Reason, "no such order") {
			t.Errorf("rejected: %+v", d)
		}
		n, err := w.broker.Counts(context.Background(), q.ID)
		if err != nil || n.Delayed != 2 || n.Dead != 1 || n.Leased+n.Ready != 0 {
			t.Errorf("counts are %+v, %v", n, err)
		}
	})
}

func TestLeasesThatRunOutEndInADeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		w.publish("k")
		w.publish("k")
		var seq int64
		for n := 1; n <= 3; n++ {
			got := w.next(q, "c1", 5)
			if len(got) != 1 || got[0].Number != n || string(got[0].Event.Data) != "1" {
				t.Fatalf("attempt %d: got %+v", n, got)
			}
			seq = got[0].Delivery
			backoff.Wait(nil, 20*time.Second) // no consumer asks or settles
			if err := w.settle(got[0].Token, Answer{Verdict: Ack}); grapnel.CodeOf(err) != grapnel.CodeConflict {
				t.Errorf("settled after its end: %v", err)
			}
		}
		d := w.delivery(seq)
		if d.Status != grapnel.Failed || d.ReasonCode != grapnel.ReasonExhausted || len(d.Attempts) != 3 ||
			d.Attempts[2].Class != policy.ClassLease ||
			d.Attempts[2].Duration != 10*time.Second {
			t.Errorf("it is %+v", d)
		}
		if got := w.next(q, "c1", 5); !slices.Equal(bodies(got), []string{"2"}) {
			t.Errorf("then came %v", bodies(got))
		}
	})
}

func TestExtendedLeaseDoesNotRunOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		w.publish("k")
		got := w.next(q, "c1", 1)
		for range 5 {
			backoff.Wait(nil, 8*time.Second)
			if l, err := w.broker.Extend(context.Background(), store.Everyone(), got[0].Token, 0); err != nil ||
				!l.Until.Equal(time.Now().Add(10*time.Second)) {
				t.Fatal(l, err)
			}
		}
		if err := w.settle(got[0].Token, Answer{Verdict: Ack}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.broker.Extend(context.Background(), store.Everyone(), got[0].Token,
			time.Hour); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("extended after its end: %v", err)
		}
	})
}

// waits starts a consumer that waits, and returns the channel of its result.
func (w *world) waits(ctx context.Context, q *grapnel.Endpoint, consumer string, most int, wait time.Duration) <-chan []Message {
	got := make(chan []Message, 1)
	go func() {
		found, _ := w.broker.Next(ctx, q, consumer, most, wait)
		got <- found
	}()
	synctest.Wait()
	return got
}

func TestWaitingIsFirstComeFirstServed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue(func(ep *grapnel.Endpoint) { ep.Ordering = grapnel.Unordered })
		var line []<-chan []Message
		for n := range 5 {
			line = append(line, w.waits(context.Background(), q, fmt.Sprint("c", n), 1, time.Minute))
		}
		began := time.Now()
		for n := range 5 {
			w.publish("")
			if got := <-line[n]; len(got) != 1 || got[0].Consumer != fmt.Sprint("c", n) {
				t.Errorf("%d got %+v", n, got)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("hints took %s", took)
		}
		if got := w.waits(context.Background(), q, "c1", 1, 3*time.Second); len(<-got) != 0 || time.Since(began) != 3*time.Second {
			t.Errorf("waited for %s", time.Since(began))
		}
	})
}

// A message costs one claim however many consumers wait, and not one claim for each page of them.
func TestLongLineIsAskedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue(func(ep *grapnel.Endpoint) { ep.Ordering = grapnel.Unordered })
		var line []<-chan []Message
		for n := range 50 {
			line = append(line, w.waits(context.Background(), q, fmt.Sprint("c", n), 100, time.Minute))
		}
		before := w.called("Claim")
		for n := range 3 {
			w.publish("")
			if got := <-line[n]; len(got) != 1 {
				t.Errorf("%d got %+v", n, got)
			}
			synctest.Wait()
		}
		if n := w.called("Claim") - before; n != 3 {
			t.Errorf("three messages cost %d claims", n)
		}
	})
}

// A delivery that becomes due later, by its policy or by an operator's order, wakes a waiting
// consumer at that time.
func TestWaitingForWhatIsDelayed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		w.publish("k")
		first := w.next(q, "c1", 1)
		if err := w.settle(first[0].Token, Answer{Verdict: Nack, Delay: 2500 * time.Millisecond, HasDelay: true}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if got := <-w.waits(context.Background(), q, "c2", 1, time.Minute); len(got) != 1 || time.Since(began) != 2500*time.Millisecond {
			t.Errorf("after %s came %+v", time.Since(began), got)
		}
		// This lease expires unsettled; the consumer gets the delivery after its expiry and its
		// backoff.
		began = time.Now()
		if got := <-w.waits(context.Background(), q, "c1", 1, time.Minute); len(got) != 1 || time.Since(began) != 12*time.Second {
			t.Errorf("after %s came %+v", time.Since(began), got)
		}
	})
}

// A hint that got lost costs seconds, not a message.
func TestLostHintCostsSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		got := w.waits(context.Background(), q, "c1", 1, time.Minute)
		began := time.Now()
		ev := &grapnel.Event{ID: "evt_behind", Tenant: "default", Type: "a", Data: []byte("1"), ContentType: grapnel.JSONType,
			OccurredAt: began, AcceptedAt: began}
		version, _, err := w.store.Version(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Append(context.Background(), store.Batch{Config: version, Events: []store.Incoming{{Event: ev,
			Targets: []store.Target{{Endpoint: q.ID, Trigger: grapnel.TriggerSchedule}}}}}); err != nil {
			t.Fatal(err)
		}
		if found := <-got; len(found) != 1 || time.Since(began) > w.broker.bounds.Poll {
			t.Errorf("after %s came %v", time.Since(began), found)
		}
	})
}

func TestWhoHasLeftGetsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		ctx, leave := context.WithCancel(context.Background())
		gone := w.waits(ctx, q, "c1", 1, time.Minute)
		leave()
		if got := <-gone; got != nil {
			t.Fatalf("got %v", got)
		}
		w.publish("k")
		synctest.Wait()
		if n := w.called("Claim"); n != 1 {
			t.Errorf("%d claims for somebody who was there once", n)
		}

		// This consumer disconnects while the claim for it is in flight.
		ctx, leave = context.WithCancel(context.Background())
		var once sync.Once
		during := func(method string) {
			if method == "Events" { // the claim is durable
				once.Do(leave)
			}
		}
		w.during.Store(&during)
		if found, err := w.broker.Next(ctx, q, "c1", 1, time.Minute); len(found) != 0 || err == nil {
			t.Fatalf("got %v, %v", found, err)
		}
		if got := w.next(q, "c2", 1); len(got) != 1 || got[0].Number != 1 {
			t.Errorf("what was given back came as %+v", got)
		}
	})
}

func TestPausedQueueHandsOutNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		w.publish("a")
		w.publish("b")
		first := w.next(q, "c1", 1)
		q.Status = grapnel.EndpointPaused
		q = w.put(*q)
		waiting := w.waits(context.Background(), q, "c1", 1, time.Minute)
		backoff.Wait(nil, 5*time.Second)
		if got := w.next(q, "c2", 1); len(got) != 0 {
			t.Fatalf("a paused queue handed out %v", bodies(got))
		}
		if err := w.settle(first[0].Token, Answer{Verdict: Ack}); err != nil {
			t.Errorf("a lease of a paused queue: %v", err)
		}
		q.Status = grapnel.EndpointEnabled
		began := time.Now()
		w.put(*q)
		if got := <-waiting; len(got) != 1 || time.Since(began) > 0 {
			t.Errorf("resumed, after %s came %v", time.Since(began), bodies(got))
		}
	})
}

// A claim in flight while a queue is paused leases nothing once the pause is answered.
func TestClaimThatMeetsAPause(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		w.publish("a")
		var once sync.Once
		during := func(method string) {
			if method == "Claim" {
				once.Do(func() {
					paused := *q
					paused.Status = grapnel.EndpointPaused
					q = w.put(paused)
				})
			}
		}
		w.during.Store(&during)
		if got := w.next(q, "c1", 1); len(got) != 0 {
			t.Fatalf("handed out %v", bodies(got))
		}
		q.Status = grapnel.EndpointEnabled
		q = w.put(*q)
		if got := w.next(q, "c1", 1); len(got) != 1 || got[0].Number != 1 {
			t.Errorf("then came %+v", got)
		}
	})
}

func TestDeletedQueueIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		w.publish("a")
		first := w.next(q, "c1", 1)
		failed := make(chan error, 1)
		go func() {
			_, err := w.broker.Next(context.Background(), q, "c2", 1, time.Minute)
			failed <- err
		}()
		synctest.Wait()
		if err := w.engine.DeleteEndpoint(context.Background(), store.Everyone(), q.ID, grapnel.By{}); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; grapnel.CodeOf(err) != grapnel.CodeNotFound {
			t.Errorf("whoever waited was told %v", err)
		}
		if err := w.settle(first[0].Token, Answer{Verdict: Ack}); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("its lease: %v", err)
		}
		synctest.Wait()
		if d := w.delivery(first[0].Delivery); d.Status != grapnel.Dropped {
			t.Errorf("what was leased is %+v", d)
		}
	})
}

func TestConsumerHoldsNoMoreThanItMay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue(func(ep *grapnel.Endpoint) { ep.Ordering, ep.Queue.MaxLeased = grapnel.Unordered, 2 })
		for range 5 {
			w.publish("")
		}
		first := w.next(q, "c1", 10)
		if len(first) != 2 {
			t.Fatalf("got %v", bodies(first))
		}
		claims := w.called("Claim")
		waiting := w.waits(context.Background(), q, "c1", 1, time.Minute)
		backoff.Wait(nil, 3*time.Second)
		if len(waiting) > 0 {
			t.Errorf("somebody who holds all it may got %v", bodies(<-waiting))
		}
		if n := w.called("Claim") - claims; n > 5 {
			t.Errorf("%d claims in three seconds for somebody who holds all it may", n)
		}
		if got := w.next(q, "c2", 10); len(got) != 2 {
			t.Errorf("another got %v", bodies(got))
		}
		began := time.Now()
		if err := w.settle(first[0].Token, Answer{Verdict: Ack}); err != nil {
			t.Fatal(err)
		}
		if got := <-waiting; len(got) != 1 || time.Since(began) > 0 {
			t.Errorf("after %s came %v", time.Since(began), bodies(got))
		}
		names, err := w.broker.Consumers(context.Background(), q.ID)
		if err != nil || len(names) != 2 || names[0].Name != "c1" || names[0].Leased != 2 || names[1].Leased != 2 {
			t.Errorf("consumers are %+v, %v", names, err)
		}
	})
}

// A consumer that asked while the clock was ahead is not listed for as long as that was wrong.
func TestConsumerSeenByAClockThatWasAhead(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		l := w.broker.line(q.ID)
		l.see("gone", time.Now().Add(365*24*time.Hour))
		l.see("c1", time.Now())
		all, err := w.broker.Consumers(context.Background(), q.ID)
		if err != nil || len(all) != 1 || all[0].Name != "c1" {
			t.Errorf("consumers are %+v, %v", all, err)
		}
	})
}

func TestWhatIsTooOldEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		old := func(ep *grapnel.Endpoint) {
			ep.Policy.MaxAge, ep.Ordering = policy.Duration(time.Hour), grapnel.Unordered
		}
		q := w.queue(old)
		w.publish("")
		first := w.next(q, "c1", 1)
		if err := w.settle(first[0].Token, Answer{Verdict: Nack}); err != nil {
			t.Fatal(err)
		}
		w.publish("")
		backoff.Wait(nil, time.Hour+time.Minute) // no consumer asks
		list, err := w.store.DeliveryList(context.Background(), store.Everyone(), store.DeliveryQuery{Limit: 10})
		if err != nil || len(list) != 2 {
			t.Fatal(list, err)
		}
		for _, d := range list {
			if d.Status != grapnel.Failed || d.ReasonCode != grapnel.ReasonExpired {
				t.Errorf("it is %+v", d)
			}
		}
	})
}

// TestAMessageForLaterIsNotTooOldAtItsTime: its age counts from the time that its publisher asked
// for.
func TestAMessageForLaterIsNotTooOldAtItsTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue(func(ep *grapnel.Endpoint) {
			ep.Policy.MaxAge, ep.Ordering = policy.Duration(time.Hour), grapnel.Unordered
		})
		now := time.Now()
		for _, id := range []string{"leased", "left"} {
			ev := &grapnel.Event{ID: id, Tenant: "default", Type: "order.made", Data: []byte("1"), ContentType: grapnel.JSONType, OccurredAt: now, AcceptedAt: now}
			if _, err := w.engine.Publish(context.Background(), []store.Incoming{{Event: ev, NotBefore: now.Add(48 * time.Hour)}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		backoff.Wait(nil, 47*time.Hour)
		if got := w.next(q, "c1", 1); len(got) > 0 {
			t.Fatalf("before its time: %+v", got)
		}
		backoff.Wait(nil, time.Hour+time.Minute)
		if got := w.next(q, "c1", 1); len(got) != 1 || got[0].Event.ID != "leased" {
			t.Fatalf("at its time: %+v", got)
		}
		backoff.Wait(nil, time.Hour)
		if d := w.delivery(2); d.ReasonCode != grapnel.ReasonExpired {
			t.Errorf("an hour later the other is %+v", d)
		}
	})
}

// TestWhatIsTooOldEndsBehindWhatPeopleAskedFor: a delivery retried by an operator never exceeds
// max_age, and does not hide one that does.
func TestWhatIsTooOldEndsBehindWhatPeopleAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const asked, more = 450, 20
		w.queue(func(ep *grapnel.Endpoint) {
			ep.Policy.MaxAge, ep.Ordering = policy.Duration(time.Hour), grapnel.Unordered
		})
		for range asked {
			w.publish("")
		}
		for n := range asked {
			if _, err := w.engine.Retry(context.Background(), store.Everyone(), int64(n+1), grapnel.By{}, nil); err != nil {
				t.Fatal(err)
			}
		}
		backoff.Wait(nil, time.Second)
		for range more {
			w.publish("")
		}
		backoff.Wait(nil, time.Hour+2*time.Minute)
		for n := range asked + more {
			if d := w.delivery(int64(n + 1)); d.Status.Final() != (n >= asked) {
				t.Fatalf("%d is %s", n+1, d.Status)
			}
		}
	})
}

// Age counts from the first attempt on, not from the attempt that is settled now.
func TestNackThatWouldComeTooLateIsTheLast(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue(func(ep *grapnel.Endpoint) {
			ep.Policy.MaxAge, ep.Policy.MaxAttempts = policy.Duration(20*time.Second), 10
		})
		w.publish("k")
		for n, wait := range []time.Duration{9 * time.Second, 0, 9 * time.Second} {
			got := <-w.waits(context.Background(), q, "c1", 1, 3*time.Second)
			if len(got) != 1 {
				t.Fatalf("attempt %d did not come", n+1)
			}
			backoff.Wait(nil, wait)
			if err := w.settle(got[0].Token, Answer{Verdict: Nack}); err != nil {
				t.Fatal(err)
			}
			if d := w.delivery(got[0].Delivery); d.Status.Final() != (n == 2) || n == 2 && d.ReasonCode != grapnel.ReasonExpired {
				t.Errorf("after attempt %d it is %+v", n+1, d)
			}
		}
	})
}

// A claim before the sweep does not lease a delivery that is too old either.
func TestClaimDoesNotHandOutWhatIsTooOld(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue(func(ep *grapnel.Endpoint) { ep.Ordering = grapnel.Unordered })
		w.publish("")
		backoff.Wait(nil, time.Hour)
		w.publish("")
		q.Policy.MaxAge = policy.Duration(30 * time.Minute)
		q = w.put(*q)
		if got := <-w.waits(context.Background(), q, "c1", 1, time.Second); !slices.Equal(bodies(got), []string{"2"}) {
			t.Errorf("handed out %v", bodies(got))
		}
	})
}

func TestDamagedPayloadIsADeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue(func(ep *grapnel.Endpoint) { ep.Ordering = grapnel.Unordered })
		w.publish("")
		w.publish("")
		w.damaged.Store(1)
		got := <-w.waits(context.Background(), q, "c1", 1, time.Second)
		if !slices.Equal(bodies(got), []string{"2"}) {
			t.Fatalf("handed out %v", bodies(got))
		}
		list, err := w.store.DeliveryList(context.Background(), store.Everyone(), store.DeliveryQuery{Limit: 10, DeadLetters: true})
		if err != nil || len(list) != 1 || list[0].ReasonCode != grapnel.ReasonPermanent || list[0].AttemptsMade != 0 {
			t.Errorf("dead letters are %+v, %v", list, err)
		}
	})
}

// damaged is a store in which one event cannot be read.
type damaged struct {
	Store
	event *atomic.Int64
}

func (d damaged) Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error) {
	all, err := d.Store.Events(ctx, seqs)
	for i := range all {
		if seqs[i] == d.event.Load() {
			all[i] = nil
		}
	}
	return all, err
}

func TestDrainingAnswersWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New())
		q := w.queue()
		w.publish("a")
		first := w.next(q, "c1", 1)
		waiting := w.waits(context.Background(), q, "c1", 1, time.Minute)
		began := time.Now()
		w.halt()
		if got := <-waiting; len(got) != 0 || time.Since(began) > 0 {
			t.Errorf("after %s came %v", time.Since(began), got)
		}
		if got := w.next(q, "c1", 1); len(got) != 0 {
			t.Errorf("then came %v", got)
		}
		if err := w.settle(first[0].Token, Answer{Verdict: Ack}); err != nil {
			t.Errorf("settled while draining: %v", err)
		}
	})
}

// The outcome of a claim is unknown: no consumer has its leases, so their deliveries are leased
// again at once and not after the leases expire.
func TestClaimWhoseAnswerIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		w.publish("a")
		failed := false
		w.injure.Store(new(func(method string) memory.Fault {
			if method == "Claim" && !failed {
				failed = true
				return memory.Fault{Err: errCrashed, Applied: true}
			}
			return memory.Fault{}
		}))
		if _, err := w.broker.Next(context.Background(), q, "c1", 1, 0); err == nil {
			t.Fatal("a claim that failed is answered")
		}
		began := time.Now()
		if got := <-w.waits(context.Background(), q, "c1", 1, time.Minute); len(got) != 1 || got[0].Number != 1 ||
			time.Since(began) > time.Second {
			t.Errorf("after %s came %+v", time.Since(began), got)
		}
	})
}

// slowCommit is a store that commits its first claim after the answer to it was lost: when the next
// claim of the queue begins, which waits for that.
type slowCommit struct {
	*memory.Store
	late *store.Claim
	lost bool
}

func (s *slowCommit) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if !s.lost {
		s.late, s.lost = &c, true
		return store.Claimed{}, errCrashed
	}
	if s.late != nil {
		if _, err := s.Store.Claim(ctx, *s.late); err != nil {
			return store.Claimed{}, err
		}
		s.late = nil
	}
	return s.Store.Claim(ctx, c)
}

// The store is still committing a claim when its answer is given up. Its leases are returned, too.
func TestClaimThatIsCommittedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &slowCommit{Store: memory.New()})
		defer w.halt()
		q := w.queue()
		w.publish("a")
		if _, err := w.broker.Next(context.Background(), q, "c1", 1, 0); err == nil {
			t.Fatal("a claim that failed is answered")
		}
		began := time.Now()
		if got := <-w.waits(context.Background(), q, "c1", 1, time.Minute); len(got) != 1 || got[0].Number != 1 ||
			time.Since(began) > time.Second {
			t.Errorf("after %s came %+v", time.Since(began), got)
		}
	})
}

// The outcome of a settlement is unknown: it is repeated, and its consumer gets a success.
func TestSettlementWhoseAnswerIsLost(t *testing.T) {
	for _, a := range []Answer{{Verdict: Ack}, {Verdict: Nack}, {Verdict: Reject}} {
		bubble(t, func(t *testing.T, w *world) {
			q := w.queue()
			w.publish("a")
			got := w.next(q, "c1", 1)
			failed := 0
			w.injure.Store(new(func(method string) memory.Fault {
				if method == "Record" && failed < 2 {
					failed++
					return memory.Fault{Err: errCrashed, Applied: failed == 1}
				}
				return memory.Fault{}
			}))
			if err := w.settle(got[0].Token, a); err != nil {
				t.Errorf("%s: %v", a.Verdict, err)
			}
			if d := w.delivery(got[0].Delivery); len(d.Attempts) != 1 {
				t.Errorf("%s: recorded %+v", a.Verdict, d)
			}
		})
	}
}

// The answer to an ack is lost until the lease has expired and another consumer has settled the
// delivery.
func TestSettlementThatCameTooLate(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		w.publish("a")
		got := w.next(q, "c1", 1)
		backoff.Wait(nil, 9990*time.Millisecond)
		failed := false
		w.injure.Store(new(func(method string) memory.Fault {
			if method == "Record" && !failed {
				failed = true
				return memory.Fault{Err: errCrashed}
			}
			return memory.Fault{}
		}))
		over := make(chan []Message, 1)
		go func() {
			backoff.Wait(nil, 20*time.Millisecond) // the first try has failed, the lease has expired, the second try is next
			over <- w.next(q, "c2", 1)
		}()
		if err := w.settle(got[0].Token, Answer{Verdict: Ack}); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("it was answered %v", err)
		}
		<-over
		if d := w.delivery(got[0].Delivery); len(d.Attempts) != 1 || d.Attempts[0].Class != policy.ClassLease {
			t.Errorf("on record is %+v", d)
		}
	})
}
