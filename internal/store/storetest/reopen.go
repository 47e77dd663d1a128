package storetest

import (
	"math"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// everything is the complete visible state of a store.
type everything struct {
	Config     store.Config
	Events     []grapnel.Event
	Deliveries []grapnel.Delivery // with attempts
	Heads      map[string][]store.Head
	Waiting    map[string]int
	Counts     map[string]map[grapnel.Status]int64
	Standings  []store.Standing
	Audit      []grapnel.AuditEntry
	Lanes      map[string][]grapnel.Lane // the blocked ones
	Totals     []grapnel.Bucket
	Types      []grapnel.Bucket // without duplicates
	Replays    []grapnel.Replay
	Items      map[string][]grapnel.ReplayItem
	Leases     map[string][]grapnel.Lease
	Queues     map[string]grapnel.QueueCounts
}

func (d *driver) everything() everything {
	d.Helper()
	all := everything{Config: d.config(), Events: d.eventList(store.EventQuery{}), Heads: map[string][]store.Head{}, Waiting: map[string]int{},
		Standings: d.standings(), Audit: d.audit(store.AuditQuery{}), Lanes: map[string][]grapnel.Lane{},
		Totals: d.allTotals(), Types: d.byType(),
		Leases: map[string][]grapnel.Lease{}, Queues: map[string]grapnel.QueueCounts{}}
	d.balanced()
	for _, x := range d.list(store.DeliveryQuery{}) {
		all.Deliveries = append(all.Deliveries, d.delivery(x.Seq))
		all.Heads[x.EndpointID], all.Lanes[x.EndpointID] = d.heads(x.EndpointID), d.stuck(x.EndpointID)
		n, err := d.Waiting(d.ctx, x.EndpointID, math.MaxInt32)
		d.must(err, "Waiting")
		all.Waiting[x.EndpointID] = n
		all.Leases[x.EndpointID], all.Queues[x.EndpointID] = d.leases(x.EndpointID), d.counts(x.EndpointID, 100)
	}
	counts, err := d.Counts(d.ctx, everyone)
	d.must(err, "Counts")
	all.Counts = counts
	all.Replays, all.Items = d.replays(store.ReplayQuery{}), map[string][]grapnel.ReplayItem{}
	for _, r := range all.Replays {
		all.Items[r.ID] = d.items(r.ID)
	}
	return all
}

var reopenCases = []testCase{
	{"finds everything as it was", func(d *driver) {
		d.stock()
		n := d.lane("q", 4)
		wide := retried(n[0], 0, 4, 9)
		wide.EndpointWide, wide.Standing, wide.Audit = true, standing(epA, 3), entry(acme, epA, grapnel.VerbDisable, 4)
		d.change(wide)
		d.change(by(n[2], grapnel.Skipped, 8))
		blocked := retried(d.lane("blocked", 2)[0], 0, 10, 0)
		blocked.Blocked = true
		d.change(blocked)
		d.change(delivered(d.of("e1")[1].Seq, 0, 11))
		d.end(epX, ending(12), 10, 1)
		again := d.redeliver(n[2], 13).Delivery
		r := d.order(replayOf("rpl_1", 13, grapnel.Skipped))
		d.step(r, n[2])
		_, err := d.PutPolicy(d.ctx, everyone, named("pol_1", acme, "n"), store.With{})
		d.must(err, "PutPolicy")
		_, err = d.PutKey(d.ctx, everyone, apiKey("key_1", acme), store.With{})
		d.must(err, "PutKey")
		_, err = d.PutAccess(d.ctx, everyone, accessRecord("record_1", acme), store.With{})
		d.must(err, "PutAccess")
		d.must(d.remember(once("key", 1, 0)), "Remember")
		before, answer := d.everything(), d.recall("key", 1)
		for range 2 {
			d.reopen()
			d.same(d.everything(), before, "everything")
			d.same(d.recall("key", 1), answer, "answer")
		}

		d.makeDue(epA, store.MakingDue{Before: at(5), At: at(7)}, 10, 1)
		d.same(d.delivery(n[0]).Waiting.Due, at(7), "due, once its endpoint is back")
		old := by(n[0], grapnel.Pending, 14)
		old.Due, old.Standing, old.Audit = at(7), standing(epA, 2), entry(acme, epA, grapnel.VerbRetry, 14)
		d.change(old)
		d.same(d.standings(), before.Standings, "an older standing")
		list := d.audit(store.AuditQuery{})
		d.same(list[1:], before.Audit, "entries of before")
		if list[0].Seq <= list[1].Seq {
			d.Fatalf("entries are numbered anew: %+v", list)
		}

		d.same(d.publish(incoming(event("q_1", "q", 50), to(epA))).Events[0].Conflict, false, "conflict")
		d.same(len(d.of("q_1")), 1, "a duplicate stays one")
		d.publish(incoming(event("q_new", "q", 50), to(epA)))
		fresh := d.of("q_new")[0]
		d.same(fresh.Position, int64(7), "positions go on")
		if fresh.Seq <= again || fresh.EventSeq <= before.Events[0].Seq {
			d.Fatalf("numbers start again: %+v", fresh)
		}
		d.same(d.change(delivered(n[0], 1, 60)).Next.Delivery, n[1], "next")
		version := d.config().Version
		ep := endpoint(epB, acme)
		ep.Revision = 1
		d.put(ep)
		d.grown(version, "put")
	}},
	{"gives no number or position twice", func(d *driver) {
		n := d.lane("k", 1)
		d.change(delivered(n[0], 0, 9))
		d.reopen()
		d.publish(incoming(event("next", "k", 10), to(epA)))
		x := d.of("next")[0]
		d.same(x.Position, int64(2), "position in a lane that was empty")
		if x.Seq <= n[0] {
			d.Fatalf("number %d after %d", x.Seq, n[0])
		}
	}},
}
