package storetest

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// eraseCases are about events that were emptied.
var eraseCases = []testCase{
	{"empties an event and keeps its outcome", func(d *driver) {
		e := event("e", "k", 0)
		e.Intake = &grapnel.Intake{Source: "src", At: at(0), Method: "POST", Path: "/in"}
		d.publish(incoming(e, to(epA), to(epB)))
		x := d.of("e")
		d.change(retried(x[0].Seq, 0, 4, 5))
		d.same(d.erase(true, 9, x[0].EventSeq), store.Erased{Pending: []int64{x[0].EventSeq}}, "while deliveries are pending")
		d.change(delivered(x[0].Seq, 1, 6))
		d.change(by(x[1].Seq, grapnel.Failed, 7))
		note := "about somebody"
		d.must(d.Annotate(d.ctx, everyone, store.Annotation{Delivery: x[1].Seq, Note: &note, Discard: note, At: at(8)}), "Annotate")
		counts := d.allTotals()
		d.same(d.erase(true, 10, x[0].EventSeq, x[0].EventSeq), store.Erased{Events: 1, Deliveries: 2, Attempts: 2}, "erased")
		d.same(d.erase(true, 11, x[0].EventSeq), store.Erased{}, "erased again")
		is, list, err := d.Event(d.ctx, everyone, "", "e")
		d.must(err, "Event")
		d.same(*is, grapnel.Event{Seq: x[0].EventSeq, ID: "e", Tenant: acme, Type: e.Type, ContentType: e.ContentType,
			OccurredAt: e.OccurredAt, AcceptedAt: e.AcceptedAt, ErasedAt: at(10)}, "the event")
		d.same([]grapnel.Status{list[0].Status, list[1].Status}, []grapnel.Status{grapnel.Delivered, grapnel.Failed}, "outcomes")
		first := d.delivery(x[0].Seq)
		a, b := attempt(1, 4), attempt(2, 6)
		for _, a := range []*grapnel.Attempt{a, b} {
			a.Error, a.RequestHeaders, a.ResponseHeaders, a.ResponseBody = "", nil, nil, nil
		}
		d.same(first.Attempts, []grapnel.Attempt{*a, *b}, "attempts")
		second := d.delivery(x[1].Seq)
		d.same([]string{first.Reason, second.Reason, second.Mark.Note, second.Mark.DiscardReason, first.Key}, []string{"", "", "", "", ""}, "texts")
		d.same(second.Mark.DiscardedAt, at(8), "discarded")
		d.same(d.allTotals(), counts, "totals")
		d.same(len(d.eventList(store.EventQuery{Key: "k"})), 0, "events by the key")
		d.reopen()
		events, err := d.Events(d.ctx, []int64{x[0].EventSeq})
		d.must(err, "Events")
		d.same(events[0].ErasedAt, at(10), "after a restart")
		d.balanced()
	}},
	{"erases events of the tenant alone", func(d *driver) {
		d.publish(incoming(event("e", "k", 0)))
		events := d.eventList(store.EventQuery{})
		done, err := d.EraseEvents(d.ctx, store.Erasure{Tenant: bolt, Events: []int64{events[0].Seq, 1 << 40}, At: at(1)})
		d.must(err, "EraseEvents")
		d.same(done, store.Erased{}, "of another tenant")
		d.same(d.eventList(store.EventQuery{}), events, "events")
	}},
	{"never delivers an erased event again", func(d *driver) {
		n := d.lane("k", 1)
		d.change(by(n[0], grapnel.Failed, 3))
		d.erase(true, 5, d.delivery(n[0]).EventSeq)
		_, err := d.Again(d.ctx, everyone, store.Redelivery{Of: n[0], Trigger: grapnel.TriggerManual, Ordered: true, At: at(6)})
		d.code(err, grapnel.CodeConflict, "Again")
		other := event("k_1", "another", 7)
		other.Data = []byte(`"other data"`)
		d.same(d.publish(incoming(other, to(epA))).Events[0].Duplicate, true, "the id is a duplicate")
		other.Type = "another.type"
		d.same(d.publish(incoming(other, to(epA))).Events[0].Conflict, true, "another type is a conflict")
	}},
	{"goes on above the positions of an erased key", func(d *driver) {
		n := d.lane("k", 3)
		for _, seq := range n[:2] {
			d.change(delivered(seq, 0, 5))
			d.erase(true, 6, d.delivery(seq).EventSeq)
		}
		d.leads(epA, n[2])
		d.change(delivered(n[2], 0, 7))
		d.erase(true, 8, d.delivery(n[2]).EventSeq)
		d.publish(incoming(event("new", "k", 10), to(epA)))
		d.same(d.of("new")[0].Position, int64(4), "position")
		d.purge(1000, 1, 100, 3)
		d.balanced()
	}},
	{"leaves an event with a dead letter if it is told to", func(d *driver) {
		d.publish(incoming(event("e", "k", 0), to(epA), to(epB)))
		x := d.of("e")
		left := store.Erased{Pending: []int64{x[0].EventSeq}}
		erase := func(when float64) store.Erased {
			done, err := d.EraseEvents(d.ctx, store.Erasure{Tenant: acme, Events: []int64{x[0].EventSeq}, At: at(when), LeaveDead: true})
			d.must(err, "EraseEvents")
			return done
		}
		d.change(by(x[0].Seq, grapnel.Failed, 1))
		d.change(by(x[1].Seq, grapnel.Failed, 1))
		d.same(erase(2), left, "two dead letters")
		d.must(d.Annotate(d.ctx, everyone, store.Annotation{Delivery: x[1].Seq, Discard: "it is of no use", At: at(3)}), "Annotate")
		d.same(erase(4), left, "one is discarded")
		again, err := d.Again(d.ctx, everyone, store.Redelivery{Of: x[0].Seq, Trigger: grapnel.TriggerManual, Ordered: true, At: at(5)})
		d.must(err, "Again")
		d.same(erase(6), left, "the other is repeated")
		d.change(by(again.Delivery, grapnel.Failed, 7))
		d.same(erase(8), left, "without success")
		again, err = d.Again(d.ctx, everyone, store.Redelivery{Of: x[0].Seq, Trigger: grapnel.TriggerManual, Ordered: true, At: at(9)})
		d.must(err, "Again")
		d.change(by(again.Delivery, grapnel.Delivered, 10))
		d.same(erase(11).Events, 1, "with success")
	}},
	{"leaves the keys unless they are to go as well", func(d *driver) {
		n := d.lane("k", 1)
		d.change(delivered(n[0], 0, 5))
		d.erase(false, 6, d.delivery(n[0]).EventSeq)
		d.same(d.delivery(n[0]).Key, "k", "key")
		d.publish(incoming(event("new", "k", 10), to(epA)))
		d.same(d.of("new")[0].Position, int64(2), "position")
		d.same(d.erase(true, 11, d.delivery(n[0]).EventSeq).Events, 1, "erased again, with its key")
		d.same(d.delivery(n[0]).Key, "", "key")
		d.same(d.erase(true, 12, d.delivery(n[0]).EventSeq).Events, 0, "and again")
	}},
}

// erase erases events of acme.
func (d *driver) erase(keys bool, when float64, seqs ...int64) store.Erased {
	d.Helper()
	d.purged = d.purged || keys
	done, err := d.EraseEvents(d.ctx, store.Erasure{Tenant: acme, Events: seqs, At: at(when), Keys: keys})
	d.must(err, "EraseEvents")
	_, err = d.Reclaim(d.ctx)
	d.must(err, "Reclaim")
	return done
}

// dead says whether a delivery is a dead letter.
func dead(r *row) bool {
	return r.Status == grapnel.Failed && r.Mark.DiscardedAt.IsZero() && r.Mark.ReplayResult != grapnel.Delivered
}

func (m *model) erase(q store.Erasure) (done store.Erased) {
	for _, seq := range q.Events {
		e := m.events[seq-1]
		of := slices.DeleteFunc(slices.Clone(m.rows), func(r *row) bool { return r.EventSeq != seq || m.gone[r.Seq] })
		switch {
		case m.goneEvents[seq] || e.Tenant != q.Tenant || !e.ErasedAt.IsZero() && !(q.Keys && e.Key != ""):
			continue
		case slices.ContainsFunc(of, func(r *row) bool { return r.Status == grapnel.Pending || q.LeaveDead && dead(r) }):
			done.Pending = append(done.Pending, seq)
			continue
		}
		done.Events++
		e.Data, e.Metadata, e.Intake, e.ErasedAt = nil, nil, nil, q.At.Truncate(time.Microsecond)
		for _, r := range of {
			done.Deliveries, done.Attempts = done.Deliveries+1, done.Attempts+len(r.Attempts)
			r.Reason, r.Mark.Note, r.Mark.DiscardReason, r.Attempts = "", "", "", slices.Clone(r.Attempts)
			for i := range r.Attempts {
				a := &r.Attempts[i]
				a.Error, a.RequestHeaders, a.ResponseHeaders, a.ResponseBody = "", nil, nil, nil
			}
			if q.Keys {
				m.forgetLane(r, true)
				r.Key = ""
			}
		}
		if q.Keys {
			e.Key = ""
		}
	}
	return done
}
