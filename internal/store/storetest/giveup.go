package storetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// patience is the limit for a call that is not cancelled. It is far above what any store needs.
const patience = time.Minute

// givesUp lets callers cancel their calls in front of other calls, which must all be answered. The
// cancelled calls change nothing, because their delivery does not exist. So the model need not know
// which of them the store has executed.
func (m *machine) givesUp(t *rapid.T) {
	changes := []store.Change{{Delivery: m.deliveries.store(1 << 30), At: m.now, Status: grapnel.Delivered, Expect: store.AnyAttempts}}
	ctx, cancel := context.WithTimeout(m.ctx, patience)
	defer cancel()
	var failed atomic.Pointer[error]
	live := func(int) {
		done, err := m.Record(ctx, changes)
		if err == nil && (len(done) != 1 || done[0].Applied) {
			err = fmt.Errorf("got %+v for a delivery that does not exist", done)
		}
		if err != nil {
			failed.Store(&err)
		}
	}
	leaving, leave := context.WithCancel(ctx)
	var all, gone sync.WaitGroup
	for i := range rapid.IntRange(0, 4).Draw(t, "callers in front") {
		all.Go(func() { live(i) })
	}
	for range rapid.IntRange(1, 40).Draw(t, "callers that give up") {
		gone.Go(func() {
			if _, err := m.Record(leaving, changes); err != nil && leaving.Err() == nil {
				failed.Store(&err)
			}
		})
	}
	for range rapid.IntRange(0, 8).Draw(t, "turns before they do") {
		runtime.Gosched()
	}
	leave()
	gone.Wait()
	together(rapid.IntRange(1, 4).Draw(t, "callers behind"), live)
	all.Wait()
	if err := failed.Load(); err != nil {
		m.Fatalf("Record among callers that give up: %v", *err)
	}
}

// publishersGiveUp publishes from callers of which every other one gives up at some time. The
// others are all served. An event of a caller that gave up is stored with all of its deliveries, or
// not at all.
func publishersGiveUp(d *driver) {
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	version := d.config().Version
	var mu sync.Mutex
	accepted, unknown := map[string]bool{}, map[string]bool{}
	together(2*racers, func(p int) {
		for i := range perRacer {
			id := fmt.Sprintf("e%d_%d", p, i)
			leaving, leave := context.WithCancel(ctx)
			if p%2 == 1 {
				go func() {
					for range i {
						runtime.Gosched()
					}
					leave()
				}()
			}
			_, err := d.Append(leaving, store.Batch{Config: version,
				Events: []store.Incoming{incoming(event(id, fmt.Sprint("k", (p+i)%raceKeys), 1), to(epA), to(epB))}})
			left := leaving.Err() != nil
			leave()
			if err != nil && (p%2 == 0 || !left) {
				d.Errorf("Append of %s: %v", id, err)
				return
			}
			mu.Lock()
			if err == nil {
				accepted[id] = true
			} else {
				unknown[id] = true
			}
			mu.Unlock()
		}
	})
	made := map[string]int{}
	for _, x := range d.list(store.DeliveryQuery{}) {
		made[x.EventID]++
	}
	for id := range accepted {
		d.same(made[id], 2, "deliveries of "+id+", which was accepted")
	}
	for id, n := range made {
		if n != 2 || !accepted[id] && !unknown[id] {
			d.Errorf("%d deliveries of %s, whose publisher gave up", n, id)
		}
	}
	d.same(len(accepted) >= racers*perRacer, true, "every publisher that went on was served")
	d.sound()
}

const (
	racers    = 16
	perRacer  = 20
	raceKeys  = 3
	recorders = 4
)

// together runs n calls concurrently and waits for them.
func together(n int, call func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { call(i) })
	}
	all.Wait()
}
