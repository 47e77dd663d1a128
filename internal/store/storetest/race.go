package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// span is when a call began and returned, by a counter shared by all callers.
type span struct{ began, returned int64 }

var raceCases = []testCase{
	{"publishers to few keys get positions in commit order", func(d *driver) {
		version := d.config().Version
		var clock atomic.Int64
		var mu sync.Mutex
		spans := map[string]span{}
		together(racers, func(p int) {
			for i := range perRacer {
				id := fmt.Sprintf("e%d_%d", p, i)
				e := event(id, fmt.Sprint("k", (p+i)%raceKeys), 1)
				s := span{began: clock.Add(1)}
				_, err := d.Append(d.ctx, store.Batch{Config: version, Events: []store.Incoming{incoming(e, to(epA), to(epB))}})
				s.returned = clock.Add(1)
				if err != nil {
					d.Errorf("Append: %v", err)
					return
				}
				mu.Lock()
				spans[id] = s
				mu.Unlock()
			}
		})
		d.sound()
		list := d.list(store.DeliveryQuery{})
		d.same(len(list), racers*perRacer*2, "deliveries")
		lanes := map[laneOf][]grapnel.Delivery{}
		for _, x := range list {
			lane := laneOf{x.EndpointID, x.Key}
			lanes[lane] = append(lanes[lane], x)
		}
		for lane, line := range lanes {
			for _, a := range line {
				for _, b := range line {
					if spans[a.EventID].returned < spans[b.EventID].began && (a.Position > b.Position || a.EventSeq > b.EventSeq) {
						d.Fatalf("lane %v: %s was committed before %s was sent, but has position %d and number %d after %d and %d",
							lane, a.EventID, b.EventID, a.Position, a.EventSeq, b.Position, b.EventSeq)
					}
				}
			}
		}
	}},
	{"publishers of one id make one event", func(d *driver) {
		version := d.config().Version
		var fresh atomic.Int64
		together(racers, func(int) {
			for i := range 5 {
				done, err := d.Append(d.ctx, store.Batch{Config: version, Events: []store.Incoming{incoming(event(fmt.Sprint("e", i), "k", 1),
					to(epA))}})
				if err != nil {
					d.Errorf("Append: %v", err)
					return
				}
				if !done.Events[0].Duplicate {
					fresh.Add(1)
				}
			}
		})
		d.same(fresh.Load(), int64(5), "events that were new")
		d.same(len(d.list(store.DeliveryQuery{})), 5, "deliveries")
		d.sound()
	}},
	{"publishers of one id make one event of each tenant", func(d *driver) {
		version := d.config().Version
		var fresh [2]atomic.Int64
		together(racers, func(p int) {
			for i := range 5 {
				e, endpoint := event(fmt.Sprint("e", i), "k", 1), epA
				if p%2 == 1 {
					e.Tenant, endpoint = bolt, epX
				}
				done, err := d.Append(d.ctx, store.Batch{Config: version, Events: []store.Incoming{incoming(e, to(endpoint))}})
				if err != nil || done.Events[0].Conflict {
					d.Errorf("Append: %+v, %v", done, err)
					return
				}
				if !done.Events[0].Duplicate {
					fresh[p%2].Add(1)
				}
			}
		})
		d.same([]int64{fresh[0].Load(), fresh[1].Load()}, []int64{5, 5}, "events that were new")
		d.same(len(d.list(store.DeliveryQuery{})), 10, "deliveries")
		d.sound()
	}},
	{"callers with one idempotency key have one effect", func(d *driver) {
		version := d.config().Version
		var effects atomic.Int64
		together(racers, func(p int) {
			done, err := d.Append(d.ctx, store.Batch{Config: version, Once: once("key", 1, 0),
				Events: []store.Incoming{incoming(event(fmt.Sprint("e", p), "k", 1), to(epA))}})
			if err != nil {
				d.Errorf("Append: %v", err)
			}
			if done.Answer == nil {
				effects.Add(1)
			}
		})
		d.same(effects.Load(), int64(1), "effects")
		d.same(len(d.eventList(store.EventQuery{})), 1, "events")
	}},
	{"recorders finish every delivery once, in order, while publishers go on", func(d *driver) {
		const total = 120
		// If a store loses a head, the recorders would wait for it for ever.
		ctx, cancel := context.WithTimeout(d.ctx, time.Minute)
		defer cancel()
		version := d.config().Version
		var mu sync.Mutex
		var order []store.Head // in the order of finishing; in each lane that is the order of its heads
		var left atomic.Int64
		left.Store(total)
		together(recorders+2, func(p int) {
			if p < 2 {
				for i := p; i < total; i += 2 {
					e := event(fmt.Sprint("e", i), fmt.Sprint("k", i%raceKeys), 1)
					if _, err := d.Append(ctx, store.Batch{Config: version, Events: []store.Incoming{incoming(e, to(epA))}}); err != nil {
						d.Errorf("Append: %v", err)
						left.Store(0)
					}
				}
				return
			}
			for left.Load() > 0 {
				heads, err := d.Heads(ctx, epA, 10)
				if err != nil {
					d.Errorf("Heads: %v", err)
					left.Store(0)
				}
				for _, h := range heads {
					// From here one recorder runs at a time, so that the order of the slice is the order of the
					// commits.
					mu.Lock()
					done, err := d.Record(ctx, []store.Change{delivered(h.Delivery, h.Attempts, 5)})
					if err != nil {
						d.Errorf("Record: %v", err)
						left.Store(0)
					} else if done[0].Applied {
						order = append(order, h)
						left.Add(-1)
					}
					mu.Unlock()
				}
			}
		})
		d.same(len(order), total, "finished")
		last := map[string]int64{}
		for _, h := range order {
			if h.Position != last[h.Lane]+1 {
				d.Fatalf("lane %s finished position %d after %d", h.Lane, h.Position, last[h.Lane])
			}
			last[h.Lane] = h.Position
		}
		d.sound()
	}},
	{"publishers that give up delay no other and leave no event by halves", publishersGiveUp},
	{"of many changes to one delivery one applies", func(d *driver) {
		n := d.lane("k", 2)
		var applied atomic.Int64
		together(racers, func(p int) {
			done, err := d.Record(d.ctx, []store.Change{delivered(n[0], 0, float64(p))})
			if err != nil {
				d.Errorf("Record: %v", err)
			} else if done[0].Applied {
				applied.Add(1)
			}
		})
		d.same(applied.Load(), int64(1), "applied")
		d.same(len(d.delivery(n[0]).Attempts), 1, "attempts")
	}},
	{"of many writes of one endpoint's revision one succeeds", func(d *driver) {
		var won, lost atomic.Int64
		together(racers, func(int) {
			ep := endpoint(epA, acme)
			ep.Revision = 1
			switch _, err := d.PutEndpoint(d.ctx, everyone, ep, store.With{}); grapnel.CodeOf(err) {
			case "":
				won.Add(1)
			case grapnel.CodeConflict:
				lost.Add(1)
			}
		})
		d.same([]int64{won.Load(), lost.Load()}, []int64{1, racers - 1}, "won and lost")
	}},
}
