package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/store"
)

// known is a Known of source src_1, valid until some seconds after the start.
func known(by string, sum byte, until float64) *store.Known {
	return &store.Known{Source: "src_1", By: []byte(by), Sum: [32]byte{sum}, Until: at(until)}
}

// receive appends one event with a Known to endpoint a.
func (d *driver) receive(id string, accepted float64, k *store.Known) store.Placed {
	d.Helper()
	in := incoming(event(id, "k", accepted), to(epA))
	in.Known = k
	return d.publish(in).Events[0]
}

func (d *driver) unlearn(now, asideBefore float64, limit, want int) {
	d.Helper()
	n, err := d.Unlearn(d.ctx, at(now), at(asideBefore), limit)
	d.must(err, "Unlearn")
	d.same(n, want, "forgotten and removed")
}

const never = -1e6 // earlier than every stored request

func repeated(p store.Placed, differs bool) store.Placed {
	p.Duplicate, p.Differs = true, differs
	return p
}

var knownCases = []testCase{
	{"the first wins, and others are answered with it", func(d *driver) {
		first := d.receive("a", 1, known("x", 1, 100))
		d.same(first, store.Placed{Seq: first.Seq, ID: "a", AcceptedAt: at(1), Deliveries: 1}, "the first")
		again, err := d.Again(d.ctx, everyone, store.Redelivery{Of: d.of("a")[0].Seq, At: at(2)})
		d.must(err, "Again")
		before := d.everything()

		in := incoming(event("b", "other", 5), to(epA), to(epB))
		in.Event.Type, in.Event.Data, in.Event.Source, in.Known = "user.made", []byte("{}"), "src_1", known("x", 1, 500)
		done := d.publish(in)
		d.same(done, store.Accepted{Events: []store.Placed{repeated(first, false)}}, "the second, whatever it is")
		d.same(d.receive("c", 6, known("x", 2, 100)), repeated(first, true), "one with another body")
		d.same(d.receive("a", 7, known("x", 1, 100)), repeated(first, false), "the first once more, as after a lost answer")
		d.same(d.everything(), before, "everything")
		d.same(len(d.of("a")), 2, "deliveries, a redelivery among them")
		d.same(again.Delivery, d.of("a")[1].Seq, "redelivery")
	}},
	{"by something, at a source", func(d *driver) {
		d.receive("a", 1, known("x", 1, 100))
		other := known("x", 1, 100)
		other.Source = "src_2"
		long, longer := strings.Repeat("y", 40), strings.Repeat("y", 39)+"z"
		for id, k := range map[string]*store.Known{"b": known("X", 1, 100), "c": other, "d": nil, "e": known("", 1, 100),
			"f": known("x\x00", 1, 100), "g": known(long, 1, 100), "h": known(longer, 1, 100)} {
			placed := d.receive(id, 2, k)
			d.same(placed, store.Placed{Seq: placed.Seq, ID: id, AcceptedAt: at(2), Deliveries: 1}, id)
		}
		// Source and By are separate: joining them must not make two keys equal.
		joined := &store.Known{Source: "src_", By: []byte("1x"), Until: at(100)}
		d.same(d.receive("i", 2, joined).Duplicate, false, "another source")
		d.same(d.receive("j", 2, other).ID, "c", "at the other source")
	}},
	{"until a time, counted by acceptance", func(d *driver) {
		first := d.receive("a", 10, known("x", 1, 100))
		just := at(100).Add(-time.Microsecond)
		in := incoming(event("b", "k", 0), to(epA))
		in.Event.AcceptedAt, in.Known = just.Add(999), known("x", 1, 1000)
		d.same(d.publish(in).Events[0], repeated(first, false), "in the last microsecond")
		d.same(d.receive("c", 9, known("x", 1, 1000)), repeated(first, false), "by a clock that was set back")
		second := d.receive("d", 100, known("x", 2, 150))
		d.same(second, store.Placed{Seq: second.Seq, ID: "d", AcceptedAt: at(100), Deliveries: 1}, "at that time")
		d.same(d.receive("e", 120, known("x", 1, 999)), repeated(second, true), "a duplicate of the second, as long as that is known")
		d.same(d.receive("f", 99, known("x", 2, 999)), repeated(second, false), "even if it was accepted before")
		d.same(d.receive("g", 150, known("x", 2, 150)).Duplicate, false, "the third, which nobody will know")
		d.same(d.receive("h", 150, known("x", 2, 200)).Duplicate, false, "the fourth")
		d.same(d.receive("i", 150, known("x", 2, 200)).ID, "h", "the fifth")
		d.same(len(d.eventList(store.EventQuery{})), 4, "events")
	}},
	{"within a batch", func(d *driver) {
		var batch []store.Incoming
		for i, k := range []*store.Known{known("x", 1, 100), known("y", 1, 100), known("x", 2, 100), nil, known("y", 1, 100)} {
			in := incoming(event(fmt.Sprint("e", i), "k", 1), to(epA))
			in.Known = k
			batch = append(batch, in)
		}
		done := d.publish(batch...)
		d.same(done.Events[2], repeated(done.Events[0], true), "the third")
		d.same(done.Events[4], repeated(done.Events[1], false), "the fifth")
		d.same(d.of("e3")[0].Position, int64(3), "position of one between them")
		d.same(len(d.eventList(store.EventQuery{})), 3, "events")
		again := d.publish(batch...)
		for i := range done.Events {
			done.Events[i].Duplicate = true
		}
		d.same(again, store.Accepted{Events: done.Events}, "repeated, as after a lost answer")
	}},
	{"comes before the id, and a refused event stores no Known", func(d *driver) {
		d.receive("a", 1, nil)
		first := d.receive("b", 1, known("x", 1, 100))
		d.same(d.receive("a", 2, known("x", 1, 100)), repeated(first, false), "another event's id")
		d.same(d.receive("a", 2, known("y", 1, 100)).ID, "a", "a duplicate by its id")
		other := incoming(event("a", "another key", 2), to(epA))
		other.Known = known("z", 1, 100)
		d.same(d.publish(other).Events[0], store.Placed{Conflict: true}, "a conflict by its id")
		old := store.Batch{Config: d.config().Version - 1, Events: []store.Incoming{incoming(event("stale", "", 1))}}
		old.Events[0].Known = known("w", 1, 100)
		_, err := d.Append(d.ctx, old)
		d.same(code(err), code(store.ErrStale), "stale")
		for _, by := range []string{"y", "z", "w"} {
			d.same(d.receive("by "+by, 3, known(by, 1, 100)).Duplicate, false, by)
		}
		// An expired Known stays until another replaces it: a clock may be set back.
		d.same(d.receive("a", 100, known("x", 1, 200)).ID, "a", "a duplicate by its id, of one that is known no longer")
		d.same(d.receive("c", 99, known("x", 1, 200)), repeated(first, false), "the first is known")
	}},
	{"outlives the event and the source", func(d *driver) {
		d.putSource(source("src_1", acme, "one"))
		in := incoming(event("a", "", 1), to(epA), to(epB))
		in.Event.Source, in.Known = "src_1", known("x", 1, 1000)
		first := d.publish(in).Events[0]
		d.end(epA, ending(2), 10, 1)
		d.end(epB, ending(2), 10, 1)
		d.purge(100, 10, 100, 2)
		d.absent("a")
		_, err := d.DeleteSource(d.ctx, everyone, "src_1", store.With{})
		d.must(err, "DeleteSource")
		d.same(d.receive("b", 100, known("x", 2, 2000)), repeated(first, true), "after it was purged")
		d.same(d.receive("a", 100, known("x", 1, 2000)), repeated(first, false), "under its own id")
		d.reopen()
		d.same(d.receive("c", 999, known("x", 1, 2000)), repeated(first, false), "after a restart")
		d.same(d.receive("a", 1000, known("x", 1, 2000)).Duplicate, false, "when it is known no longer")
	}},
	{"is deleted when it has expired, the oldest first", func(d *driver) {
		for i, until := range []float64{30, 10, 20, 50} {
			d.receive(fmt.Sprint("e", i), 1, known(fmt.Sprint("x", i), 1, until))
		}
		is := func(by string) bool { return d.receive(fmt.Sprint("again ", by), 5, known(by, 1, 5)).Duplicate }
		d.unlearn(10, never, 100, 0) // excluding that instant
		d.unlearn(10.5, never, 0, 0)
		d.unlearn(40, never, 1, 1)
		d.same([]bool{is("x0"), is("x1"), is("x2"), is("x3")}, []bool{true, false, true, true}, "known")
		d.unlearn(40, never, 2, 2) // x1 had expired when it was received again
		d.same([]bool{is("x0"), is("x2"), is("x3")}, []bool{true, false, true}, "known")
		d.reopen()
		d.unlearn(40, never, 10, 2)
		d.same([]bool{is("x0"), is("x3")}, []bool{false, true}, "known after a restart")
		d.unlearn(51, never, 10, 2)
		d.unlearn(1e6, never, 10, 0)
		d.same(len(d.eventList(store.EventQuery{})), 7, "events stay")
	}},
	{"with an idempotency key is answered by that", func(d *driver) {
		batch := store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(event("a", "", 1))}, Once: once("key", 1, 0)}
		batch.Events[0].Known = known("x", 1, 100)
		_, err := d.Append(d.ctx, batch)
		d.must(err, "Append")
		done, err := d.Append(d.ctx, batch)
		d.must(err, "Append again")
		d.same(done, store.Accepted{Answer: d.recall("key", 1)}, "accepted")
	}},
	{"of concurrent copies one is an event, whatever else commits with them", func(d *driver) {
		version := d.config().Version
		const copies, rounds = 20, 5
		var fresh atomic.Int64
		var mu sync.Mutex
		answered := make([]map[string]bool, rounds)
		together(copies, func(p int) {
			for i := range rounds {
				batch := store.Batch{Config: version}
				for j, k := range []*store.Known{known(fmt.Sprint("x", i), byte(p%2), 100), nil} {
					in := incoming(event(fmt.Sprintf("e%d_%d_%d", i, p, j), "k", 1), to(epA))
					in.Known = k
					batch.Events = append(batch.Events, in)
				}
				done, err := d.Append(d.ctx, batch)
				if err != nil {
					d.Errorf("Append: %v", err)
					return
				}
				if !done.Events[0].Duplicate {
					fresh.Add(1)
				}
				mu.Lock()
				if answered[i] == nil {
					answered[i] = make(map[string]bool)
				}
				answered[i][done.Events[0].ID] = true
				mu.Unlock()
			}
		})
		d.same(fresh.Load(), int64(rounds), "events that were new")
		for i := range answered {
			d.same(len(answered[i]), 1, "ids that were answered")
		}
		d.same(len(d.eventList(store.EventQuery{})), rounds+rounds*copies, "events")
		d.sound()
		d.reopen()
		for i, ids := range answered {
			d.same(ids[d.receive("late", 2, known(fmt.Sprint("x", i), 0, 100)).ID], true, "the answer after a restart")
		}
	}},
	{"agrees with a model", func(d *driver) {
		histories(d.test, d.harness.Histories)
		rapidtest.Check(d.test, func(rt *rapid.T) { recall(d, rt) })
	}},
}

// recognizer is a model of Known.
type recognizer struct {
	*driver
	known  map[string]remembered
	events map[string]store.Placed // by id
	now    time.Time
	ids    int
	last   int64 // the highest number of any event
}

type remembered struct {
	sum    byte
	until  time.Time
	placed store.Placed
}

// recall plays one random history of events with few different Known keys.
func recall(d *driver, rt *rapid.T) {
	m := &recognizer{
		driver: openDriver(rt, d.test, d.harness), now: at(0),
		known: make(map[string]remembered), events: make(map[string]store.Placed),
	}
	actions := map[string]func(*rapid.T){"receive": m.receives, "receive more": m.receives, "unlearn": m.unlearns, "purge": m.purges}
	if d.harness.Reopen != nil {
		actions["reopen"] = func(*rapid.T) { m.reopen() }
	}
	rt.Repeat(actions)
}

// tick advances the time, and now and then sets it back a little. No two calls have the same time,
// so that expiries have an order.
func (m *recognizer) tick(t *rapid.T) time.Time {
	m.now = m.now.Add(time.Microsecond + time.Duration(pick(t, "seconds", 0, 1, 5, 20, -10))*time.Second)
	return m.now
}

func (m *recognizer) receives(t *rapid.T) {
	now := m.tick(t)
	b := store.Batch{Config: m.config().Version}
	var want []store.Placed
	for range rapid.IntRange(1, 4).Draw(t, "events") {
		m.ids++
		id := fmt.Sprint("e", m.ids)
		if chance(t, "an id that was used", 3) {
			id = fmt.Sprint("e", rapid.IntRange(1, m.ids).Draw(t, "id"))
		}
		now = now.Add(time.Microsecond)
		in := incoming(event(id, "", 0))
		in.Event.AcceptedAt = now
		if !chance(t, "unknown", 4) {
			in.Known = &store.Known{Source: pick(t, "source", "src_1", "src_2"), By: []byte(pick(t, "by", "x", "y")),
				Sum: [32]byte{pick(t, "sum", byte(1), 1, 2)}, Until: now.Add(pick(t, "window", 0, 10*time.Second, time.Minute))}
		}
		b.Events = append(b.Events, in)
		want = append(want, m.expects(in))
	}
	m.now = now
	done, err := m.Append(m.ctx, b)
	m.must(err, "Append")
	for i, placed := range done.Events {
		if !placed.Duplicate {
			if placed.Seq <= m.last {
				m.Fatalf("event %d after %d", placed.Seq, m.last)
			}
			m.last = placed.Seq
			m.numbered(placed)
		}
		if w, there := m.events[want[i].ID]; want[i].Seq < 0 && there {
			want[i].Seq = w.Seq
		}
		m.same(placed, want[i], "placed")
	}
}

// expects is the expected result of an event. A new event has no row id yet: it is negative.
func (m *recognizer) expects(in store.Incoming) store.Placed {
	by := ""
	if k := in.Known; k != nil {
		by = k.Source + " " + string(k.By)
		if r, there := m.known[by]; there && r.until.After(in.Event.AcceptedAt) {
			return repeated(r.placed, r.sum != k.Sum[0])
		}
	}
	if first, there := m.events[in.Event.ID]; there {
		return repeated(first, false)
	}
	placed := store.Placed{Seq: -1, ID: in.Event.ID, AcceptedAt: in.Event.AcceptedAt}
	m.events[placed.ID] = placed
	if by != "" {
		m.known[by] = remembered{sum: in.Known.Sum[0], until: in.Known.Until, placed: placed}
	}
	return placed
}

// numbered records the row id of a new event.
func (m *recognizer) numbered(placed store.Placed) {
	number := func(p store.Placed) store.Placed {
		if p.ID == placed.ID && p.Seq < 0 {
			p.Seq = placed.Seq
		}
		return p
	}
	if p, there := m.events[placed.ID]; there {
		m.events[placed.ID] = number(p)
	}
	for by, r := range m.known {
		r.placed = number(r.placed)
		m.known[by] = r
	}
}

func (m *recognizer) unlearns(t *rapid.T) {
	now, limit := m.tick(t), pick(t, "limit", 0, 1, 2, 100)
	var over []string
	for by, r := range m.known {
		if r.until.Before(now) {
			over = append(over, by)
		}
	}
	slices.SortFunc(over, func(a, b string) int {
		return cmp.Or(m.known[a].until.Compare(m.known[b].until), cmp.Compare(m.known[a].placed.Seq, m.known[b].placed.Seq))
	})
	over = over[:min(limit, len(over))]
	for _, by := range over {
		delete(m.known, by)
	}
	n, err := m.Unlearn(m.ctx, now, time.Time{}, limit)
	m.must(err, "Unlearn")
	m.same(n, len(over), "forgotten")
}

// purges removes events, none of which has a delivery.
func (m *recognizer) purges(t *rapid.T) {
	keep := store.Keep{Now: m.tick(t), For: pick(t, "kept for", 0, 10*time.Second)}
	want := 0
	for id, placed := range m.events {
		if placed.AcceptedAt.Before(keep.Now.Add(-keep.For)) {
			delete(m.events, id)
			want++
		}
	}
	n, err := m.Purge(m.ctx, keep, math.MaxInt32)
	m.must(err, "Purge")
	m.same(n, want, "purged")
}
