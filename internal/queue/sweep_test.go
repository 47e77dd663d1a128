package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// sealing is a store whose tenants can be sealed: see store.Moving.
type sealing struct {
	store.Store
	sealed atomic.Bool
}

func (s *sealing) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	if !s.sealed.Load() {
		return s.Store.Record(ctx, changes)
	}
	results := make([]store.Changed, len(changes))
	for i := range results {
		results[i] = store.Changed{Fenced: true, Sealed: true}
	}
	return results, nil
}

// The leases of a moving tenant expire, and the store refuses to record any. A sweep then ends, and
// the next ones record the leases once the store takes them again.
func TestSweepEndsWhateverTheStoreRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sealing{Store: memory.New()}
		w := newWorld(t, s)
		defer w.halt()
		q := w.queue(func(ep *grapnel.Endpoint) { ep.Ordering, ep.Queue.MaxLeased = grapnel.Unordered, 1000 })
		for range w.broker.bounds.Over {
			w.publish("")
		}
		got := w.next(q, "c1", 1000)
		s.sealed.Store(true)
		before := w.called("LeaseList")
		w.injure.Store(new(func(method string) memory.Fault {
			if method == "LeaseList" && w.called(method) > before+1000 {
				s.sealed.Store(false)
			}
			return memory.Fault{}
		}))
		backoff.Wait(nil, time.Minute)
		if n := w.called("LeaseList") - before; n > 60 {
			t.Errorf("the leases were listed %d times in a minute", n)
		}
		s.sealed.Store(false)
		backoff.Wait(nil, 2*time.Second)
		for i := range got {
			if d := w.delivery(got[i].Delivery); len(d.Attempts) != 1 {
				t.Fatalf("recorded is %+v", d)
			}
		}
	})
}
