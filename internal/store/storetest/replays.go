package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

var replayCases = []testCase{
	{"stores a replay, and of a change only the fields that may change", func(d *driver) {
		n := d.dead("k", 2)
		r := replayOf("rpl_1", 30, grapnel.Failed)
		r.Cursor, r.Started, r.Done, r.Delivered, r.Failed, r.Row, r.UpTo = 1, 2, 3, 4, 5, 6, 7
		put, err := d.PutReplay(d.ctx, store.Of(acme), r, store.With{Audit: entry(acme, epA, grapnel.VerbRetry, 30)})
		d.must(err, "PutReplay")
		version := d.config().Version
		d.same(put, store.Put{Revision: 1, Version: version}, "put: no new configuration")
		want := replayOf("rpl_1", 30, grapnel.Failed)
		want.Revision, want.UpTo = 1, n[1]
		d.same(d.replayed("rpl_1"), want, "made")
		d.same(len(d.audit(store.AuditQuery{})), 1, "entries")

		d.step(want, n[0])
		other := replayOf("rpl_1", 99, grapnel.Skipped)
		other.Endpoint, other.Total, other.Actor, other.Canary = epB, 99, "somebody else", true
		other.Status, other.Reason, other.Rate, other.UpdatedAt, other.Revision = grapnel.ReplayPaused, "wait", 9, at(31), 1
		want.Status, want.Reason, want.Rate, want.UpdatedAt, want.Revision = grapnel.ReplayPaused, "wait", 9, at(31), 2
		want.Cursor, want.Started = n[0], 1
		d.same(d.order(other), want, "changed")
		d.same(d.config().Version, version, "version")
	}},
	{"refuses another revision, a finished replay, and other tenants", func(d *driver) {
		r := d.order(replayOf("rpl_1", 1))
		try := func(scope store.Scope, r grapnel.Replay, want grapnel.Code, what string) {
			d.Helper()
			before := d.replays(store.ReplayQuery{})
			_, err := d.PutReplay(d.ctx, scope, r, store.With{Audit: entry(acme, epA, grapnel.VerbRetry, 30)})
			d.code(err, want, what)
			d.same(d.replays(store.ReplayQuery{}), before, "replays")
			d.same(len(d.audit(store.AuditQuery{})), 0, "entries")
		}
		try(everyone, replayOf("rpl_1", 2), grapnel.CodeConflict, "made twice")
		old := r
		old.Revision = 7
		try(everyone, old, grapnel.CodeConflict, "another revision")
		old.ID = "rpl_2"
		try(everyone, old, grapnel.CodeNotFound, "absent")
		try(store.Of(bolt), r, grapnel.CodeNotFound, "another tenant")
		try(store.Scope{}, r, grapnel.CodeNotFound, "zero scope")
		moved := r
		moved.Tenant = bolt
		try(everyone, moved, grapnel.CodeNotFound, "a replay keeps its tenant")
		_, err := d.Replay(d.ctx, store.Of(bolt), "rpl_1")
		d.code(err, grapnel.CodeNotFound, "read by another tenant")
		_, err = d.ReplayItems(d.ctx, store.Of(bolt), "rpl_1", 0, 10)
		d.code(err, grapnel.CodeNotFound, "items for another tenant")
		r.Status, r.FinishedAt = grapnel.ReplayCancelled, at(5)
		r = d.order(r)
		r.Status = grapnel.ReplayRunning
		try(everyone, r, grapnel.CodeConflict, "over")
	}},
	{"answers a repeated order, and commits events with it", func(d *driver) {
		told := store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(event("news", "", 1), to(epB))}}
		with := store.With{Once: once("key", 1, 0), Operational: &told}
		put, err := d.PutReplay(d.ctx, everyone, replayOf("rpl_1", 1), with)
		d.must(err, "PutReplay")
		d.same(len(put.Operational.Heads), 1, "told")
		put, err = d.PutReplay(d.ctx, everyone, replayOf("rpl_2", 1), with)
		d.must(err, "PutReplay")
		if put.Answer == nil || len(d.replays(store.ReplayQuery{})) != 1 {
			d.Fatalf("the order was carried out twice: %+v", put)
		}
		told.Config--
		_, err = d.PutReplay(d.ctx, everyone, replayOf("rpl_3", 1), store.With{Operational: &told})
		d.same(code(err), grapnel.Code("stale"), "code")
		d.same(len(d.replays(store.ReplayQuery{})), 1, "replays")
	}},
	{"finds candidates a few at a time", func(d *driver) {
		n := d.dead("k", 5)
		m := d.dead("m", 2)
		d.change(delivered(d.lane("l", 1)[0], 0, 23.5))
		d.lane("waits", 1)
		q := store.CandidateQuery{Endpoint: epA, OverBy: at(23), Limit: 2, Selection: grapnel.Selection{Status: []grapnel.Status{grapnel.Failed}}}
		found := d.candidates(everyone, q)
		d.same(seqs(found), append(slices.Clone(n[:4]), m...), "over by then")
		d.same(found[0], d.list(store.DeliveryQuery{Key: "k"})[4], "shown as in lists")
		for _, c := range []struct {
			what string
			sel  grapnel.Selection
			want []int64
		}{
			{"failed unless it says otherwise", grapnel.Selection{}, append(slices.Clone(n), m...)},
			{"key", grapnel.Selection{Keys: []string{"m", "x"}}, m},
			{"time", grapnel.Selection{From: at(1), To: at(3)}, []int64{n[1], n[2], m[1]}},
			{"type", grapnel.Selection{Types: []string{"user.*"}}, nil},
			{"these and nothing else", grapnel.Selection{Deliveries: []int64{m[0], n[0], n[0], 1 << 40}, Types: []string{"none"}},
				[]int64{n[0], m[0]}},
			{"several statuses", grapnel.Selection{Status: []grapnel.Status{grapnel.Delivered, grapnel.Failed}, Keys: []string{"l", "m"}},
				append(slices.Clone(m), d.of("l_1")[0].Seq)},
		} {
			q.Selection, q.OverBy = c.sel, at(500)
			d.same(seqs(d.candidates(everyone, q)), c.want, c.what)
			d.same(seqs(d.candidates(store.Of(bolt), q)), []int64(nil), c.what+", for another tenant")
		}
		q.Selection, q.UpTo, q.After = grapnel.Selection{}, n[3], n[0]
		d.same(seqs(d.candidates(everyone, q)), n[1:4], "after and up to")
		q.Endpoint = "ep_none"
		d.same(seqs(d.candidates(everyone, q)), []int64(nil), "no such endpoint")
	}},
	{"makes each once when steps race, and counts them all", func(d *driver) {
		var n []int64
		for i := range 4 {
			n = append(n, d.dead(fmt.Sprint("k", i), 4)...)
		}
		r := d.order(replayOf("rpl_1", 60, grapnel.Failed))
		runner := func() {
			for {
				r, err := d.Replay(d.ctx, everyone, "rpl_1")
				if err != nil {
					d.Errorf("Replay: %v", err)
					return
				}
				at, _ := slices.BinarySearch(n, r.Cursor+1)
				if at == len(n) {
					return
				}
				done, err := d.Advance(d.ctx, stepOver(r, n[at:min(at+3, len(n))]...))
				if grapnel.CodeOf(err) == grapnel.CodeConflict {
					continue
				}
				if err != nil {
					d.Errorf("Advance: %v", err)
					return
				}
				for _, one := range done {
					if _, err := d.Record(d.ctx, []store.Change{delivered(one.Delivery, 0, 110)}); err != nil {
						d.Errorf("Record: %v", err)
					}
				}
			}
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(runner)
		}
		all.Wait()
		r = d.replayed("rpl_1")
		d.same([]int{r.Started, r.Done, r.Delivered}, []int{16, 16, 16}, "counts")
		d.same(seqsOf(d.items("rpl_1")), n, "each once, in order")
		d.sound()
	}},
	{"continues after each restart at its cursor", func(d *driver) {
		n := d.dead("k", 9)
		d.order(replayOf("rpl_1", 60, grapnel.Failed))
		for i := range n {
			r := d.replayed("rpl_1")
			s := stepOver(r, n[i])
			done, err := d.Advance(d.ctx, s)
			d.must(err, "Advance")
			if i%3 == 0 {
				d.reopen()
				_, err := d.Advance(d.ctx, s)
				d.code(err, grapnel.CodeConflict, "the step whose answer was lost")
			}
			c := by(done[0].Delivery, grapnel.Failed, 110)
			if i%2 == 0 {
				c = delivered(done[0].Delivery, 0, 110)
			}
			d.change(c)
			if i%4 == 0 {
				d.reopen()
				d.same(d.record(c)[0].Applied, false, "the outcome whose answer was lost")
			}
		}
		r := d.replayed("rpl_1")
		d.same([]int{r.Started, r.Done, r.Delivered, r.Failed, r.Row}, []int{9, 9, 5, 4, 0}, "counts")
		d.same(seqsOf(d.items("rpl_1")), n, "each once, in order")
		for i, number := range n {
			want := grapnel.Failed
			if i%2 == 0 {
				want = grapnel.Delivered
			}
			d.same(d.delivery(number).Mark.ReplayResult, want, "result")
		}
	}},
	{"reports purged originals, and passes over them", func(d *driver) {
		n := d.dead("k", 4)
		r := d.order(replayOf("rpl_1", 60, grapnel.Failed))
		made := d.step(r, n[0], n[1])
		d.change(delivered(made[0], 0, 110))
		r = d.replayed("rpl_1")
		want := d.items("rpl_1")
		d.purge(1000, 880, 100, 5) // the originals and the first copy; the second is pending
		_, err := d.Delivery(d.ctx, everyone, n[0])
		d.code(err, grapnel.CodeNotFound, "an original")
		d.same(d.items("rpl_1"), want, "items")
		again := d.step(r, n[2], n[3])
		d.same(again, []int64{0, 0}, "nothing is made of what is gone")
		now := d.replayed("rpl_1")
		d.same([]any{now.Cursor, now.Started, now.Done}, []any{n[3], 2, 1}, "where it is")
		d.change(delivered(made[1], 0, 2000))
		d.same(d.replayed("rpl_1").Delivered, 2, "delivered")
	}},
	{"gives copies", func(d *driver) {
		r := replayOf("rpl_1", 60, grapnel.Failed)
		r.Selection.From, r.Selection.Keys = at(1).Add(time.Nanosecond), []string{"k"}
		d.order(r)
		r.Selection.Keys[0] = "other"
		got := d.replayed("rpl_1")
		d.same(got.Selection.Keys, []string{"k"}, "what went in")
		d.same(got.Selection.From, at(1), "in microseconds")
		got.Selection.Keys[0] = "other"
		d.same(d.replayed("rpl_1").Selection.Keys, []string{"k"}, "what came out")
	}},
}

func seqsOf(items []grapnel.ReplayItem) []int64 {
	return each(items, func(i *grapnel.ReplayItem) int64 { return i.Original })
}
