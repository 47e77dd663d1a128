package storetest

import (
	"errors"
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// news is a Tell with one event of acme for its other endpoint.
func (d *driver) news(id string, when float64) *store.Batch {
	d.Helper()
	return &store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(event(id, "", when), to(epB))}}
}

// absent fails if an event with this id is stored.
func (d *driver) absent(id string) {
	d.Helper()
	_, _, err := d.Event(d.ctx, everyone, "", id)
	d.code(err, grapnel.CodeNotFound, "Event")
}

func (d *driver) stale(err error, what string) {
	d.Helper()
	if !errors.Is(err, store.ErrStale) {
		d.Fatalf("%s: got %v, want ErrStale", what, err)
	}
}

var tellCases = []testCase{
	{"commits events with the change that they are about", func(d *driver) {
		n := d.lane("k", 2)
		c := delivered(n[0], 0, 10)
		slow := to(epB)
		slow.Delay, slow.Trigger = time.Minute, grapnel.TriggerTest
		e := event("news", "subject", 9)
		e.Metadata = map[string]string{"m": "1"}
		c.Operational = &store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(e, slow), incoming(event("unwanted", "", 9))}}
		is := d.change(c)
		kept, deliveries, err := d.Event(d.ctx, everyone, acme, "news")
		d.must(err, "Event")
		want := *e
		want.Seq = kept.Seq
		d.same(*kept, want, "event")
		unwanted, _, err := d.Event(d.ctx, everyone, acme, "unwanted")
		d.must(err, "Event")
		d.same(is.Next.Delivery, n[1], "next")
		d.same(is.Operational, &store.Accepted{
			Events: []store.Placed{{Seq: kept.Seq, ID: "news", AcceptedAt: at(9), Deliveries: 1},
				{Seq: unwanted.Seq, ID: "unwanted", AcceptedAt: at(9)}},
			Heads: []store.Head{{Delivery: deliveries[0].Seq, Event: kept.Seq, Endpoint: epB, Lane: "subject", Position: 1, Due: at(69),
				Anchor: at(9), Trigger: grapnel.TriggerTest, CreatedAt: at(9)}},
		}, "told")
		d.same(d.heads(epB), is.Operational.Heads, "heads")
	}},
	{"says nothing of a change that does not apply", func(d *driver) {
		n := d.lane("k", 1)
		for _, number := range []int64{n[0], n[0] + 1000} {
			c := delivered(number, 7, 10)
			c.Operational = d.news("news", 10)
			is := d.record(c)[0]
			d.same([]any{is.Applied, is.Operational}, []any{false, (*store.Accepted)(nil)}, "applied and told")
		}
		d.absent("news")
		d.leads(epB)
	}},
	{"can be repeated when its answer was lost", func(d *driver) {
		n := d.lane("k", 1)
		c := retried(n[0], 0, 10, 20)
		c.Operational = d.news("news", 10)
		first := d.change(c)
		second := d.record(c)[0]
		first.Applied, first.Operational = false, nil
		d.same(second, first, "the second answer")
		d.same(len(d.of("news")), 1, "deliveries")
		// Another change with the same Tell is applied; its event is stored already.
		again := retried(n[0], 1, 30, 40)
		again.Operational = d.news("news", 10)
		is := d.change(again)
		d.same(is.Operational, &store.Accepted{Events: []store.Placed{{Seq: d.of("news")[0].EventSeq, ID: "news", AcceptedAt: at(10), Deliveries: 1,
			Duplicate: true}}}, "told")
		d.same(len(d.of("news")), 1, "deliveries")
	}},
	{"distinguishes an id with other content from a new event", func(d *driver) {
		n := d.lane("k", 1)
		c := delivered(n[0], 0, 10)
		c.Operational = d.news("k_1", 10)
		d.same(d.change(c).Operational, &store.Accepted{Events: []store.Placed{{Conflict: true}}}, "told")
		d.leads(epB)
	}},
	{"refuses everything when one batch was matched against another configuration", func(d *driver) {
		n := d.lane("k", 3)
		old := d.config().Version
		d.put(endpoint("ep_new", acme))
		before := d.everything()
		for _, version := range []int64{0, old, d.config().Version + 1} {
			first, second := delivered(n[0], 0, 10), delivered(n[1], 7, 10)
			first.Operational, first.Standing, first.Audit = d.news("fresh", 10), standing(epA, 1), entry(acme, epA, grapnel.VerbDisable, 10)
			second.Operational = d.news("stale", 10) // of a change that does not apply
			second.Operational.Config = version
			for _, changes := range [][]store.Change{{first, second}, {second, first}, {second}} {
				done, err := d.Record(d.ctx, changes)
				d.stale(err, "Record")
				d.same(done, []store.Changed(nil), "changed")
			}
		}
		d.same(d.everything(), before, "everything")
		d.absent("fresh")
		absent := delivered(n[0]+1000, 0, 10)
		absent.Operational = d.news("stale", 10)
		absent.Operational.Config = old
		_, err := d.Record(d.ctx, []store.Change{absent})
		d.stale(err, "Record of nothing")
		d.same(d.change(delivered(n[0], 0, 11)).Next.Delivery, n[1], "next")
	}},
	{"reports each change as it was before the next", func(d *driver) {
		n := d.lane("k", 2)
		first, second := delivered(n[0], 0, 10), delivered(n[1], 0, 11)
		first.Operational = &store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(event("behind", "k", 10), to(epA))}}
		second.Operational = &store.Batch{Config: d.config().Version, Events: []store.Incoming{
			incoming(event("behind", "k", 10), to(epA)), incoming(event("last", "k", 11), to(epA))}}
		done := d.record(first, second)
		d.same(len(done[0].Operational.Heads), 0, "heads made by the first: its lane has one")
		d.same(done[1].Next.Delivery, d.of("behind")[0].Seq, "next")
		d.same(done[1].Operational.Events[0].Duplicate, true, "told already by the first")
		d.same(d.of("last")[0].Position, int64(4), "position")
		// The lane is empty between a change and its Tell: the new head is a delivery of the told event.
		d.change(by(d.of("behind")[0].Seq, grapnel.Skipped, 12))
		third := by(d.of("last")[0].Seq, grapnel.Skipped, 13)
		third.Operational = &store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(event("alone", "k", 13), to(epA))}}
		is := d.change(third)
		d.same(is.Next, (*store.Head)(nil), "next")
		d.same(numbersOf(is.Operational.Heads), []int64{d.of("alone")[0].Seq}, "heads that were told")
		d.leads(epA, d.of("alone")[0].Seq)
	}},
	{"takes no notice of an idempotency key", func(d *driver) {
		n := d.lane("k", 2)
		d.must(d.remember(once("used", 2, 0)), "Remember")
		for i, key := range []string{"used", "fresh"} {
			c := delivered(n[i], 0, 10)
			c.Operational = d.news("news "+key, 10)
			c.Operational.Once = once(key, 1, 10)
			is := d.change(c)
			d.same(is.Operational.Answer, (*store.Answer)(nil), "answer")
			d.same(len(d.of("news "+key)), 1, "deliveries")
		}
		d.same(d.recall("fresh", 11), (*store.Answer)(nil), "recalled")
	}},
	{"takes an empty batch", func(d *driver) {
		n := d.lane("k", 1)
		c := delivered(n[0], 0, 10)
		c.Operational = &store.Batch{Config: d.config().Version}
		d.same(d.change(c).Operational, &store.Accepted{}, "told")
	}},
	{"commits events and an entry with an endpoint", func(d *driver) {
		ep := endpoint(epA, acme)
		ep.Revision, ep.Status = 1, grapnel.EndpointDisabled
		before := d.config().Version
		o := once("key", 1, 0)
		var seen any
		o.Answer = func(done any) store.Answer { seen = done; return store.Answer{Status: 200, Body: []byte("done")} }
		with := store.With{Once: o, Operational: d.news("news", 10), Audit: entry(acme, epA, grapnel.VerbDisable, 10)}
		done, err := d.PutEndpoint(d.ctx, everyone, ep, with)
		d.must(err, "PutEndpoint")
		news := d.of("news")
		d.same(done, store.Put{Revision: 2, Version: d.grown(before, "PutEndpoint"), Operational: &store.Accepted{
			Events: []store.Placed{{Seq: news[0].EventSeq, ID: "news", AcceptedAt: at(10), Deliveries: 1}}, Heads: d.heads(epB)}}, "put")
		d.same(seen, done, "what the answer was made from")
		list := d.audit(store.AuditQuery{})
		with.Audit.Seq = list[0].Seq
		d.same(list, []grapnel.AuditEntry{*with.Audit}, "entries")

		// The second call has another version of the configuration. It returns the stored answer and has
		// no effect.
		all := d.everything()
		with.Operational.Events = append(with.Operational.Events, incoming(event("more", "", 11), to(epB)))
		done, err = d.PutEndpoint(d.ctx, everyone, ep, with)
		d.must(err, "PutEndpoint again")
		d.same(done, store.Put{Answer: &store.Answer{Fingerprint: [32]byte{1}, Status: 200, Body: []byte("done")}}, "the answer of then")
		d.same(d.everything(), all, "everything")
	}},
	{"refuses an endpoint whose news was matched against another configuration", func(d *driver) {
		old := d.config().Version
		d.put(endpoint("ep_new", acme))
		before := d.everything()
		fail := once("key", 1, 0)
		fail.Answer = func(any) store.Answer { d.Error("an answer was made for a call that failed"); return store.Answer{} }
		for _, version := range []int64{0, old, d.config().Version + 1} {
			ep := endpoint(epA, acme)
			ep.Revision = 1
			with := store.With{Once: fail, Operational: d.news("news", 10), Audit: entry(acme, epA, grapnel.VerbChange, 10)}
			with.Operational.Config = version
			_, err := d.PutEndpoint(d.ctx, everyone, ep, with)
			d.stale(err, "PutEndpoint")
		}
		d.same(d.everything(), before, "everything")
		d.absent("news")
		d.same(d.recall("key", 1), (*store.Answer)(nil), "recalled")
	}},
	{"commits no event of an endpoint that was refused", func(d *driver) {
		before := d.everything()
		for code, try := range map[grapnel.Code]struct {
			scope store.Scope
			ep    grapnel.Endpoint
		}{
			grapnel.CodeConflict: {everyone, endpoint(epA, acme)},
			grapnel.CodeNotFound: {store.Of(bolt), endpoint("ep_new", acme)},
		} {
			_, err := d.PutEndpoint(d.ctx, try.scope, try.ep, store.With{Operational: d.news("news", 10), Audit: entry(acme, epA, grapnel.VerbChange, 10)})
			d.code(err, code, "PutEndpoint")
		}
		d.same(d.everything(), before, "everything")
		d.absent("news")
	}},
	{"counts and lists told events like all others", func(d *driver) {
		n := d.lane("k", 1)
		c := delivered(n[0], 0, 10)
		gone := to(epA)
		gone.Drop = "disabled"
		c.Operational = &store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(event("news", "", 10), to(epB), gone)}}
		d.change(c)
		counts, err := d.Counts(d.ctx, everyone)
		d.must(err, "Counts")
		d.same(counts, map[string]map[grapnel.Status]int64{epA: {grapnel.Delivered: 1, grapnel.Dropped: 1}, epB: {grapnel.Pending: 1}}, "counts")
		d.same(eventIDs(d.eventList(store.EventQuery{From: at(10), Type: "invoice.*", Limit: math.MaxInt32})), []string{"news"}, "events")
		d.same(d.config().Newest, d.of("news")[1].Seq, "newest")
		d.publish(incoming(event("after", "", 11), to(epB)))
		d.sound()
	}},
}
