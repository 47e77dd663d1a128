package postgres

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
)

// TestMoves plays histories of a tenant that moves back and forth.
func TestMoves(t *testing.T) {
	t.Parallel()
	used := make(map[string]*Store)
	storetest.Moves(t, storetest.Harness{Histories: 3, Open: func(t *testing.T) store.Store {
		for url, s := range used {
			if isClosed(s) {
				empty(t, url)
				used[url] = open(t, url, Options{CallersClock: true})
				return used[url]
			}
		}
		url := database(t)
		used[url] = open(t, url, Options{CallersClock: true})
		return used[url]
	}})
}

// TestEveryColumnMoves compares movings and staying with the tables of the schema.
func TestEveryColumnMoves(t *testing.T) {
	t.Parallel()
	s := nodes(t, 1)[0]
	rows, err := s.pool.Query(t.Context(), `SELECT c.table_name::text, array_agg(c.column_name::text ORDER BY c.column_name) FROM information_schema.columns c
		JOIN pg_class p ON p.oid = c.table_name::regclass AND NOT p.relispartition WHERE c.table_schema = 'public' GROUP BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string][]string)
	var table string
	var columns []string
	if _, err := pgx.ForEachRow(rows, []any{&table, &columns}, func() error { there[table] = columns; return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range movings {
		names := movings[i].names()
		slices.Sort(names)
		same(t, names, there[movings[i].table], movings[i].table)
		delete(there, movings[i].table)
	}
	for table := range there {
		if !slices.Contains(staying, table) {
			t.Errorf("nobody says whether rows of %s move", table)
		}
	}
}

// steps are the steps of a move.
type steps struct {
	*testing.T
	from, to *Store
	grapnel.Tenancy
}

func newMove(t *testing.T, from, to *Store, tenant, move string) *steps {
	return &steps{T: t, from: from, to: to, Tenancy: grapnel.Tenancy{Tenant: tenant, Move: move, Other: "elsewhere", Since: at(1)}}
}

func (m *steps) put(s *Store, state, from grapnel.TenancyState) {
	m.Helper()
	next := m.Tenancy
	next.State = state
	if _, err := s.PutTenancy(m.Context(), next, from, nil); err != nil {
		m.Fatalf("%s: %v", state, err)
	}
}

func (m *steps) seal() {
	m.Helper()
	m.put(m.from, grapnel.TenancyClosing, grapnel.TenancyHere)
	m.put(m.from, grapnel.TenancySealed, grapnel.TenancyClosing)
}

func (m *steps) bring() store.Imported {
	m.Helper()
	done, err := m.to.Import(m.Context(), m.from, m.Tenancy, nil)
	if err != nil {
		m.Fatal(err)
	}
	return done
}

func (m *steps) refused(want grapnel.Code, what string) {
	m.Helper()
	if _, err := m.to.Import(m.Context(), m.from, m.Tenancy, nil); grapnel.CodeOf(err) != want {
		m.Errorf("%s: %v, want %s", what, err, want)
	}
}

func (m *steps) open() {
	m.Helper()
	m.put(m.from, grapnel.TenancyGone, grapnel.TenancySealed)
	m.put(m.to, grapnel.TenancyHere, grapnel.TenancyArrived)
}

func (m *steps) erase(limit int) {
	m.Helper()
	for n := limit; n == limit; {
		var err error
		if n, err = m.from.Erase(m.Context(), m.Tenant, limit); err != nil {
			m.Fatal(err)
		}
		balanced(m.T, m.from)
	}
}

func rowsOf(all map[string]digest) map[string]int64 {
	rows := make(map[string]int64)
	for table, d := range all {
		rows[table] = d.rows
	}
	return rows
}

func isEmpty(t *testing.T, s *Store, tenant string) {
	t.Helper()
	for table, d := range digests(t, s, tenant) {
		if d.rows != 0 && table != "audit" {
			t.Errorf("there are %d rows in %s", d.rows, table)
		}
	}
}

// TestMove moves a tenant with rows of every kind to another store; both stores have other tenants.
// Then it works with the tenant there.
func TestMove(t *testing.T) {
	t.Parallel()
	a, b := nodes(t, 1)[0], nodes(t, 1)[0]
	bolt, zoe := settle(t, a, "bolt"), settle(t, b, "zoe")
	acme := settle(t, a, "acme")
	settle(t, b, "yves")
	beside := rowsOf(digests(t, a, "bolt"))
	there := digests(t, b, "zoe")
	before := digests(t, a, "acme")
	was, err := a.Config(t.Context())
	acme.must(err)
	m := newMove(t, a, b, "acme", "mov_1")
	m.refused(grapnel.CodeConflict, "one that is not sealed")
	m.seal()
	if _, err := b.Import(t.Context(), nil, m.Tenancy, nil); grapnel.CodeOf(err) != grapnel.CodeInvalid {
		t.Errorf("from no database: %v", err)
	}
	if _, err := a.Import(t.Context(), a, m.Tenancy, nil); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("from itself: %v", err)
	}
	another := *m
	another.Move = "mov_2"
	another.refused(grapnel.CodeConflict, "another move")
	moved := digests(t, a, "acme") // no table of the tenant contains the tenancy
	same(t, moved, before, "sealed")

	// An earlier program stores Known records without a kind.
	if _, err := a.pool.Exec(t.Context(), "UPDATE known SET kind = NULL"); err != nil {
		t.Fatal(err)
	}
	done := m.bring()
	same(t, rowsOf(digests(t, b, "acme")), rowsOf(before), "rows")
	if done.Events != before["event"].rows || done.Waits != before["pending"].rows || done.Over != before["finished"].rows {
		t.Errorf("told of %+v", done)
	}
	if again := m.bring(); again != (store.Imported{}) {
		t.Errorf("a second time there came %+v", again)
	}
	acme.Store = b
	if err := writes[0].do(acme); !errors.Is(err, store.ErrSealed) {
		t.Errorf("written to who has arrived: %v", err)
	}
	balanced(t, a)
	balanced(t, b)
	m.open()
	same(t, rowsOf(digests(t, a, "bolt")), beside, "who stays")
	same(t, digests(t, b, "zoe"), there, "who was there")
	config, err := b.Config(t.Context())
	acme.must(err)
	shift := config.Tenancies[0].Shifts[0]
	same(t, of(config.Keys, "acme", func(k grapnel.Key) string { return k.Tenant }), of(was.Keys, "acme",
		func(k grapnel.Key) string { return k.Tenant }), "keys")
	same(t, len(of(config.Endpoints, "acme", func(e grapnel.Endpoint) string { return e.Tenant })), 3, "endpoints")
	gone, err := a.Config(t.Context())
	acme.must(err)
	same(t, len(gone.Endpoints), 3, "endpoints of who stays")
	same(t, gone.Tenancies[0].State, grapnel.TenancyGone, "where it is")

	// References to deliveries use the new row ids.
	ctx, mine := t.Context(), store.Of("acme")
	failed, err := b.Delivery(ctx, mine, acme.failed.Seq+shift.By)
	acme.must(err)
	list, err := b.AuditList(ctx, mine, store.AuditQuery{Delivery: failed.PlainID(), Limit: 10})
	acme.must(err)
	if len(list) != 1 || list[0].Reason != "looked at" {
		t.Errorf("entries about %s: %+v", failed.PlainID(), list)
	}
	r, err := b.Replay(ctx, mine, "rpl_acme")
	acme.must(err)
	same(t, r.Selection.Deliveries, []int64{failed.Seq, failed.Seq + 1}, "what the replay is about")
	same(t, r.Reason, `"deliveries":[1]`, "its reason")
	items, err := b.ReplayItems(ctx, mine, r.ID, 0, 10)
	acme.must(err)
	if len(items) != 1 || items[0].Original != failed.Seq || failed.Mark.ReplayedAs != items[0].Made || r.Cursor != failed.Seq {
		t.Errorf("the replay has made %+v, and is at %d; the delivery has %+v", items, r.Cursor, failed.Mark)
	}
	aside, err := b.Aside(ctx, mine, "req_acme")
	acme.must(err)
	same(t, string(aside.Body), "?", "a request that was set aside")

	// The tenant works as if it had not moved.
	again := acme.event("acme_5", "", acme.endpoint)
	again.Known = acme.known("a", 200)
	if placed := acme.append(again).Events[0]; !placed.Duplicate || placed.ID != "acme_1" {
		t.Errorf("what is known is %+v", placed)
	}
	if placed := acme.append(acme.event("acme_2", "k", acme.endpoint)).Events[0]; !placed.Duplicate {
		t.Errorf("what is there is %+v", placed)
	}
	once, err := b.Again(ctx, mine, store.Redelivery{Of: failed.Seq, At: at(60), Once: acme.once("again")})
	acme.must(err)
	if once.Answer == nil || string(once.Answer.Body) != "made acme" {
		t.Errorf("what was answered is %+v", once)
	}
	lease, err := b.Lease(ctx, acme.lease.Token)
	acme.must(err)
	same(t, lease.Delivery, acme.lease.Delivery+shift.By, "the delivery of the lease")
	acked := acme.record(store.Change{Delivery: lease.Delivery, Status: grapnel.Delivered, At: at(61),
		Lease:   &store.Settlement{Token: lease.Token},
		Attempt: &grapnel.Attempt{Number: 1}})
	if !acked[0].Applied {
		t.Errorf("the lease cannot be acked: %+v", acked)
	}
	acme.append(acme.event("acme_6", "k", acme.endpoint))
	_, ds, err := b.Event(ctx, mine, "", "acme_6")
	acme.must(err)
	if want := int64(5); ds[0].Position != want || ds[0].Seq <= shift.Last+shift.By {
		t.Errorf("the next delivery of the lane has position %d and number %d", ds[0].Position, ds[0].Seq)
	}
	for tenant, s := range map[string]*Store{"bolt": a, "zoe": b} {
		h := map[string]*household{"bolt": bolt, "zoe": zoe}[tenant]
		if done := h.record(deliver(h.waits[0])); !done[0].Applied {
			t.Errorf("%s cannot go on in %p: %+v", tenant, s, done)
		}
	}

	// It moves back, once all its rows are erased there.
	back := newMove(t, b, a, "acme", "mov_3")
	back.seal()
	back.refused(grapnel.CodeConflict, "before anything is erased")
	if _, err := a.Erase(ctx, "acme", 7); err != nil {
		t.Fatal(err)
	}
	back.refused(grapnel.CodeConflict, "before all is erased")
	m.erase(3)
	isEmpty(t, a, "acme")
	home := digests(t, b, "acme")
	back.bring()
	if err := a.Drop(ctx, "acme", "mov_9"); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("dropping by another move: %v", err)
	}
	for range 2 {
		if err := a.Drop(ctx, "acme", "mov_3"); err != nil {
			t.Fatal(err)
		}
	}
	isEmpty(t, a, "acme")
	if config, err := a.Config(ctx); err != nil || len(config.Tenancies) != 1 || config.Tenancies[0].State != grapnel.TenancyGone ||
		config.Tenancies[0].Move != "mov_1" {
		t.Errorf("after dropping: %+v, %v", config.Tenancies, err)
	}
	balanced(t, a)
	balanced(t, b)
	back.bring()
	back.open()
	if err := a.Drop(ctx, "acme", "mov_3"); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("dropping who is here: %v", err)
	}
	back.erase(1000)
	same(t, rowsOf(digests(t, a, "acme")), rowsOf(home), "rows, at home")
	config, err = a.Config(ctx)
	acme.must(err)
	shifts := config.Tenancies[0].Shifts
	if len(shifts) != 2 || shifts[0].First != shift.First {
		t.Fatalf("shifts are %+v", shifts)
	}
	if _, err := a.Delivery(ctx, mine, acme.failed.Seq+shifts[0].By); err != nil {
		t.Errorf("by the first number: %v", err)
	}
	if d, err := a.Delivery(ctx, mine, failed.Seq+shifts[1].By); err != nil || !d.CreatedAt.Equal(failed.CreatedAt) {
		t.Errorf("by the second number: %+v, %v", d, err)
	}
	balanced(t, a)
	balanced(t, b)
}

func of[T any](all []T, tenant string, whose func(T) string) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return whose(one) != tenant })
}

// TestMoveThroughAPooler holds no connection for longer than a transaction. One of the tenants has
// only a key.
func TestMoveThroughAPooler(t *testing.T) {
	p := pooler(t)
	a, b := nodesAt(t, p.URL(made(t)), 1)[0], nodesAt(t, p.URL(made(t)), 1)[0]
	settle(t, a, "acme")
	if _, err := a.PutKey(t.Context(), store.Everyone(), grapnel.Key{ID: "key_bare", Tenant: "bare"}, store.With{}); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"acme", "bare"} {
		m := newMove(t, a, b, tenant, "m")
		before := rowsOf(digests(t, a, tenant))
		m.seal()
		m.bring()
		if err := b.Drop(t.Context(), tenant, "m"); err != nil {
			t.Fatal(err)
		}
		isEmpty(t, b, tenant)
		m.bring()
		m.open()
		m.erase(10)
		same(t, rowsOf(digests(t, b, tenant)), before, tenant)
	}
}

// TestPutTenancy tries all steps in all states.
func TestPutTenancy(t *testing.T) {
	t.Parallel()
	s := nodes(t, 1)[0]
	put := func(state, from grapnel.TenancyState, move string, want grapnel.Code) {
		t.Helper()
		before := version(t, s)
		put, err := s.PutTenancy(t.Context(), grapnel.Tenancy{Tenant: "acme", State: state, Move: move, Other: "b", Since: at(1)}, from,
			&grapnel.AuditEntry{Tenant: "acme", At: at(1), Reason: string(state)})
		if grapnel.CodeOf(err) != want || err == nil && put.Version != version(t, s) || err != nil && version(t, s) != before {
			t.Errorf("%s from %q: %+v, %v", state, from, put, err)
		}
	}
	put(grapnel.TenancyArrived, "", "m", grapnel.CodeInvalid)
	put("", "", "m", grapnel.CodeInvalid)
	put(grapnel.TenancySealed, grapnel.TenancyClosing, "m", grapnel.CodeConflict)
	put(grapnel.TenancyClosing, "", "m", "")
	v := version(t, s)
	put(grapnel.TenancyClosing, grapnel.TenancyHere, "m", "")
	if version(t, s) != v {
		t.Error("what was said before made a new version")
	}
	put(grapnel.TenancyClosing, grapnel.TenancyHere, "m2", grapnel.CodeConflict)
	put(grapnel.TenancySealed, grapnel.TenancyClosing, "m2", grapnel.CodeConflict)
	put(grapnel.TenancyHere, grapnel.TenancyClosing, "m", "")
	put(grapnel.TenancyHere, grapnel.TenancyClosing, "m", "")
	put(grapnel.TenancyClosing, "", "m2", "")
	put(grapnel.TenancySealed, grapnel.TenancyClosing, "m2", "")
	put(grapnel.TenancyGone, grapnel.TenancyClosing, "m2", grapnel.CodeConflict)
	put(grapnel.TenancyGone, grapnel.TenancySealed, "m2", "")
	config, err := s.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []grapnel.Tenancy{{Tenant: "acme", State: grapnel.TenancyGone, Move: "m2", Other: "b", Since: at(1)}}
	if diff := cmp.Diff(want, config.Tenancies, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	list, err := s.AuditList(t.Context(), store.Everyone(), store.AuditQuery{Limit: 100})
	if err != nil || len(list) != 4 {
		t.Errorf("entries: %+v, %v", list, err)
	}
}

// TestSealIsAMoment seals a tenant while others write to it. Every acknowledged write is stored,
// and after the seal nothing changes.
func TestSealIsAMoment(t *testing.T) {
	t.Parallel()
	all := nodes(t, 3)
	acme := settle(t, all[0], "acme")
	var writers sync.WaitGroup
	sealed := make(chan struct{})
	var mu sync.Mutex
	var accepted []string
	for i, s := range all {
		for j := range 3 {
			writers.Go(func() {
				for n := 0; ; n++ {
					id := fmt.Sprintf("w%d_%d_%d", i, j, n)
					in := acme.event(id, fmt.Sprint("k", n%3), acme.endpoint)
					v, _, err := s.Version(t.Context())
					if err == nil {
						_, err = s.Append(t.Context(), store.Batch{Config: v, Events: []store.Incoming{in}})
					}
					switch {
					case errors.Is(err, store.ErrSealed):
						select {
						case <-sealed:
							return
						default:
						}
					case errors.Is(err, store.ErrStale):
					case err != nil:
						t.Error(err)
						return
					default:
						mu.Lock()
						accepted = append(accepted, id)
						mu.Unlock()
					}
				}
			})
		}
	}
	m := newMove(t, all[1], nil, "acme", "m")
	m.seal()
	before := digests(t, all[2], "acme")
	close(sealed)
	writers.Wait()
	same(t, digests(t, all[2], "acme"), before, "after it was sealed")
	to := nodes(t, 1)[0]
	m.to = to
	m.bring()
	for _, id := range accepted {
		if _, _, err := to.Event(t.Context(), store.Of("acme"), "", id); err != nil {
			t.Errorf("%s was accepted: %v", id, err)
		}
	}
}
