package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// stuck returns all blocked lanes of an endpoint.
func (d *driver) stuck(endpoint string) []grapnel.Lane {
	d.Helper()
	lanes, err := d.StuckLanes(d.ctx, everyone, store.LaneQuery{Endpoint: endpoint, Limit: math.MaxInt32, Waiting: mostWaiting})
	d.must(err, "StuckLanes")
	return lanes
}

// mostWaiting is the limit of counts of deliveries behind a head.
const mostWaiting = 7

func laneKeys(lanes []grapnel.Lane) []string {
	return each(lanes, func(l *grapnel.Lane) string { return l.Key })
}

var laneCases = []testCase{
	{"are those whose head has failed or is blocked", func(d *driver) {
		failed, blocked, fresh, over := d.lane("failed", 3), d.lane("blocked", 1), d.lane("fresh", 2), d.lane("over", 2)
		d.publish(incoming(event("loose", "", 5), to(epA)))
		d.change(retried(d.of("loose")[0].Seq, 0, 6, 9)) // no lane
		c := retried(failed[0], 0, 6, 9)
		c.ReasonCode = grapnel.ReasonExhausted
		d.change(c)
		person := by(blocked[0], grapnel.Pending, 7) // without attempt
		person.Blocked = true
		d.change(person)
		d.change(retried(fresh[1], 0, 6, 9)) // behind a head that has not failed
		d.change(retried(over[0], 0, 6, 9))
		d.change(by(over[0], grapnel.Skipped, 8))
		var want []grapnel.Lane
		for i, number := range []int64{failed[0], blocked[0]} {
			head := d.delivery(number)
			head.Attempts = nil
			want = append(want, grapnel.Lane{Endpoint: epA, Key: head.Key, Head: head, Waiting: []int{2, 0}[i]})
		}
		d.same(d.stuck(epA), want, "stuck")
		d.same(d.stuck(epB), []grapnel.Lane{}, "stuck at another endpoint")
		d.same(d.stuck(""), []grapnel.Lane{}, "stuck nowhere")
		d.same(d.stuck("ep_unknown"), []grapnel.Lane{}, "stuck at an unknown endpoint")

		d.change(delivered(fresh[0], 0, 10)) // the one behind it has failed already
		d.change(by(failed[0], grapnel.Skipped, 10))
		free := by(blocked[0], grapnel.Pending, 11)
		free.Due = at(11)
		d.change(free)
		d.same(laneKeys(d.stuck(epA)), []string{"fresh"}, "stuck later")
	}},
	{"come by the numbers of their heads, page by page", func(d *driver) {
		var want []string
		for i := range 7 {
			key := string(rune('a' + i*3%7))
			n := d.lane(key, 1)
			d.change(retried(n[0], 0, 5, float64(100-i)))
			want = append(want, key)
		}
		var seen []string
		q := store.LaneQuery{Endpoint: epA, Limit: 3}
		for range 10 {
			page, err := d.StuckLanes(d.ctx, store.Of(acme), q)
			d.must(err, "StuckLanes")
			if len(page) == 0 {
				break
			}
			seen = append(seen, laneKeys(page)...)
			q.After = page[len(page)-1].Head.Seq
			if len(seen) == 3 {
				d.change(retried(d.lane("new", 1)[0], 0, 5, 6))
			}
		}
		d.same(seen, append(want, "new"), "each once, and what came meanwhile")
		for limit, n := range map[int]int{-1: 0, 0: 0, 1: 1, 8: 8, 9: 8} {
			page, err := d.StuckLanes(d.ctx, everyone, store.LaneQuery{Endpoint: epA, Limit: limit})
			d.must(err, "StuckLanes")
			d.same(len(page), n, fmt.Sprint("limit ", limit))
		}
	}},
	{"are a tenant's own", func(d *driver) {
		e := event("x", "k", 1)
		e.Tenant = bolt
		d.publish(incoming(e, to(epX)), incoming(event("a", "k", 1), to(epA)))
		d.change(retried(d.of("x")[0].Seq, 0, 5, 6))
		d.change(retried(d.of("a")[0].Seq, 0, 5, 6))
		for _, c := range []struct {
			scope    store.Scope
			endpoint string
			want     int
		}{
			{store.Of(bolt), epX, 1}, {store.Of(acme), epX, 0}, {store.Of(acme), epA, 1}, {store.Of(bolt), epA, 0},
			{store.Scope{}, epA, 0}, {store.Of(""), epA, 0},
		} {
			lanes, err := d.StuckLanes(d.ctx, c.scope, store.LaneQuery{Endpoint: c.endpoint, Limit: 10})
			d.must(err, "StuckLanes")
			d.same(len(lanes), c.want, fmt.Sprintf("%v at %s", c.scope, c.endpoint))
		}
	}},
	{"count the deliveries behind a head up to a limit", func(d *driver) {
		n := d.lane("k", 1)
		d.change(retried(n[0], 0, 5, 6))
		target := []store.Target{to(epA)}
		behind := 0
		for _, more := range []int{mostWaiting - 1, 1, 1} {
			var batch []store.Incoming
			for range more {
				behind++
				batch = append(batch, store.Incoming{Event: event(fmt.Sprint("e", behind), "k", 1), Targets: target})
			}
			d.publish(batch...)
			d.same(d.stuck(epA)[0].Waiting, min(behind, mostWaiting), "waiting")
		}
	}},
	{"show a head as lists do", func(d *driver) {
		n := d.lane("k", 1)
		d.change(retried(n[0], 0, 5, 6))
		blocked := retried(n[0], 1, 6, 0)
		blocked.Blocked, blocked.Due, blocked.ReasonCode = true, time.Time{}, grapnel.ReasonExhausted
		d.change(blocked)
		d.same(d.stuck(epA)[0].Head, d.list(store.DeliveryQuery{})[0], "head")
	}},
}
