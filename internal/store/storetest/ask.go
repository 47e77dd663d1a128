package storetest

import (
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Calls of the machine that change nothing a caller can see: reads, and Forget.

func (m *machine) answers(t *rapid.T) {
	now := m.tick(t)
	for _, key := range []string{m.caller + "i1", m.caller + "i2"} {
		var want *store.Answer
		if k, there := m.model.answers[key]; there && k.expires.After(now) {
			want = &k.Answer
		}
		got, err := m.Recall(m.ctx, key, now)
		m.agree(got, want, err, nil, "Recall")
	}
	limit := rapid.IntRange(0, 2).Draw(t, "limit")
	want := m.model.forget(now, limit)
	got, err := m.Forget(m.ctx, now, limit)
	m.agree(got, want, err, nil, "Forget")
}

func (m *machine) queries(t *rapid.T) {
	scope := pick(t, "scope", someScopes...)
	limit := pick(t, "limit", 0, 1, 3, 1000)
	since := func(what string) time.Time {
		if chance(t, what, 3) {
			return at(float64(rapid.IntRange(-30, 90).Draw(t, what)))
		}
		return time.Time{}
	}
	e := store.EventQuery{Type: pick(t, "type", somePatterns...), Key: pick(t, "key", someKeys...), Tenant: pick(t, "tenant", "", acme, bolt),
		Source: pick(t, "source", someSources...), From: since("from"), To: since("to"), Limit: limit}
	d := store.DeliveryQuery{Endpoint: pick(t, "endpoint", "", "", epA, epB), Type: e.Type, Key: e.Key, Tenant: e.Tenant, Source: e.Source,
		From: e.From, To: e.To,
		Status: rapid.SliceOfDistinct(rapid.SampledFrom(grapnel.Statuses()), rapid.ID).Draw(t, "status"), Limit: limit}
	d.Class = pick(t, "class", "", "", "", policy.ClassStatus5xx, policy.ClassTimeout, policy.ClassNone)
	d.StatusCode = pick(t, "status code", 0, 0, 0, 503, 200)
	d.ReasonCode = pick(t, "reason code", "", "", "", grapnel.ReasonExhausted)
	d.DeadLetters, d.Replayed = chance(t, "dead letters", 4), chance(t, "replayed", 2)
	if chance(t, "held", 3) {
		d.HeldEndpoints = []string{pick(t, "held endpoint", someEndpoints...)}
	}
	m.ask(scope, e, d)
	if chance(t, "before", 2) && len(m.model.rows) > 0 {
		e.Before = int64(rapid.IntRange(1, len(m.model.events)).Draw(t, "event"))
		d.Before = int64(rapid.IntRange(1, len(m.model.rows)).Draw(t, "delivery"))
		m.ask(scope, e, d)
		m.show(scope, d.Before)
	}
}

// journals asks for entries and for stuck lanes.
func (m *machine) journals(t *rapid.T) {
	m.learnEntries()
	scope := pick(t, "scope", someScopes...)
	limit := pick(t, "limit", 0, 1, 3, 1000)
	a := store.AuditQuery{Tenant: pick(t, "tenant", "", acme, bolt), Endpoint: pick(t, "endpoint", "", epA, epX),
		Delivery: pick(t, "delivery", "", "dlv_1", "dlv_2"), Limit: limit, Oldest: rapid.Bool().Draw(t, "oldest first")}
	l := store.LaneQuery{Endpoint: pick(t, "endpoint of lanes", someEndpoints...), Limit: limit}
	if chance(t, "pages", 2) && len(m.model.rows) > 0 && len(m.model.entries) > 0 {
		a.Before = rapid.SampledFrom(m.model.entries).Draw(t, "entry").Seq
		if chance(t, "after an entry", 2) {
			a.After = rapid.SampledFrom(m.model.entries).Draw(t, "entry before").Seq
		}
		l.After = int64(rapid.IntRange(1, len(m.model.rows)).Draw(t, "delivery"))
	}
	wantEntries, wantLanes := m.model.audit(scope, a), m.model.lanes(scope, l)
	a.Before, a.After, l.After = m.entries.store(a.Before), m.entries.store(a.After), m.deliveries.store(l.After)
	entries, err := m.AuditList(m.ctx, scope, a)
	for i := range entries {
		entries[i].Seq = m.entries.model(entries[i].Seq)
	}
	m.agree(entries, wantEntries, err, nil, "AuditList")
	end, err := m.AuditEnd(m.ctx)
	m.agree(m.entries.model(end), m.model.newestEntry(), err, nil, "AuditEnd")
	lanes, err := m.StuckLanes(m.ctx, scope, l)
	for i := range lanes {
		m.deliveryOf(&lanes[i].Head)
	}
	m.agree(lanes, wantLanes, err, nil, "StuckLanes")
}

// learnEntries pairs the numbers of all entries: a store and the model list them in the same order.
func (m *machine) learnEntries() {
	m.Helper()
	want := m.model.audit(everyone, store.AuditQuery{Limit: math.MaxInt32})
	got := m.audit(store.AuditQuery{})
	for i := range min(len(got), len(want)) {
		m.entries.pair(got[i].Seq, want[i].Seq)
		got[i].Seq = want[i].Seq
	}
	m.same(got, want, "all entries")
}

// ask compares both lists and the counts.
func (m *machine) ask(scope store.Scope, e store.EventQuery, d store.DeliveryQuery) {
	m.Helper()
	wantEvents, wantDeliveries := m.model.eventList(scope, e), m.model.deliveryList(scope, d)
	e.Before, d.Before = m.events.store(e.Before), m.deliveries.store(d.Before)
	events, err := m.EventList(m.ctx, scope, e)
	for i := range events {
		events[i].Seq = m.events.model(events[i].Seq)
	}
	m.agree(events, wantEvents, err, nil, "EventList")
	deliveries, err := m.DeliveryList(m.ctx, scope, d)
	for i := range deliveries {
		m.deliveryOf(&deliveries[i])
	}
	m.agree(deliveries, wantDeliveries, err, nil, "DeliveryList")
	m.search(scope, d, wantDeliveries)
	counts, err := m.Counts(m.ctx, scope)
	m.agree(counts, m.model.counts(scope), err, nil, "Counts")
}

// search reads all deliveries whose event's data contain a text; all data but {} do.
func (m *machine) search(scope store.Scope, q store.DeliveryQuery, all []grapnel.Delivery) {
	m.Helper()
	if q.Limit < 1000 {
		return // the list ends before the search does
	}
	m.searchFor(" ", scope, q, all)
	m.searchFor("", scope, q, all)
	q.Within = 1 // each call ends at once, and all together find the same
	m.searchFor("", scope, q, all)
}

func (m *machine) searchFor(text string, scope store.Scope, q store.DeliveryQuery, all []grapnel.Delivery) {
	m.Helper()
	q.Limit = 2
	var want, got []grapnel.Delivery
	for _, d := range all {
		if text == "" || string(m.model.events[d.EventSeq-1].Data) == text {
			want = append(want, d)
		}
	}
	for {
		list, resume, err := m.DeliverySearch(m.ctx, scope, q, text)
		m.must(err, "DeliverySearch")
		if len(list) > q.Limit || q.Before != 0 && resume >= q.Before {
			m.Fatalf("DeliverySearch found %d below %d and goes on at %d", len(list), q.Before, resume)
		}
		got = append(got, list...)
		if q.Before = resume; resume == 0 {
			break
		}
	}
	for i := range got {
		m.deliveryOf(&got[i])
	}
	m.same(got, want, "DeliverySearch")
}
