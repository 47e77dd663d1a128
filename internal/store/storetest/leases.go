package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// want asks for a lease of ten seconds.
func want(token, consumer string) store.Want {
	return store.Want{Token: token, Consumer: consumer, For: 10 * time.Second}
}

func (d *driver) claim(queue string, when float64, wants ...store.Want) store.Claimed {
	d.Helper()
	done, err := d.Claim(d.ctx, store.Claim{Queue: queue, Wants: wants, Now: at(when)})
	d.must(err, "Claim")
	return done
}

// claimed fails unless exactly these deliveries were leased and these leases had expired, in this
// order.
func (d *driver) claimed(done store.Claimed, leased, over []int64) {
	d.Helper()
	d.same(deliveriesOf(done.Leases), leased, "leased")
	d.same(deliveriesOf(done.Over), over, "over")
}

func deliveriesOf(leases []grapnel.Lease) []int64 {
	return each(leases, func(l *grapnel.Lease) int64 { return l.Delivery })
}

// settled is a change by a lease.
func settled(c store.Change, token string) store.Change {
	c.Lease = &store.Settlement{Token: token}
	return c
}

// ranOut is a change that records a lease's expiry.
func ranOut(c store.Change, token string) store.Change {
	c.Lease = &store.Settlement{Token: token, Over: true}
	return c
}

// refused fails if a change applies, or has any visible effect.
func (d *driver) refused(c store.Change, what string) {
	d.Helper()
	before, leases := d.delivery(c.Delivery), d.leases(epA)
	if done := d.record(c)[0]; done.Applied {
		d.Fatalf("%s: the change applied", what)
	}
	d.same(d.delivery(c.Delivery), before, what)
	d.same(d.leases(epA), leases, what)
}

// queue publishes n events without a key to endpoint a, one per second from second 0.
func (d *driver) queue(n int) (numbers []int64) {
	d.Helper()
	for i := range n {
		id := fmt.Sprint("loose_", i)
		d.publish(incoming(event(id, "", float64(i)), to(epA)))
		numbers = append(numbers, d.of(id)[0].Seq)
	}
	return numbers
}

var leaseCases = []testCase{
	{"leases due deliveries, the earliest first, one for each want", func(d *driver) {
		n := d.queue(4)
		d.publish(incoming(event("elsewhere", "", 0), to(epB)))
		manual := by(n[0], grapnel.Pending, 3)
		manual.Due, manual.Trigger = at(2.5), grapnel.TriggerManual
		d.change(manual)
		before := d.delivery(n[1])
		done := d.claim(epA, 2.5, want("lse_1", "c"), want("lse_2", ""), want("lse_3", "c"), want("lse_4", "c"))
		lease := func(token, consumer string, delivery int64, scheduled float64) grapnel.Lease {
			x := d.delivery(delivery)
			return grapnel.Lease{Token: token, Queue: epA, Consumer: consumer, Delivery: delivery, CreatedAt: x.CreatedAt, Anchor: x.Waiting.Anchor,
				Event: x.EventSeq, Number: 1, Trigger: grapnel.TriggerSchedule, Scheduled: at(scheduled), GrantedAt: at(2.5), Until: at(12.5)}
		}
		last := lease("lse_3", "c", n[0], 2.5)
		last.Trigger = grapnel.TriggerManual
		leases := []grapnel.Lease{lease("lse_1", "c", n[1], 1), lease("lse_2", "", n[2], 2), last}
		d.same(done, store.Claimed{Leases: leases, Next: at(3)}, "claimed")
		before.Waiting.Due, before.NextAttemptAt = at(12.5), at(12.5)
		d.same(d.delivery(n[1]), before, "nothing but its due time")
		d.leads(epA, n[3], n[0], n[1], n[2])
		slices.SortFunc(leases, func(a, b grapnel.Lease) int { return int(a.Delivery - b.Delivery) })
		d.same(d.leases(epA), leases, "leases")
		d.same(len(d.leases(epB)), 0, "leases elsewhere")
		first, err := d.LeaseList(d.ctx, epA, 1)
		d.must(err, "LeaseList")
		d.same(first, leases[:1], "first")

		d.same(d.claim(epA, 2.9, want("lse_5", "c")), store.Claimed{Next: at(3)}, "nothing is due")
		d.same(d.claim(epA, 3), store.Claimed{Next: at(3)}, "nothing is asked for")
		d.claimed(d.claim(epA, 3, want("lse_6", "c")), n[3:], nil)
		d.same(d.claim(epA, 4, want("lse_7", "c")), store.Claimed{Next: at(12.5)}, "everything is leased")
		d.same(d.claim("que_unknown", 4, want("lse_8", "c")), store.Claimed{}, "of nothing")
		d.sound()
	}},
	{"skips a consumer at its limit of leases", func(d *driver) {
		n := d.queue(6)
		most := func(token, consumer string, m int) store.Want {
			w := want(token, consumer)
			w.Most = m
			return w
		}
		done := d.claim(epA, 10, most("lse_1", "c", 2), most("lse_2", "c", 2), most("lse_3", "c", 2), most("lse_4", "d", 1),
			most("lse_5", "c", 0))
		d.claimed(done, n[:4], nil)
		d.same([]string{done.Leases[0].Token, done.Leases[1].Token, done.Leases[2].Token, done.Leases[3].Token},
			[]string{"lse_1", "lse_2", "lse_4", "lse_5"}, "tokens")
		done = d.claim(epA, 11, most("lse_6", "c", 3), most("lse_7", "d", 1))
		d.same(done, store.Claimed{Next: at(4)}, "what is due and was passed over")
		d.change(settled(delivered(n[0], 0, 12), "lse_1"))
		d.change(settled(retried(n[2], 0, 12, 99), "lse_4"))
		d.claimed(d.claim(epA, 13, most("lse_8", "c", 3), most("lse_9", "c", 3), most("lse_10", "d", 1)), n[4:], nil)
		done = d.claim(epA, 50, most("lse_11", "d", 1))
		d.claimed(done, nil, []int64{n[1], n[3], n[4], n[5]}) // d's has expired, and is held until the expiry is recorded
		d.change(ranOut(retried(n[5], 0, 50, 50), "lse_10"))
		d.claimed(d.claim(epA, 51, most("lse_12", "d", 1)), []int64{n[5]}, []int64{n[1], n[3], n[4]})
		d.publish(incoming(event("x", "", 0), store.Target{Endpoint: epB}))
		d.claimed(d.claim(epB, 51, most("lse_13", "d", 1)), []int64{d.of("x")[0].Seq}, nil) // another queue
		d.end(epA, ending(52), 10, 5)
		d.claimed(d.claim(epB, 53, most("lse_14", "d", 1)), nil, nil)
	}},
	{"leases heads alone, so the order of a key is kept", func(d *driver) {
		k, b := d.lane("k", 3), d.lane("b", 2)
		blocked := retried(b[0], 0, 3, 0)
		blocked.Blocked = true
		d.change(blocked)
		d.claimed(d.claim(epA, 5, want("lse_1", ""), want("lse_2", "")), k[:1], nil)
		d.claimed(d.claim(epA, 6, want("lse_3", "")), nil, nil)
		done := d.change(settled(delivered(k[0], 0, 7), "lse_1"))
		d.same(done.Next.Delivery, k[1], "next")
		d.claimed(d.claim(epA, 7, want("lse_4", "")), k[1:2], nil)
		d.change(settled(retried(k[1], 0, 8, 20), "lse_4"))
		d.claimed(d.claim(epA, 19, want("lse_5", "")), nil, nil) // later deliveries of the key are behind it
		d.claimed(d.claim(epA, 20, want("lse_6", "")), k[1:2], nil)
	}},
	{"is stored to the microsecond", func(d *driver) {
		n := d.queue(1)
		moment := at(1).Add(1700 * time.Nanosecond)
		done, err := d.Claim(d.ctx, store.Claim{Queue: epA, Now: moment, Wants: []store.Want{{Token: "lse_1", For: time.Second + 400}}})
		d.must(err, "Claim")
		d.same([]time.Time{done.Leases[0].GrantedAt, done.Leases[0].Until}, []time.Time{at(1).Add(time.Microsecond),
			at(2).Add(2 * time.Microsecond)}, "granted and until")
		d.same(d.leases(epA), done.Leases, "leases")
		l, err := d.Extend(d.ctx, "lse_1", moment, time.Second+100)
		d.must(err, "Extend")
		end := at(2).Add(time.Microsecond)
		d.same(l.Until, end, "until")
		_, err = d.Extend(d.ctx, "lse_1", end, time.Second)
		d.code(err, grapnel.CodeConflict, "over")
		done, err = d.Claim(d.ctx, store.Claim{Queue: epA, Now: end})
		d.must(err, "Claim")
		d.claimed(done, nil, n)
	}},
	{"counts a queue's deliveries", func(d *driver) {
		d.same(d.counts(epA, 0), grapnel.QueueCounts{}, "nothing")
		d.same(d.counts("que_unknown", 0), grapnel.QueueCounts{}, "nothing")
		n, k, b := d.queue(5), d.lane("k", 3), d.lane("b", 2)
		d.publish(incoming(event("elsewhere", "", 0), to(epB)))
		d.claim(epA, 0, want("lse_1", ""), want("lse_2", "")) // n[0] and k[0]
		blocked := retried(b[0], 0, 3, 0)
		blocked.Blocked = true
		d.change(blocked)
		d.change(retried(n[1], 0, 5, 50))
		d.same(d.counts(epA, 10), grapnel.QueueCounts{Ready: 3, Leased: 2, Delayed: 1, Waiting: 3, Blocked: 1, Oldest: at(0)}, "counts")
		d.same(d.counts(epA, 3), grapnel.QueueCounts{Ready: 2, Leased: 2, Delayed: 2, Waiting: 3, Blocked: 1, Oldest: at(0)}, "earlier")
		for _, number := range []int64{n[0], n[2]} {
			dead := by(number, grapnel.Failed, 20)
			d.change(dead)
		}
		d.change(settled(delivered(k[0], 0, 9), "lse_2"))
		d.same(d.counts(epA, 50), grapnel.QueueCounts{Ready: 4, Waiting: 2, Blocked: 1, Dead: 2, Oldest: at(1)}, "later")
		d.annotate(n[2], "", "known", 60)
		d.annotate(n[0], "looked at", "", 60)
		d.same(d.counts(epA, 50).Dead, int64(1), "dead letters that are not discarded")
		d.end(epA, ending(70), 100, 7)
		d.same(d.counts(epA, 80), grapnel.QueueCounts{Dead: 1}, "in the end")
		again := d.redeliver(n[0], 90).Delivery
		d.same(d.counts(epA, 90), grapnel.QueueCounts{Ready: 1, Dead: 1, Oldest: at(90)}, "while it is delivered again")
		d.change(delivered(again, 0, 91))
		d.same(d.counts(epA, 100), grapnel.QueueCounts{}, "once it has been delivered again")
	}},
	{"has ended if a clock that was ahead granted it, and can be settled until that is recorded", func(d *driver) {
		n := d.queue(3)
		const days = 2 * 24 * 3600
		d.claimed(d.claim(epA, days, want("lse_1", "c"), want("lse_2", "c")), n[:2], nil)
		d.claimed(d.claim(epA, 10, want("lse_3", "c")), n[2:], nil)
		d.change(settled(delivered(n[0], 0, 11), "lse_1"))
		d.refused(ranOut(retried(n[2], 0, 11, 50), "lse_3"), "before its end")
		d.change(ranOut(retried(n[1], 0, 11, 50), "lse_2"))
		d.claimed(d.claim(epA, 60, want("lse_4", "c")), n[1:2], n[2:])
	}},
	{"is there after a restart", func(d *driver) {
		n := d.lane("k", 2)
		loose := d.queue(3)
		most := want("lse_2", "c")
		most.Most = 2
		d.claim(epA, 5, want("lse_1", "c"), most)
		_, err := d.Extend(d.ctx, "lse_2", at(6), time.Minute)
		d.must(err, "Extend")
		before := d.everything()
		d.same(len(before.Leases[epA]), 2, "leases")
		for range 2 {
			d.reopen()
			d.same(d.everything(), before, "everything")
		}
		most.Token = "lse_3"
		d.claimed(d.claim(epA, 7, most), nil, nil)
		d.claimed(d.claim(epA, 15, want("lse_4", "c")), loose[1:2], n[:1])
		d.change(ranOut(retried(n[0], 0, 15, 99), "lse_1"))
		d.change(settled(delivered(loose[0], 0, 65), "lse_2"))
		d.reopen()
		d.same(deliveriesOf(d.leases(epA)), loose[1:2], "leases")
		d.refused(settled(delivered(n[0], 1, 16), "lse_1"), "a token that was used")
	}},
	{"is given to one of many consumers, and counts once", func(d *driver) {
		const total, consumers = 100, 8
		var events []store.Incoming
		for i := range total {
			events = append(events, incoming(event(fmt.Sprint("e", i), fmt.Sprint("k", i%20), 0), to(epA)))
		}
		d.publish(events...)
		var mu sync.Mutex
		given := map[int64]int{}
		var left atomic.Int64
		left.Store(total)
		together(consumers, func(p int) {
			for i := 0; left.Load() > 0; i++ {
				c := store.Claim{Queue: epA, Now: at(10)}
				for j := range 1 + p%3 {
					c.Wants = append(c.Wants, want(fmt.Sprintf("lse_%d_%d_%d", p, i, j), fmt.Sprint("c", p)))
				}
				done, err := d.Claim(d.ctx, c)
				if err != nil || len(done.Over) > 0 {
					d.Errorf("Claim: %+v, %v", done, err)
					left.Store(0)
				}
				for _, l := range done.Leases {
					mu.Lock()
					given[l.Delivery]++
					mu.Unlock()
					change := settled(delivered(l.Delivery, l.Number-1, 10), l.Token)
					is, err := d.Record(d.ctx, []store.Change{change})
					if err != nil || !is[0].Applied {
						d.Errorf("Record: %+v, %v", is, err)
						left.Store(0)
					}
					left.Add(-1)
				}
			}
		})
		d.same(len(given), total, "given")
		for number, times := range given {
			if x := d.delivery(number); times != 1 || x.AttemptsMade != 1 {
				d.Fatalf("delivery %d was given %d times: %+v", number, times, x)
			}
		}
		d.sound()
	}},
}
