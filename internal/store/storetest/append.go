package storetest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

var appendCases = []testCase{
	{"commits an event, its deliveries and their places", func(d *driver) {
		e := event("one", "k", 5)
		e.Metadata = map[string]string{"trace": "é"}
		done := d.publish(incoming(e, to(epA), to(epB)))
		seq := done.Events[0].Seq
		d.same(done.Events, []store.Placed{{Seq: seq, ID: "one", AcceptedAt: at(5), Deliveries: 2}}, "placed")

		got, deliveries, err := d.Event(d.ctx, store.Of(acme), acme, "one")
		d.must(err, "Event")
		want := *e
		want.Seq = seq
		d.same(*got, want, "event")
		if len(deliveries) != 2 || deliveries[0].Seq >= deliveries[1].Seq || seq < 1 || deliveries[0].Seq < 1 {
			d.Fatalf("want two deliveries in the order of their positive numbers: %+v", deliveries)
		}
		var heads []store.Head
		for i, ep := range []string{epA, epB} {
			d.same(deliveries[i], grapnel.Delivery{
				Seq: deliveries[i].Seq, EventSeq: seq, EventID: "one", EndpointID: ep, Tenant: acme, Type: "invoice.paid", Key: "k",
				Position: 1, Status: grapnel.Pending, CreatedAt: at(5), NextAttemptAt: at(5),
				Waiting: grapnel.Waiting{Head: true, Due: at(5), Anchor: at(5)},
			}, "delivery to "+ep)
			heads = append(heads, store.Head{
				Delivery: deliveries[i].Seq, Event: seq, Endpoint: ep, Lane: "k", Position: 1, Due: at(5), Anchor: at(5),
				Trigger: grapnel.TriggerSchedule, CreatedAt: at(5),
			})
			d.same(d.heads(ep), heads[i:], "heads of "+ep)
			h, first := d.head(deliveries[i].Seq)
			d.same(h, &heads[i], "head")
			d.same(first, true, "first")
		}
		d.same(done.Heads, heads, "reported heads")
	}},
	{"numbers events and deliveries in the order of the batch", func(d *driver) {
		done := d.publish(
			incoming(event("a", "", 1), to(epB), to(epA)), incoming(event("b", "", 1)), incoming(event("c", "", 1), to(epA)))
		last := int64(0)
		for _, p := range done.Events {
			if p.Seq <= last {
				d.Fatalf("events are not numbered in order: %+v", done.Events)
			}
			last = p.Seq
		}
		if a := d.of("a"); a[0].EndpointID != epB || a[1].EndpointID != epA || a[1].Seq >= d.of("c")[0].Seq {
			d.Fatalf("deliveries are not numbered in order: %+v", a)
		}
		later := d.publish(incoming(event("d", "", 0)))
		if later.Events[0].Seq <= last {
			d.Fatalf("a later batch has number %d after %d", later.Events[0].Seq, last)
		}
	}},
	{"gives positions 1, 2, 3 to each lane of its own", func(d *driver) {
		keys := []string{"k", "K", "k ", "ключ", "a'b\"%_"}
		for round := range 3 {
			for _, key := range keys {
				id := fmt.Sprintf("%s%d", key, round)
				done := d.publish(incoming(event(id, key, 1), to(epA), to(epB)))
				for _, x := range d.of(id) {
					d.same(x.Position, int64(round+1), "position of "+id)
					d.same(x.Waiting.Head, round == 0, "head "+id)
				}
				d.same(len(done.Heads), max(0, 2-2*round), "heads made by "+id)
			}
		}
		d.same(len(d.heads(epA)), len(keys), "heads")
	}},
	{"gives positions within a batch", func(d *driver) {
		done := d.publish(incoming(event("a", "k", 1), to(epA)), incoming(event("b", "k", 1), to(epA)), incoming(event("c", "l", 1), to(epA)))
		d.same(numbersOf(done.Heads), []int64{d.of("a")[0].Seq, d.of("c")[0].Seq}, "heads")
		d.same(d.of("b")[0].Position, int64(2), "position")
	}},
	{"makes a delivery without a lane a head without position", func(d *driver) {
		loose := to(epA)
		loose.Ordered = false
		d.publish(incoming(event("a", "k", 1), loose), incoming(event("b", "k", 1), loose), incoming(event("c", "", 1), to(epA)),
			incoming(event("d", "k", 1), to(epA)))
		for _, id := range []string{"a", "b", "c"} {
			x := d.of(id)[0]
			d.same(x.Position, int64(0), "position of "+id)
			h, first := d.head(x.Seq)
			d.same(first, true, "first")
			d.same(h.Lane, "", "lane of "+id)
		}
		d.same(d.of("d")[0].Position, int64(1), "position in the lane beside them")
		d.same(len(d.heads(epA)), 4, "heads")
	}},
	{"gives a head its first delay, and a delivery behind it none", func(d *driver) {
		slow := to(epA)
		slow.Delay = 90 * time.Second
		done := d.publish(incoming(event("a", "k", 1), slow), incoming(event("b", "k", 2), slow))
		d.same(done.Heads[0].Due, at(91), "due")
		d.same(done.Heads[0].Anchor, at(1), "anchor")
		h, first := d.head(d.of("b")[0].Seq)
		d.same(first, false, "first")
		d.same(h, &store.Head{
			Delivery: d.of("b")[0].Seq, Event: d.of("b")[0].EventSeq, Endpoint: epA, Lane: "k", Position: 2,
			Trigger: grapnel.TriggerSchedule, CreatedAt: at(2),
		}, "place of what waits")
	}},
	{"drops at once without a place in line", func(d *driver) {
		gone := to(epA)
		gone.Drop = "its endpoint is disabled"
		done := d.publish(incoming(event("a", "k", 3), gone, to(epB)), incoming(event("b", "k", 4), to(epA)))
		d.same(done.Events[0].Deliveries, 2, "deliveries")
		a := d.of("a")[0]
		d.same(a, grapnel.Delivery{
			Seq: a.Seq, EventSeq: done.Events[0].Seq, EventID: "a", EndpointID: epA, Tenant: acme, Type: "invoice.paid", Key: "k",
			Status: grapnel.Dropped, Reason: "its endpoint is disabled", CreatedAt: at(3), FinishedAt: at(3),
		}, "dropped")
		d.same(len(done.Heads), 2, "heads")
		d.same(d.of("b")[0].Position, int64(1), "position of the next")
		is := d.record(by(a.Seq, grapnel.Skipped, 9))[0]
		d.same(is, store.Changed{Status: grapnel.Dropped}, "change of what was dropped: it has no lane, so no next")
	}},
	{"refuses another version of the configuration", func(d *driver) {
		old := d.config().Version
		d.put(endpoint("ep_new", acme))
		for _, version := range []int64{0, old, d.config().Version + 1} {
			_, err := d.Append(d.ctx, store.Batch{Config: version, Events: []store.Incoming{incoming(event("a", "k", 1), to(epA))}})
			if !errors.Is(err, store.ErrStale) {
				d.Fatalf("version %d: got %v, want ErrStale", version, err)
			}
		}
		_, _, err := d.Event(d.ctx, everyone, "", "a")
		d.code(err, grapnel.CodeNotFound, "Event")
		d.leads(epA)
		d.publish(incoming(event("b", "k", 1), to(epA)))
		d.same(d.of("b")[0].Position, int64(1), "a stale batch leaves no hole")
	}},
	{"answers a duplicate with the first event", func(d *driver) {
		first := d.publish(incoming(event("a", "k", 1), to(epA), to(epB))).Events[0]
		number := d.of("a")[0].Seq
		d.change(delivered(number, 0, 2))
		_, err := d.Again(d.ctx, everyone, store.Redelivery{Of: number, Ordered: true, At: at(3)})
		d.must(err, "Again")

		repeat := event("a", "k", 50)
		repeat.Metadata, repeat.OccurredAt, repeat.ContentType = map[string]string{"other": "x"}, at(40), "text/plain"
		done := d.publish(incoming(repeat, to(epA)), incoming(event("b", "k", 51), to(epA)))
		want := first
		want.Duplicate = true
		d.same(done.Events[0], want, "the duplicate's answer, without redeliveries")
		d.same(len(d.of("a")), 3, "deliveries")
		kept, _, err := d.Event(d.ctx, everyone, acme, "a")
		d.must(err, "Event")
		d.same(kept.AcceptedAt, at(1), "accepted")
		d.same(len(kept.Metadata), 0, "metadata")
		d.same(done.Events[1].Duplicate || done.Events[1].Conflict, false, "the other event of the batch")
		d.same(d.of("b")[0].Position, int64(3), "its position")
	}},
	{"answers duplicates and conflicts within a batch", func(d *driver) {
		other := event("a", "k", 1)
		other.Data = []byte(`{}`)
		done := d.publish(incoming(event("a", "k", 1), to(epA)), incoming(event("a", "k", 2), to(epA), to(epB)), incoming(other, to(epA)),
			incoming(event("b", "k", 1), to(epA)))
		first := done.Events[0]
		d.same(done.Events[1], store.Placed{Seq: first.Seq, ID: "a", AcceptedAt: at(1), Deliveries: 1, Duplicate: true}, "duplicate")
		d.same(done.Events[2], store.Placed{Conflict: true}, "conflict")
		d.same(d.of("b")[0].Position, int64(2), "position of the next")
		d.same(numbersOf(done.Heads), []int64{d.of("a")[0].Seq}, "heads")
	}},
	{"finds the duplicate of an event whose id was minted", func(d *driver) {
		id := grapnel.NewID(grapnel.EventPrefix, time.Now(), rand.Reader)
		minted := incoming(event(id, "k", 1), to(epA))
		minted.Minted = true
		want := d.publish(minted).Events[0]
		want.Duplicate = true
		done := d.publish(incoming(event("b", "k", 2), to(epA)), minted, incoming(event("c", "k", 3), to(epA)))
		d.same(done.Events[1], want, "the same event again, taken for new")
		d.same(d.of("c")[0].Position, int64(3), "position of the next")
		d.same(d.publish(incoming(event(id, "k", 4), to(epA))).Events[0], want, "the same id, chosen")
		d.same(len(d.of(id)), 1, "deliveries")
	}},
	{"refuses an id that means something else", func(d *driver) {
		d.publish(incoming(event("a", "k", 1), to(epA)))
		differ := map[string]func(*grapnel.Event){
			"type": func(e *grapnel.Event) { e.Type = "invoice.sent" },
			"key":  func(e *grapnel.Event) { e.Key = "" },
			"data": func(e *grapnel.Event) { e.Data = append(bytes.Clone(e.Data), ' ') },
		}
		for what, change := range differ {
			e := event("a", "k", 2)
			change(e)
			done := d.publish(incoming(e, to(epB)))
			d.same(done, store.Accepted{Events: []store.Placed{{Conflict: true}}}, "another "+what)
		}
		d.same(len(d.of("a")), 1, "deliveries")
		d.leads(epB)
	}},
	{"keeps the ids of tenants apart", func(d *driver) {
		// "a" has the same content at both tenants, the other ids differ.
		generated := grapnel.NewID(grapnel.EventPrefix, time.Now(), rand.Reader)
		ids := []string{"a", "b", generated}
		of := func(tenant, id string) *grapnel.Event {
			e := event(id, "k", 1)
			if e.Tenant = tenant; id != "a" {
				e.Data = []byte(`"` + tenant + `"`)
			}
			return e
		}
		targets := map[string]string{acme: epA, bolt: epX}
		first := map[string]store.Placed{}
		for _, tenant := range []string{acme, bolt} {
			for i, placed := range d.publish(incoming(of(tenant, "a"), to(targets[tenant])), incoming(of(tenant, "b"), to(targets[tenant])),
				incoming(of(tenant, generated), to(targets[tenant]))).Events {
				d.same(placed, store.Placed{Seq: placed.Seq, ID: ids[i], AcceptedAt: at(1), Deliveries: 1}, ids[i]+" of "+tenant)
				first[tenant+ids[i]] = placed
			}
		}
		// The events of both tenants come again, in one batch.
		for _, id := range ids {
			done := d.publish(incoming(of(bolt, id), to(epX)), incoming(of(acme, id), to(epA)))
			for i, tenant := range []string{bolt, acme} {
				want := first[tenant+id]
				want.Duplicate = true
				d.same(done.Events[i], want, id+" of "+tenant+" again")
				other := of(tenant, id)
				other.Data = []byte("{}x")
				again := d.publish(incoming(other, to(targets[tenant]))).Events
				d.same(again, []store.Placed{{Conflict: true}}, id+" of "+tenant+" with other data")
				for _, scope := range []store.Scope{everyone, store.Of(tenant)} {
					e, deliveries, err := d.Event(d.ctx, scope, tenant, id)
					d.must(err, "Event")
					d.same([]any{e.Seq, e.Tenant, string(e.Data)}, []any{want.Seq, tenant, string(of(tenant, id).Data)}, id+" of "+tenant)
					d.same(len(deliveries), 1, "deliveries")
					d.same(deliveries[0].EndpointID, targets[tenant], "endpoint")
				}
				e, _, err := d.Event(d.ctx, store.Of(tenant), "", id)
				d.must(err, "Event")
				d.same(e.Seq, want.Seq, "what the tenant sees")
			}
			_, _, err := d.Event(d.ctx, everyone, "", id)
			d.same(errors.Is(err, store.ErrSeveral), true, "everyone is asked whose it is")
			_, _, err = d.Event(d.ctx, store.Of("stranger"), "", id)
			d.code(err, grapnel.CodeNotFound, "Event of a stranger")
		}
		// They come in one batch, and as events of With.Operational or Change.Operational.
		done := d.publish(incoming(of(acme, "c"), to(epA)), incoming(of(bolt, "c"), to(epX)), incoming(of(bolt, "c"), to(epX)))
		for i, want := range []bool{false, false, true} {
			d.same(done.Events[i].Duplicate, want, "duplicate in a batch")
		}
		_, _, err := d.Event(d.ctx, everyone, bolt, "c")
		d.must(err, "Event")
		c := delivered(d.heads(epA)[0].Delivery, 0, 2)
		c.Operational = &store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(of(acme, "d"), to(epA))}}
		d.publish(incoming(of(bolt, "d"), to(epX)))
		d.same(d.record(c)[0].Operational.Events[0].Conflict, false, "what is told under an id of another tenant")
		d.same(len(d.list(store.DeliveryQuery{})), 10, "deliveries")
		d.sound()
	}},
	{"can be repeated when its answer was lost, ids given or not", func(d *driver) {
		batch := store.Batch{Config: d.config().Version, Events: []store.Incoming{
			{Event: event("evt_made", "k", 1), Targets: []store.Target{to(epA)}}, incoming(event("given", "k", 1), to(epA))}}
		first, err := d.Append(d.ctx, batch)
		d.must(err, "Append")
		second, err := d.Append(d.ctx, batch)
		d.must(err, "Append again")
		for i := range first.Events {
			first.Events[i].Duplicate = true
		}
		d.same(second, store.Accepted{Events: first.Events}, "the second answer")
		d.same(d.of("given")[0].Position, int64(2), "position")
		d.same(len(d.of("evt_made")), 1, "deliveries")
	}},
	{"stores an event without deliveries", func(d *driver) {
		done := d.publish(incoming(event("a", "k", 1)))
		d.same(done, store.Accepted{Events: []store.Placed{{Seq: done.Events[0].Seq, ID: "a", AcceptedAt: at(1)}}}, "accepted")
		d.same(len(d.of("a")), 0, "deliveries")
	}},
	{"takes an empty batch", func(d *driver) {
		d.same(d.publish(), store.Accepted{}, "accepted")
	}},
	{"freezes data byte for byte", func(d *driver) {
		long := make([]byte, 300<<10)
		for i := range long {
			long[i] = byte(i * i >> 3)
		}
		bodies := [][]byte{nil, {0}, []byte("{ \"a\":1 }\n"), {0xff, 0xfe, 0, 0x80}, long, bytes.Repeat([]byte("same "), 5000)}
		var seqs []int64
		for i, body := range bodies {
			e := event(fmt.Sprint("e", i), "", 1)
			e.Data, e.ContentType = body, "application/octet-stream"
			seqs = append(seqs, d.publish(incoming(e)).Events[0].Seq)
		}
		events, err := d.Events(d.ctx, seqs)
		d.must(err, "Events")
		for i, e := range events {
			if e == nil || !bytes.Equal(e.Data, bodies[i]) || e.ContentType != "application/octet-stream" {
				d.Fatalf("event %d is not what was published", i)
			}
		}
	}},
	{"keeps times in microseconds and UTC", func(d *driver) {
		e := event("a", "k", 1)
		zone := time.FixedZone("elsewhere", 5*3600+1800)
		e.AcceptedAt = at(1).In(zone).Add(1234567)
		e.OccurredAt = time.Time{}
		done := d.publish(incoming(e, to(epA)))
		want := at(1).Add(1234 * time.Microsecond)
		d.same(done.Events[0].AcceptedAt, want, "in the answer")
		kept, deliveries, err := d.Event(d.ctx, everyone, acme, "a")
		d.must(err, "Event")
		d.same(kept.AcceptedAt, want, "in the event")
		d.same(kept.AcceptedAt.Location().String(), "UTC", "location")
		d.same(kept.OccurredAt.IsZero(), true, "a zero time stays zero")
		d.same(deliveries[0].CreatedAt, want, "in the delivery")
		d.same(deliveries[0].FinishedAt.IsZero(), true, "not finished")
		d.same(d.heads(epA)[0].Due, want, "due")
	}},
	{"returns many events at once", func(d *driver) {
		var batch []store.Incoming
		for i := range 2000 {
			batch = append(batch, incoming(event(fmt.Sprint("e", i), "", 1)))
		}
		var seqs []int64
		for _, placed := range d.publish(batch...).Events {
			seqs = append(seqs, placed.Seq)
		}
		slices.Reverse(seqs)
		events, err := d.Events(d.ctx, seqs)
		d.must(err, "Events")
		for i, e := range events {
			if e == nil || e.ID != fmt.Sprint("e", 1999-i) {
				d.Fatalf("entry %d is %+v", i, e)
			}
		}
	}},
	{"returns events in the order asked for", func(d *driver) {
		a := d.publish(incoming(event("a", "k", 1))).Events[0].Seq
		b := d.publish(incoming(event("b", "k", 1))).Events[0].Seq
		events, err := d.Events(d.ctx, []int64{b, a, b, b + 1000, 0, -1})
		d.must(err, "Events")
		d.same(len(events), 6, "length")
		for i, id := range []string{"b", "a", "b"} {
			if events[i] == nil || events[i].ID != id {
				d.Fatalf("entry %d is %+v, want %s", i, events[i], id)
			}
		}
		for _, e := range events[3:] {
			if e != nil {
				d.Fatalf("an absent event is %+v", e)
			}
		}
		none, err := d.Events(d.ctx, nil)
		d.must(err, "Events of none")
		d.same(len(none), 0, "length")
	}},
}
