package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// TestImportIsAllOrNothing lets an import fail at every table it copies, in every way.
func TestImportIsAllOrNothing(t *testing.T) {
	t.Parallel()
	from, beside, first := behindProxy(t)
	to, there, second := behindProxy(t)
	settle(t, beside, "acme")
	settle(t, there, "zoe")
	m := newMove(t, beside, there, "acme", "m")
	m.seal()
	before := digests(t, there, "zoe")
	whole := rowsOf(digests(t, beside, "acme"))
	ways := map[string]func(context.CancelFunc){
		"given up":      func(cancel context.CancelFunc) { cancel() },
		"the first cut": func(context.CancelFunc) { first.Cut(false) },
		"the other cut": func(context.CancelFunc) { second.Cut(false) },
	}
	for name, fail := range ways {
		for at := 0; at < len(movings); at += 3 {
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			_, err := to.Import(ctx, from, m.Tenancy, func(int64) {
				if n++; n == at+1 {
					fail(cancel)
				}
			})
			cancel()
			if err == nil {
				t.Errorf("%s at table %d: no error", name, at)
			}
			isEmpty(t, there, "acme")
			if config, err := there.Config(t.Context()); err != nil || len(config.Tenancies) != 0 {
				t.Fatalf("%s at table %d: %+v, %v", name, at, config.Tenancies, err)
			}
		}
	}
	// Cut connections are noticed one by one.
	err := errors.New("not yet")
	for range 20 {
		if err == nil || errors.Is(err, errUnknown) {
			break
		}
		n := 0
		_, err = to.Import(t.Context(), from, m.Tenancy, func(int64) {
			if n++; n == len(movings) {
				second.LoseNext("COMMIT")
			}
		})
	}
	if !errors.Is(err, errUnknown) || grapnel.CodeOf(err) != "" {
		t.Fatalf("an answer was lost: %v", err)
	}
	if _, err := there.Import(t.Context(), beside, m.Tenancy, nil); err != nil {
		t.Fatal(err)
	}
	m.open()
	m.erase(100)
	same(t, rowsOf(digests(t, there, "acme")), whole, "what has come")
	same(t, digests(t, there, "zoe"), before, "who was there")
	balanced(t, beside)
	balanced(t, there)
}

// TestImportCompares makes the other database change one row during the copy.
func TestImportCompares(t *testing.T) {
	t.Parallel()
	a, b := nodes(t, 1)[0], nodes(t, 1)[0]
	settle(t, a, "acme")
	m := newMove(t, a, b, "acme", "m")
	m.seal()
	for table, spoil := range map[string]string{"aside": "NEW.why := 'other'", "finished": "NEW.took := NEW.took + 1",
		"mark": "RETURN NULL", "event": "NEW.data := NULL"} {
		on(t, b.pool.Config().ConnString(), func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), fmt.Sprintf(`CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; RETURN NEW; END $$;
				CREATE TRIGGER spoil BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION spoil()`, spoil, table))
			return err
		})
		_, err := b.Import(t.Context(), a, m.Tenancy, nil)
		if err == nil || !strings.Contains(err.Error(), table) {
			t.Errorf("%s is not as it was: %v", table, err)
		}
		isEmpty(t, b, "acme")
		on(t, b.pool.Config().ConnString(), func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), "DROP FUNCTION spoil() CASCADE")
			return err
		})
	}
	m.bring()
}

// TestImportMeetsOthers imports an event whose id another tenant uses there, and then an object
// whose id another tenant uses there.
func TestImportMeetsOthers(t *testing.T) {
	t.Parallel()
	a, b := nodes(t, 1)[0], nodes(t, 1)[0]
	acme, zoe := settle(t, a, "acme"), settle(t, b, "zoe")
	zoe.append(zoe.event("acme_1", "", zoe.endpoint))
	m := newMove(t, a, b, "acme", "m")
	m.seal()
	m.bring()
	for _, tenant := range []string{"acme", "zoe"} {
		if e, _, err := b.Event(t.Context(), store.Everyone(), tenant, "acme_1"); err != nil || e.Tenant != tenant {
			t.Errorf("an id of both in %s: %+v, %v", tenant, e, err)
		}
	}
	acme.must(b.Drop(t.Context(), "acme", "m"))
	if e, _, err := b.Event(t.Context(), store.Everyone(), "", "acme_1"); err != nil || e.Tenant != "zoe" {
		t.Errorf("what is left of it: %+v, %v", e, err)
	}
	isEmpty(t, b, "acme")
	source := grapnel.Source{ID: "src_acme", Tenant: "zoe", Name: "other", CreatedAt: at(0)}
	_, err := zoe.PutSource(t.Context(), store.Everyone(), source, store.With{})
	acme.must(err)
	_, err = b.Import(t.Context(), a, m.Tenancy, nil)
	if grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(), "src_acme") {
		t.Errorf("an id of a source of another tenant: %v", err)
	}
	_, err = zoe.DeleteSource(t.Context(), store.Everyone(), "src_acme", store.With{})
	acme.must(err)
	isEmpty(t, b, "acme")
	acme.must(zoe.SetAside(t.Context(), grapnel.Aside{ID: "req_x", Tenant: "acme", Why: grapnel.AsideRefused}))
	m.refused(grapnel.CodeConflict, "somebody of the same name")
}

// TestMoveTakesLanesOfWhoIsForgotten: an endpoint that events named, but that got no delivery, has
// lanes. After its configuration is removed the lanes still belong to the tenant: they move, and do
// not block a tenant that returns.
func TestMoveTakesLanesOfWhoIsForgotten(t *testing.T) {
	t.Parallel()
	a, b := nodes(t, 1)[0], nodes(t, 1)[0]
	acme := settle(t, a, "acme")
	lanes := func(s *Store) (n int) {
		t.Helper()
		const lanes = "SELECT count(*) FROM lane JOIN target t ON t.number = target WHERE endpoint = 'ep_never'"
		acme.must(s.pool.QueryRow(t.Context(), lanes).Scan(&n))
		return n
	}
	never := acme.ep("ep_never")
	put, err := a.PutEndpoint(t.Context(), store.Of("acme"), never, store.With{})
	acme.must(err)
	acme.append(acme.event("acme_1", "k", "ep_never")) // the event is a duplicate, so no delivery is created
	never.DeletedAt, never.Revision = at(20), put.Revision
	_, err = a.PutEndpoint(t.Context(), store.Of("acme"), never, store.With{})
	acme.must(err)
	acme.must(a.RemoveEndpoint(t.Context(), "ep_never"))
	counts, err := a.Counts(t.Context(), store.Of("acme"))
	acme.must(err)
	if of, counted := counts["ep_never"]; counted || lanes(a) != 1 {
		t.Fatalf("there are %d lanes, counted %v", lanes(a), of)
	}
	for i, from := range []*Store{a, b} {
		m := newMove(t, from, []*Store{b, a}[i], "acme", fmt.Sprint("mov_", i))
		m.seal()
		m.bring()
		m.open()
		m.erase(100)
		if lanes(m.from) != 0 || lanes(m.to) != 1 {
			t.Errorf("move %d: %d lanes have stayed, %d have come", i, lanes(m.from), lanes(m.to))
		}
	}
}

// TestNoDayIsClearedWhileATenantLeaves: a reader with an older snapshot would not see the rows that
// clearing rewrites, so clearing has to wait.
func TestNoDayIsClearedWhileATenantLeaves(t *testing.T) {
	t.Parallel()
	s := nodes(t, 1)[0]
	clearing := func() error {
		return s.inDays(t.Context(), func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), exclusively)
			return err
		})
	}
	err := s.leaving(t.Context(), func(context.Context, pgx.Tx) error {
		if err := clearing(); stateOf(err) != stateLocked {
			t.Errorf("a day can be cleared while a tenant leaves: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := clearing(); err != nil {
		t.Errorf("and not afterwards: %v", err)
	}
}

// TestSeveralMove: tenants move into one database at the same time, from databases with the same
// row ids, while others move out.
func TestSeveralMove(t *testing.T) {
	t.Parallel()
	to := open(t, database(t), Options{CallersClock: true, Bounds: Bounds{Conns: Conns{Reads: 3}}})
	t.Cleanup(func() { _ = to.Close() })
	settle(t, to, "zoe")
	var all sync.WaitGroup
	for i := range 5 {
		from := nodes(t, 1)[0]
		tenant := fmt.Sprint("tenant", i)
		settle(t, from, tenant)
		m := newMove(t, from, to, tenant, "m")
		before := rowsOf(digests(t, from, tenant))
		all.Go(func() {
			m.seal()
			if _, err := to.Import(t.Context(), from, m.Tenancy, nil); err != nil {
				t.Error(err)
				return
			}
			m.open()
			same(t, rowsOf(digests(t, to, tenant)), before, tenant)
		})
	}
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			v, _, err := to.Version(t.Context())
			in := incomingTo(fmt.Sprint("other", n), "k", "ep_other")
			in.Event.Tenant = "other"
			if err == nil {
				_, err = to.Append(t.Context(), store.Batch{Config: v, Events: []store.Incoming{in}})
			}
			if err != nil && !errors.Is(err, store.ErrStale) {
				t.Error(err)
				return
			}
		}
	})
	all.Wait()
	close(stop)
	writer.Wait()
	balanced(t, to)
}

// TestShiftedIDs compares the SQL that shifts ids with the Go code of ids.
func TestShiftedIDs(t *testing.T) {
	t.Parallel()
	s := nodes(t, 1)[0]
	for _, seq := range []int64{1, 31, 32, 1 << 36, 20_500<<36 + 12_345, 1<<62 - 1} {
		for _, created := range []time.Time{time.UnixMilli(0), at(0).Add(time.Millisecond), time.UnixMilli(1<<48 - 1)} {
			for _, by := range []int64{0, 1, 1 << 35} {
				var got string
				if err := s.pool.QueryRow(t.Context(), "SELECT "+shiftedID("x.id", by)+" FROM (SELECT $1::text AS id) x",
					grapnel.PlainDeliveryID(created, seq)).Scan(&got); err != nil {
					t.Fatal(err)
				}
				if want := grapnel.PlainDeliveryID(created, seq+by); got != want {
					t.Errorf("%d at %v plus %d: %s, want %s", seq, created, by, got, want)
				}
			}
		}
	}
	for _, id := range []string{"", "dlv_1", "evt_" + strings.Repeat("0", 26), "dlv_" + strings.Repeat("8", 26),
		"dlv_" + strings.Repeat("0", 25) + "u"} {
		var got string
		if err := s.pool.QueryRow(t.Context(), "SELECT "+shiftedID("x.id", 5)+" FROM (SELECT $1::text AS id) x",
			id).Scan(&got); err != nil || got != id {
			t.Errorf("%q became %q, %v", id, got, err)
		}
	}
}
