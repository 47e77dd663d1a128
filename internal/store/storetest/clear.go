package storetest

import (
	"fmt"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// tidy calls Clear with times in seconds after the start, and checks its count.
func (d *driver) tidy(audit, replays float64, limit, want int) {
	d.Helper()
	n, err := d.Clear(d.ctx, store.Clearing{Audit: at(audit), Replays: at(replays)}, limit)
	d.must(err, "Clear")
	d.same(n, want, "removed")
	d.balanced()
}

// ended finishes a replay.
func (d *driver) ended(r grapnel.Replay, status grapnel.ReplayStatus, when float64) {
	d.Helper()
	r = d.replayed(r.ID)
	r.Status, r.FinishedAt = status, at(when)
	d.order(r)
}

var clearCases = []testCase{
	{"purges events behind one that a clock years ahead accepted", func(d *driver) {
		ahead := make([]store.Incoming, 512)
		for i := range ahead {
			ahead[i] = incoming(event(fmt.Sprint("ahead_", i), "", 1e9))
		}
		d.publish(append(ahead, incoming(event("e", "", 0), to(epA)))...)
		d.change(delivered(d.of("e")[0].Seq, 0, 5))
		d.purge(1000, 10, 100, 1)
	}},
	{"clears entries from before a time, and never the newest", func(d *driver) {
		d.tidy(100, 100, 10, 0)
		for i, word := range []string{"a", "b", "c", "d"} {
			d.note(entry(acme, epA, grapnel.VerbProbe, float64(10*i)), word)
		}
		d.tidy(0, 100, 10, 0)
		d.tidy(20, 0, 10, 2)
		d.same(reasons(d.audit(store.AuditQuery{})), []string{"d", "c"}, "after what came before the third")
		d.tidy(1000, 0, 10, 1)
		newest := d.audit(store.AuditQuery{})
		d.same(reasons(newest), []string{"d"}, "the newest stays")
		d.note(entry(acme, epA, grapnel.VerbProbe, 5), "a")
		d.note(entry(acme, epA, grapnel.VerbProbe, 10), "b") // it was stored before, and has been cleared
		list := d.audit(store.AuditQuery{})
		d.same(reasons(list), []string{"b", "a", "d"}, "what came later, though it says that it is older")
		d.same(list[2].Seq, newest[0].Seq, "number")
		d.same(reasons(d.audit(store.AuditQuery{Before: list[1].Seq})), []string{"d"}, "below a number")
		d.tidy(20, 0, 1, 1)
		d.same(len(d.audit(store.AuditQuery{})), 2, "entries")
	}},
	{"clears replays that finished long ago, with their items", func(d *driver) {
		n := d.dead("k", 5)
		one, two, three := d.order(replayOf("rpl_1", 30)), d.order(replayOf("rpl_2", 31)), d.order(replayOf("rpl_3", 32))
		made := d.step(one, n[0], n[1])
		other := d.step(two, n[2])
		d.step(three, n[3])
		d.ended(one, grapnel.ReplayCancelled, 40)
		d.ended(two, grapnel.ReplayCompleted, 50)
		d.tidy(0, 40, 10, 0)
		d.tidy(0, 45, 10, 3) // two deliveries and the replay
		_, err := d.Replay(d.ctx, everyone, "rpl_1")
		d.code(err, grapnel.CodeNotFound, "cleared")
		_, err = d.ReplayItems(d.ctx, everyone, "rpl_1", 0, 10)
		d.code(err, grapnel.CodeNotFound, "what it lists")
		d.same(len(d.replays(store.ReplayQuery{})), 2, "replays")
		d.same(len(d.items("rpl_2")), 1, "what another lists")
		// Its pending delivery continues, and its result is noted on the original.
		d.change(by(made[0], grapnel.Delivered, 60))
		d.same(d.delivery(n[0]).Mark.ReplayResult, grapnel.Delivered, "noted on the original")
		d.same(d.delivery(n[0]).Mark.ReplayedBy, "rpl_1", "by")
		// Another replay has its own row ids.
		four := d.order(replayOf("rpl_4", 70))
		d.same(len(d.items("rpl_4")), 0, "what a new one lists")
		d.change(by(made[1], grapnel.Failed, 71))
		d.same(d.replayed("rpl_4"), four, "counts")
		d.change(by(other[0], grapnel.Delivered, 72))
		d.same(d.replayed("rpl_2").Delivered, 1, "counts of one that is there")
		d.tidy(0, 1000, 10, 2)
		d.same(len(d.replays(store.ReplayQuery{})), 2, "those that are not over stay")
	}},
	{"clears replays behind one that a clock years ahead created", func(d *driver) {
		d.dead("k", 1)
		d.ended(d.order(replayOf("rpl_ahead", 1e9)), grapnel.ReplayCancelled, 1e9+1)
		d.ended(d.order(replayOf("rpl_1", 30)), grapnel.ReplayCancelled, 40)
		d.tidy(0, 1000, 10, 1)
	}},
	{"clears no more than the limit", func(d *driver) {
		n := d.dead("k", 5)
		r := d.order(replayOf("rpl_1", 30))
		d.note(entry(acme, epA, grapnel.VerbProbe, 0), "a")
		d.note(entry(acme, epA, grapnel.VerbProbe, 0), "b")
		made := d.step(r, n...)
		d.ended(r, grapnel.ReplayCancelled, 40)
		d.tidy(100, 100, 0, 0)
		d.tidy(100, 100, 3, 3)
		d.same(len(d.audit(store.AuditQuery{}))+len(d.items("rpl_1"))-5, -1, "an entry and two deliveries")
		d.change(by(made[0], grapnel.Delivered, 60)) // it is not listed any more, so it is not counted
		d.same(d.replayed("rpl_1").Done, 0, "done")
		d.tidy(100, 100, 3, 3)
		d.same(len(d.replays(store.ReplayQuery{})), 1, "it still is there")
		d.tidy(100, 100, 3, 1)
		d.same(len(d.replays(store.ReplayQuery{})), 0, "replays")
		d.tidy(100, 100, 3, 0)
	}},
}
