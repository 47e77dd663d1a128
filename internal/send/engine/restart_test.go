package engine

import (
	"context"
	"io"
	"net/http"
	"slices"
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

// TestRestart: pending deliveries continue after a restart, at their times.
func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{then: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 2 {
				w.WriteHeader(500)
			}
		}}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName = "paylera" })
		b.publish("k", 2)
		time.Sleep(time.Second)
		b.halt()
		time.Sleep(5 * time.Second)
		b.start(core.Options{})
		time.Sleep(10 * time.Minute)
		got := r.log()
		if len(got) != 4 {
			t.Fatalf("%d requests", len(got))
		}
		if wait := got[1].at.Sub(got[0].at); wait < 15*time.Second || wait > 17*time.Second {
			t.Errorf("the second attempt came after %v", wait)
		}
		for _, d := range b.deliveries("ep") {
			if d.Status != grapnel.Delivered {
				t.Errorf("%s is %s", d.EventID, d.Status)
			}
		}
	})
}

// TestDrain: stopping lets the request in flight finish and records it, so it is not repeated.
func TestDrain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{then: func(int, http.ResponseWriter, *http.Request) { time.Sleep(3 * time.Second) }}
		b.endpoint("ep", r, nil)
		b.publish("k", 2)
		time.Sleep(time.Second)
		b.halt()
		if n := len(r.log()); n != 1 {
			t.Errorf("%d requests: the next in the lane must not start while draining", n)
		}
		if d := b.deliveries("ep")[0]; d.Status != grapnel.Delivered {
			t.Errorf("the first is %s", d.Status)
		}
		b.start(core.Options{})
		time.Sleep(time.Minute)
		if got := r.ids(); !slices.Equal(got, []string{"evt_1", "evt_2"}) {
			t.Errorf("got %v", got)
		}
	})
}

// TestLostRecord: while outcomes cannot be recorded, or the answer is lost, nothing is sent twice.
func TestLostRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var broken, applied bool
		faulty := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			if method != "Record" || !broken {
				return memory.Fault{}
			}
			return memory.Fault{Err: io.ErrUnexpectedEOF, Applied: applied}
		}}
		b := newBench(t, faulty)
		defer b.close()
		r := &receiver{}
		b.endpoint("ep", r, nil)
		mu.Lock()
		broken = true
		mu.Unlock()
		ids := b.publish("k", 5)
		time.Sleep(time.Minute)
		if n := len(r.log()); n != 1 {
			t.Errorf("%d requests although the first outcome is not durable", n)
		}
		mu.Lock()
		applied = true // now they are recorded, but the answer is lost
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		broken = false
		mu.Unlock()
		time.Sleep(time.Minute)
		if got := r.ids(); !slices.Equal(got, ids) {
			t.Errorf("got %v", got)
		}
	})
}

// TestOutcomesAreRecordedSoonAfterAnOutage: a crash repeats the attempts whose outcomes wait for
// the store, so they do not wait for long after it answers again.
func TestOutcomesAreRecordedSoonAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		faulty := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
			if method != "Record" || !broken.Load() {
				return memory.Fault{}
			}
			return memory.Fault{Err: io.ErrUnexpectedEOF}
		}}
		b := newBench(t, faulty)
		defer b.close()
		r := &receiver{}
		b.endpoint("ep", r, nil)
		broken.Store(true)
		b.publish("", 5)
		time.Sleep(time.Minute)
		if n := len(r.log()); n != 5 {
			t.Fatalf("%d requests during the outage, want 5", n)
		}
		broken.Store(false)
		time.Sleep(600 * time.Millisecond)
		for _, d := range b.deliveries("ep") {
			if d.Status != grapnel.Delivered {
				t.Errorf("a delivery is still %s after the outage", d.Status)
			}
		}
	})
}

// TestExpiredAnswersAreForgotten: idempotency keys do not pile up.
func TestExpiredAnswersAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ctx := context.Background()
		once := &store.Once{
			Key:     "key_1/a",
			Now:     time.Now(),
			Expires: time.Now().Add(48 * time.Hour),
			Answer:  func(any) store.Answer { return store.Answer{Status: 200} },
		}
		if _, err := b.store.Remember(ctx, once); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait time.Duration
			kept bool
		}{{47 * time.Hour, true}, {2 * time.Hour, false}} {
			time.Sleep(step.wait)
			// as of long ago, so that only deletion counts
			answer, err := b.store.Recall(ctx, once.Key, time.Time{})
			if err != nil || (answer != nil) != step.kept {
				t.Fatalf("after %v more: kept %v, %v", step.wait, answer != nil, err)
			}
		}
	})
}
