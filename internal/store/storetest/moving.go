package storetest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Moves plays random histories of a tenant that moves back and forth between two stores and is used
// in its current one. The visible state is compared with the same model as in every other history;
// a move changes nothing in the model.
func Moves(t *testing.T, h Harness) {
	histories(t, h.Histories)
	rapid.Check(t, func(rt *rapid.T) {
		m := &mover{machine: newMachine(rt, t, h), other: h.Open(t)}
		rt.Cleanup(func() {
			if err := m.other.Close(); err != nil {
				rt.Errorf("Close: %v", err)
			}
		})
		m.owners, m.tenants, m.actors = map[string]string{epA: acme, epB: acme, epX: acme}, []string{acme}, []string{acme}
		m.caller = "key_1/"
		_, err := m.PutKey(m.ctx, everyone, apiKey("key_1", acme), store.With{})
		m.must(err, "PutKey")
		m.model.config = m.config()
		m.model.config.Newest = 0
		for ep, tenant := range m.owners {
			m.putEndpoint(everyone, endpoint(ep, tenant), store.With{})
		}
		actions := m.actions()
		actions["move"] = m.moves
		rt.Repeat(actions)
		m.moves(rt)
		m.compare(rt)
		m.sound()
	})
}

// mover is a machine whose tenant moves.
type mover struct {
	*machine
	other store.Store
	count int
	names []name // the ids that deliveries had in other stores
}

type name struct {
	model int64
	then  string
}

// moves moves the tenant to the other store. Now and then the move is cancelled, or a step is
// repeated.
func (m *mover) moves(t *rapid.T) {
	m.Helper()
	m.count++
	from, to := m.Store.(store.Moving), m.other.(store.Moving)
	move := grapnel.Tenancy{Tenant: acme, Move: fmt.Sprint("mov_", m.count), Other: "elsewhere", Since: m.now}
	put := func(s store.Moving, state, was grapnel.TenancyState) {
		m.Helper()
		next := move
		next.State = state
		for range 1 + rapid.IntRange(0, 1).Draw(t, "once more") {
			_, err := s.PutTenancy(m.ctx, next, was, nil)
			m.must(err, "PutTenancy "+string(state))
		}
	}
	put(from, grapnel.TenancyClosing, grapnel.TenancyHere)
	put(from, grapnel.TenancySealed, grapnel.TenancyClosing)
	before, ids := m.listed(m.Store), map[int64]string{}
	for _, d := range m.list(store.DeliveryQuery{}) {
		ids[m.deliveries.model(d.Seq)] = m.IDs().Of(&d)
	}
	if chance(t, "given up", 4) {
		_, err := to.Import(m.ctx, m.Store, move, nil)
		m.must(err, "Import")
		m.must(to.Drop(m.ctx, acme, move.Move), "Drop")
		m.empty(m.other)
		put(from, grapnel.TenancyHere, grapnel.TenancySealed)
		m.learnConfig()
		return
	}
	done, err := to.Import(m.ctx, m.Store, move, nil)
	m.must(err, "Import")
	put(from, grapnel.TenancyGone, grapnel.TenancySealed)
	put(to, grapnel.TenancyHere, grapnel.TenancyArrived)
	for {
		limit := rapid.IntRange(1, 20).Draw(t, "erased at once")
		n, err := from.Erase(m.ctx, acme, limit)
		m.must(err, "Erase")
		if n < limit {
			break
		}
	}
	m.Store, m.other = m.other, m.Store
	m.empty(m.other)
	m.learnConfig()
	m.learnShifts(before, ids)
	if want := int64(len(before)); done.Events != want {
		m.Fatalf("%d events have come, not %d", done.Events, want)
	}
	m.compare(t)
}

// learnConfig copies configuration state that the model does not compute.
func (m *mover) learnConfig() {
	m.Helper()
	config := m.config()
	m.model.config.Version, m.model.config.Tenancies = config.Version, config.Tenancies
}

// listed are the row ids of all events of the tenant.
func (m *mover) listed(s store.Store) map[string]int64 {
	m.Helper()
	list, err := s.EventList(m.ctx, store.Of(acme), store.EventQuery{Limit: math.MaxInt32})
	m.must(err, "EventList")
	numbers := make(map[string]int64)
	for i := range list {
		numbers[list[i].ID] = list[i].Seq
	}
	return numbers
}

// learnShifts computes the offset of the moved row ids. It is the same for all deliveries. With the
// store's Shifts every id that a delivery ever had still finds it, and no other delivery.
func (m *mover) learnShifts(before map[string]int64, ids map[int64]string) {
	m.Helper()
	by, first := int64(0), true
	for id, seq := range m.listed(m.Store) {
		if first {
			by, first = seq-before[id], false
		}
		if seq-before[id] != by {
			m.Fatalf("event %s has moved by %d, others by %d", id, seq-before[id], by)
		}
	}
	m.events = m.events.moved(by)
	shifts := m.model.config.Tenancies[0].Shifts
	for model, id := range ids {
		m.names = append(m.names, name{model, id})
	}
	if len(shifts) > 0 {
		m.deliveries = m.deliveries.moved(shifts[len(shifts)-1].By)
	}
	tenancies := m.model.config.Tenancies
	for _, name := range m.names {
		read := m.IDs().Readings(name.then, tenancies)
		for _, d := range m.list(store.DeliveryQuery{}) {
			is := slices.ContainsFunc(read, func(r grapnel.Reading) bool { return r.Is(&d) })
			if same := name.model == m.deliveries.model(d.Seq); is != same {
				m.Fatalf("%s was the id of delivery %d elsewhere (%t), and is read as %v: %+v", name.then, d.Seq, same, read, tenancies)
			}
		}
	}
}

func (n numbers) moved(by int64) numbers {
	to := newNumbers()
	for ofStore, ofModel := range maps.All(n.toModel) {
		to.pair(ofStore+by, ofModel)
	}
	return to
}

// empty fails if a store shows any row of the tenant.
func (m *mover) empty(s store.Store) {
	m.Helper()
	elsewhere := &driver{TB: m.TB, Store: s, test: m.test, harness: m.harness, ctx: context.WithoutCancel(m.ctx)}
	config := elsewhere.config()
	m.same(len(config.Endpoints)+len(config.Keys), 0, "configuration of who has gone")
	m.same(elsewhere.list(store.DeliveryQuery{Tenant: acme}), []grapnel.Delivery{}, "deliveries of who has gone")
	m.same(m.listed(s), map[string]int64{}, "events of who has gone")
	m.same(elsewhere.audit(store.AuditQuery{}), []grapnel.AuditEntry{}, "entries of who has gone")
	m.same(elsewhere.replays(store.ReplayQuery{}), []grapnel.Replay{}, "replays of who has gone")
	m.same(elsewhere.standings(), []store.Standing{}, "standings of who has gone")
	for _, kind := range someKinds {
		m.same(elsewhere.documents(kind), []store.Document{}, "documents of who has gone")
	}
	counts, err := s.Counts(m.ctx, store.Of(acme))
	m.must(err, "Counts")
	m.same(len(counts), 0, "counts of who has gone")
	totals, err := s.Totals(m.ctx, store.Of(acme), store.TotalsQuery{})
	m.must(err, "Totals")
	m.same(len(totals), 0, "totals of who has gone")
	totals, err = s.Totals(m.ctx, store.Of(acme), store.TotalsQuery{By: store.ByType})
	m.must(err, "Totals")
	m.same(len(totals), 0, "totals by type of who has gone")
	elsewhere.balanced()
}
