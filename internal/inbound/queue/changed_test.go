package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// TestLeaseFollowsAChangeOfTheQueue: a stream reads its queue once, and lasts for days. A consumer
// that waits read it before it waited.
func TestLeaseFollowsAChangeOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New())
		defer w.halt()
		before := w.queue()
		waiting := make(chan []Message, 1)
		go func() {
			found, _ := w.broker.Next(context.Background(), before, "patient", 10, time.Minute)
			waiting <- found
		}()
		synctest.Wait()
		after := *before
		after.Queue = &grapnel.Queue{Name: "orders", Lease: time.Hour, MaxLeased: 2}
		w.put(after)
		w.publish("")
		found := <-waiting
		for range 5 {
			w.publish("")
		}
		for range 2 {
			found = append(found, w.next(before, "patient", 10)...)
		}
		if len(found) != 2 {
			t.Errorf("the limit is 2 now, and one consumer has %d leases", len(found))
		}
		for _, m := range found {
			if by := m.Until.Sub(m.GrantedAt); by != time.Hour {
				t.Errorf("a lease of %s, while the queue's are of an hour", by)
			}
		}
	})
}

// TestExpiredLeaseIsNotReturned: a stream that is resumed releases what the one before it sent, for
// a quarter of an hour.
func TestExpiredLeaseIsNotReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New())
		defer w.halt()
		q := w.queue()
		w.publish("")
		w.publish("")
		expired := w.next(q, "c", 1)
		time.Sleep(11 * time.Second)
		w.broker.Release([]grapnel.Lease{expired[0].Lease, w.next(q, "c", 1)[0].Lease})
		var returned dto.Metric
		if err := w.broker.metrics.returned.Write(&returned); err != nil || returned.Counter.GetValue() != 1 {
			t.Errorf("of two released leases one had expired, and %v count as returned (%v)", returned.Counter.GetValue(), err)
		}
	})
}
