package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

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

// TestSeveralErase: several callers erase a tenant's rows at once. None is told that nothing is
// left while something is.
func TestSeveralErase(t *testing.T) {
	t.Parallel()
	from, to := nodes(t, 1)[0], nodes(t, 1)[0]
	settle(t, from, "acme")
	v, _, err := from.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var events []store.Incoming
	for n := range 300 {
		in := incomingTo(fmt.Sprint("more", n), "", "ep_acme")
		in.Event.Tenant = "acme"
		events = append(events, in)
	}
	if _, err := from.Append(t.Context(), store.Batch{Config: v, Events: events}); err != nil {
		t.Fatal(err)
	}
	m := newMove(t, from, to, "acme", "m")
	m.seal()
	m.bring()
	m.open()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			const limit = 40
			for n := limit; n == limit; {
				var err error
				if n, err = from.Erase(t.Context(), "acme", limit); err != nil {
					t.Error(err)
					return
				}
			}
			isEmpty(t, from, "acme")
		})
	}
	all.Wait()
	balanced(t, from)
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
