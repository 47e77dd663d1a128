package storetest

import (
	"fmt"
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// purges calls Purge. Now and then it does so a hundred days later, so that hours become days.
func (m *machine) purges(t *rapid.T) {
	keep := store.Keep{Now: m.tick(t).Add(pick(t, "later", 0, 0, 0, 100*24*time.Hour)), For: m.length(t)}
	for range rapid.IntRange(0, 2).Draw(t, "rules") {
		keep.Rules = append(keep.Rules, store.KeepRule{Tenant: pick(t, "tenant", "", acme, bolt), Type: pick(t, "type", somePatterns...),
			For: m.length(t)})
	}
	limit := pick(t, "limit", 0, 1, 2, 5, 1000)
	want := m.model.purge(keep, limit)
	got, err := m.Purge(m.ctx, keep, limit)
	m.purged = true
	m.agree(got, want, err, nil, "Purge")
	m.compare(t)
}

// erases calls EraseEvents with a few of the newest events.
func (m *machine) erases(t *rapid.T) {
	q := store.Erasure{Tenant: pick(t, "tenant", acme, acme, bolt), At: m.tick(t), Keys: chance(t, "with keys", 2), LeaveDead: chance(t, "without dead letters", 2)}
	for seq := max(1, int64(len(m.model.events))-4); seq <= int64(len(m.model.events)); seq++ {
		if chance(t, "chosen", 2) {
			q.Events = append(q.Events, seq)
		}
	}
	want := m.model.erase(q)
	q.Events = each(q.Events, func(seq *int64) int64 { return m.events.store(*seq) })
	got, err := m.EraseEvents(m.ctx, q)
	for i := range got.Pending {
		got.Pending[i] = m.events.model(got.Pending[i])
	}
	m.purged = m.purged || q.Keys
	m.agree(got, want, err, nil, "EraseEvents")
	m.compare(t)
}

func (m *machine) length(t *rapid.T) time.Duration {
	return pick(t, "kept for", 0, 10*time.Second, time.Minute, 200*24*time.Hour)
}

func (m *machine) annotates(t *rapid.T) {
	a := store.Annotation{Delivery: m.some(t), At: m.tick(t)}
	if chance(t, "any delivery", 2) && len(m.model.rows) > 0 {
		a.Delivery = int64(rapid.IntRange(1, len(m.model.rows)).Draw(t, "delivery"))
	}
	if chance(t, "note", 2) {
		note := pick(t, "text", "", "looked at it")
		a.Note = &note
	}
	if chance(t, "discard", 2) {
		a.Discard = pick(t, "reason", "a test", "known")
	}
	if chance(t, "with entry", 4) {
		a.Audit = m.entry(t)
	}
	scope := pick(t, "scope", append([]store.Scope{everyone, everyone, everyone}, someScopes...)...)
	wantErr, number := m.model.annotate(scope, a), a.Delivery
	a.Delivery = m.deliveries.store(a.Delivery)
	m.agree(nil, nil, m.Annotate(m.ctx, scope, a), wantErr, "Annotate")
	m.show(everyone, number)
}

func (m *machine) totals(t *rapid.T) {
	q := store.TotalsQuery{Endpoint: pick(t, "endpoint", "", epA, epX, "ep_unknown"), Tenant: pick(t, "tenant", "", "", acme, "nobody"),
		Daily: chance(t, "daily", 2), By: pick(t, "by", store.ByTime, store.ByEndpoint, store.ByTenant, store.ByType),
		Duplicates: chance(t, "duplicates", 2)}
	q.Type = pick(t, "type", "", "", "", someTypes[0], "nobody.knows")
	bound := func(what string) time.Time {
		if chance(t, what, 2) {
			return at(float64(rapid.IntRange(-2, 2).Draw(t, what)) * 3600 / 2)
		}
		return time.Time{}
	}
	q.From, q.To = bound("from"), bound("to")
	m.counted(pick(t, "scope", someScopes...), q)
}

// counted compares totals.
func (m *machine) counted(scope store.Scope, q store.TotalsQuery) {
	m.Helper()
	got, err := m.Totals(m.ctx, scope, q)
	m.agree(got, m.model.totals(scope, q), err, nil, fmt.Sprintf("Totals %+v", q))
}

// conserved checks that created = pending + finished + purged, and that the totals count every
// finished delivery that is not Uncounted.
func (m *machine) conserved() {
	m.Helper()
	m.balanced()
	var ended, want int64
	for _, b := range m.allTotals() {
		ended += over(&b.Totals)
	}
	for _, r := range m.model.rows {
		if r.Status.Final() && !r.uncounted {
			want++
		}
	}
	m.same(ended, want, "all that ended, in totals")
	for _, by := range []store.Grouping{store.ByTime, store.ByEndpoint, store.ByTenant, store.ByType} {
		m.counted(everyone, store.TotalsQuery{By: by, Duplicates: true})
	}
}

// over is the number of finished deliveries in totals.
func over(t *grapnel.Totals) int64 {
	return t.Delivered + t.Failed + t.Dropped + t.Discarded + t.Skipped
}

// compare compares the whole visible state except attempts.
func (m *machine) compare(*rapid.T) {
	m.Helper()
	config, want := m.config(), m.model.config
	config.Newest, want.Newest = m.deliveries.model(config.Newest), int64(len(m.model.rows))
	m.same(config, want, "Config")
	m.ask(everyone, store.EventQuery{Limit: math.MaxInt32}, store.DeliveryQuery{Limit: math.MaxInt32})
	m.same(m.standings(), m.model.standings, "Standings")
	m.compareReplays()
	m.compareLeases()
	m.compareBacklogs()
	m.compareDocuments()
	m.learnEntries()
	m.conserved()
	for _, ep := range someEndpoints {
		for _, limit := range []int{2, math.MaxInt32} {
			got, err := m.Heads(m.ctx, ep, limit)
			for i := range got {
				m.headOf(&got[i])
			}
			m.agree(got, m.model.heads(ep, limit), err, nil, "Heads")
		}
	}
}

// actions are all actions of the machine.
func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"publish": m.publishes, "publish more": m.publishes, "record": m.records, "record more": m.records, "end": m.ends,
		"again": m.redelivers, "configure": m.configures, "remove": m.removes, "answers": m.answers, "query": m.queries,
		"compare": m.compare, "makeDue": m.makesDue, "note": m.notes, "journal": m.journals,
		"purge": m.purges, "erase": m.erases,
		"end a tenant": func(t *rapid.T) { m.endsTenant(t); m.compare(t) }, "annotate": m.annotates, "totals": m.totals,
		"order replay": m.ordersReplay, "advance replay": m.advancesReplay, "look for candidates": m.looksForCandidates,
		"claim": m.claims, "claim more": m.claims, "extend": m.extends, "give up": m.givesUp,
		"documents": m.writesDocuments, "more documents": m.writesDocuments, "clear documents": m.clearsDocuments,
	}
}
