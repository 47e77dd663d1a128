package storetest

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// The machine's calls about replays.

var someReplays = []string{"rpl_1", "rpl_2", "rpl_3", "rpl_4"}

// ordersReplay creates a replay or changes one, now and then with an outdated revision.
func (m *machine) ordersReplay(t *rapid.T) {
	r := replayOf(pick(t, "replay", someReplays...), 0, m.someFinals(t)...)
	r.Endpoint = pick(t, "endpoint", someEndpoints...)
	r.Tenant = m.owners[r.Endpoint]
	r.CreatedAt, r.Rate = m.tick(t), float64(rapid.IntRange(1, 9).Draw(t, "rate"))
	r.UpdatedAt = r.CreatedAt
	r.Status = pick(t, "status", grapnel.ReplayRunning, grapnel.ReplayRunning, grapnel.ReplayRunning, grapnel.ReplayPaused,
		grapnel.ReplayCompleted)
	if r.Status.Final() {
		r.FinishedAt = m.now
	}
	if there := m.model.replay(r.ID); there != nil && !chance(t, "another revision", 5) {
		r.Revision, r.Tenant = there.Revision, there.Tenant
	}
	with := m.with(t, 4)
	scope := pick(t, "scope", append([]store.Scope{everyone, everyone, everyone}, someScopes...)...)
	known := len(m.model.events)
	want, wantErr := m.model.putReplay(scope, r, with)
	got, err := m.PutReplay(m.ctx, scope, r, with)
	if err == nil && wantErr == nil {
		m.acceptedOf(known, got.Operational, want.Operational)
	}
	m.agree(got, want, err, wantErr, "PutReplay")
}

func (m *machine) someFinals(t *rapid.T) []grapnel.Status {
	return rapid.SliceOfDistinct(rapid.SampledFrom(finals()), rapid.ID).Draw(t, "final statuses")
}

// advancesReplay makes a step over some deliveries, selected or not, and now and then repeats it.
func (m *machine) advancesReplay(t *rapid.T) {
	s := store.ReplayStep{Replay: pick(t, "replay", someReplays...), At: m.tick(t)}
	r := m.model.replay(s.Replay)
	if r != nil {
		s.From = r.Cursor
	}
	if chance(t, "another cursor", 6) {
		s.From = 0
	}
	s.To = s.From
	for n := s.From + 1; n <= int64(len(m.model.rows)) && len(s.Items) < 4; n++ {
		s.To = n
		if !chance(t, "left out", 3) {
			s.Items = append(s.Items, store.Redelivery{Of: n, Ordered: !chance(t, "unordered", 5), Trigger: grapnel.TriggerManual, At: at(-100)})
		}
	}
	ours := s
	ours.From, ours.To, ours.Items = m.deliveries.store(s.From), m.deliveries.store(s.To), slices.Clone(s.Items)
	for i := range ours.Items {
		ours.Items[i].Of = m.deliveries.store(ours.Items[i].Of)
	}
	for range 1 + rapid.IntRange(0, 1).Draw(t, "again") {
		want, wantErr := m.model.advance(s)
		got, err := m.Advance(m.ctx, ours)
		for i := range min(len(got), len(want)) {
			if want[i].Delivery != 0 {
				m.deliveries.pair(got[i].Delivery, want[i].Delivery)
			}
			got[i].Delivery = m.deliveries.model(got[i].Delivery)
			m.headOf(got[i].Head)
		}
		m.agree(got, want, err, wantErr, "Advance")
	}
	m.compareReplays()
}

// looksForCandidates pages through a replay's candidates.
func (m *machine) looksForCandidates(t *rapid.T) {
	scope := pick(t, "scope", append([]store.Scope{everyone, everyone}, someScopes...)...)
	q := store.CandidateQuery{Endpoint: pick(t, "endpoint", someEndpoints...), OverBy: at(float64(rapid.IntRange(-30, 300).Draw(t,
		"over by"))),
		Limit: rapid.IntRange(1, 4).Draw(t, "limit"), Selection: grapnel.Selection{Status: m.someFinals(t)}}
	if chance(t, "types", 3) {
		q.Selection.Types = []string{pick(t, "type", "invoice.*", "*.added"), "user"}
	}
	if chance(t, "keys", 3) {
		q.Selection.Keys = []string{pick(t, "key", someKeys...)}
	}
	if chance(t, "from", 3) {
		q.Selection.From = at(float64(rapid.IntRange(-30, 90).Draw(t, "from seconds")))
	}
	if chance(t, "to", 3) {
		q.Selection.To = at(float64(rapid.IntRange(-30, 90).Draw(t, "to seconds")))
	}
	if chance(t, "class", 4) {
		q.Selection.Class = pick(t, "error class", policy.ClassStatus5xx, policy.ClassTimeout, policy.ClassNone)
	}
	if chance(t, "code", 4) {
		q.Selection.StatusCode = pick(t, "status code", 503, 200)
	}
	if chance(t, "some", 4) {
		for range 3 {
			q.Selection.Deliveries = append(q.Selection.Deliveries, m.some(t))
		}
	}
	if len(m.model.rows) > 0 && chance(t, "up to", 3) {
		q.UpTo = int64(rapid.IntRange(1, len(m.model.rows)).Draw(t, "number"))
	}
	want := m.model.candidates(scope, q)
	q.UpTo = m.deliveries.store(q.UpTo)
	for i, n := range q.Selection.Deliveries {
		q.Selection.Deliveries[i] = m.deliveries.store(n)
	}
	got := m.candidates(scope, q)
	for i := range got {
		m.deliveryOf(&got[i])
	}
	m.same(got, want, "Candidates")
}

// compareReplays compares all replays and their items.
func (m *machine) compareReplays() {
	m.Helper()
	got := m.replays(store.ReplayQuery{})
	for i := range got {
		got[i].Cursor, got[i].UpTo = m.deliveries.model(got[i].Cursor), m.deliveries.model(got[i].UpTo)
	}
	slices.Reverse(got)
	var want []grapnel.Replay
	for _, r := range m.model.replays {
		want = append(want, r.Replay)
		items := m.items(r.ID)
		for i := range items {
			items[i].Original, items[i].Made = m.deliveries.model(items[i].Original), m.deliveries.model(items[i].Made)
		}
		m.same(items, r.made, fmt.Sprint("what ", r.ID, " has made"))
	}
	m.same(got, want, "replays")
	for _, q := range []store.ReplayQuery{{Tenant: acme}, {Endpoint: epA, Before: "rpl_3"}, {Active: true}, {Tenant: bolt,
		Active: true, Endpoint: epX}} {
		var some []grapnel.Replay
		for _, r := range slices.Backward(want) {
			if (q.Tenant == "" || q.Tenant == r.Tenant) && (q.Endpoint == "" || q.Endpoint == r.Endpoint) && !(q.Active && r.Status.Final()) &&
				(q.Before == "" || r.ID < q.Before) {
				some = append(some, r)
			}
		}
		list := m.replays(q)
		for i := range list {
			list[i].Cursor, list[i].UpTo = m.deliveries.model(list[i].Cursor), m.deliveries.model(list[i].UpTo)
		}
		m.same(list, some, fmt.Sprintf("replays of %+v", q))
	}
}

// candidates pages until the list is complete.
func (d *driver) candidates(scope store.Scope, q store.CandidateQuery) (all []grapnel.Delivery) {
	d.Helper()
	for {
		list, resume, err := d.Candidates(d.ctx, scope, q)
		d.must(err, "Candidates")
		if len(list) > q.Limit {
			d.Fatalf("%d candidates of at most %d", len(list), q.Limit)
		}
		if all = append(all, list...); resume == 0 {
			return all
		}
		if resume <= q.After {
			d.Fatalf("the search does not go on: after %d comes %d", q.After, resume)
		}
		q.After = resume
	}
}
