package sqlite

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestIDsOfBefore: in a database in which ids were unique among all tenants, a tenant's ids stay
// its own, and another tenant may use them too.
func TestIDsOfBefore(t *testing.T) {
	path, conn := asBefore(t, "_ids_by_tenant.sql")
	err := conn.Exec(`INSERT INTO kind VALUES (1, 'acme', 'invoice.paid', '');
		INSERT INTO event VALUES (1, 'order-1', 1, '', 0, 5000000, 5000000, 1, 0, NULL, NULL, 0, 0, NULL, NULL)`)
	if err == nil {
		err = migrate(conn, migrations, anySchema)
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		tenant, kind        string
		duplicate, conflict bool
	}{
		{"acme", "invoice.paid", true, false},
		{"acme", "invoice.sent", false, true},
		{"bolt", "invoice.paid", false, false},
		{"bolt", "invoice.paid", true, false},
		{"bolt", "invoice.sent", false, true},
	} {
		e := &grapnel.Event{ID: "order-1", Tenant: c.tenant, Type: c.kind, AcceptedAt: time.Unix(10, 0), OccurredAt: time.Unix(10, 0)}
		done, err := s.Append(context.Background(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e}}})
		if err != nil || done.Events[0].Duplicate != c.duplicate || done.Events[0].Conflict != c.conflict {
			t.Errorf("%s of %s: %+v, %v", c.kind, c.tenant, done, err)
		}
	}
}

// TestDeliveryIDsOfBefore: deliveries created when ids contained their row ids in clear are found
// by those ids and by the new ones. Later deliveries are found only by the new ones.
func TestDeliveryIDsOfBefore(t *testing.T) {
	path, conn := asBefore(t, "_id_key.sql")
	err := conn.Exec(`INSERT INTO tenant VALUES (1, 'acme');
		INSERT INTO kind VALUES (1, 'acme', 'invoice.paid', ''); INSERT INTO target VALUES (1, 'ep_a');
		INSERT INTO event VALUES (1, 'order-1', 1, '', 0, 5000000, 5000000, 7, 1, NULL, NULL, 0, 0, NULL, NULL);
		INSERT INTO finished (seq, target, event, tenant, status, position, attempts, created, finished, replay_of)
			VALUES (7, 1, 1, 1, 3, 0, 0, 5000000, 6000000, 0)`)
	if err == nil {
		err = migrate(conn, migrations, anySchema)
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put, err := s.PutEndpoint(t.Context(), store.Everyone(), grapnel.Endpoint{ID: "ep_b", Tenant: "acme",
		Policy: policy.Presets()[0]}, store.With{})
	if err != nil {
		t.Fatal(err)
	}
	e := &grapnel.Event{ID: "order-2", Tenant: "acme", Type: "invoice.paid", AcceptedAt: time.Unix(5, 0), OccurredAt: time.Unix(5, 0)}
	done, err := s.Append(t.Context(), store.Batch{Config: put.Version, Events: []store.Incoming{{Event: e,
		Targets: []store.Target{{Endpoint: "ep_b"}}}}})
	if err != nil || len(done.Heads) != 1 || done.Heads[0].Delivery <= 7 {
		t.Fatalf("%+v, %v", done, err)
	}
	found := func(id string) (all []int64) {
		if r, err := s.IDs().Read(id); err == nil {
			d, err := s.Delivery(t.Context(), store.Of("acme"), r.Seq)
			if err == nil && r.Is(d) {
				all = append(all, d.Seq)
			} else if err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound {
				t.Error(err)
			}
		}
		return all
	}
	at, later := time.Unix(5, 0), done.Heads[0].Delivery
	for id, want := range map[string]int64{
		grapnel.PlainDeliveryID(at, 7): 7, s.IDs().Delivery(at, 7): 7, s.IDs().Delivery(at, later): later,
		grapnel.PlainDeliveryID(at, later): 0, grapnel.PlainDeliveryID(at.Add(time.Millisecond), 7): 0,
	} {
		if got := found(id); len(got) > 1 || len(got) == 1 != (want > 0) || want > 0 && got[0] != want {
			t.Errorf("%s is the id of %v, want %d", id, got, want)
		}
	}
}

// TestEachDatabaseHasItsKey: each database has a key of its own, which never changes.
func TestEachDatabaseHasItsKey(t *testing.T) {
	dir := fast(t)
	key := func(name string) grapnel.IDKey {
		s, err := Open(t.Context(), filepath.Join(dir, name), Options{Ballast: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.IDs().Key()
	}
	one, again, other := key("one.db"), key("one.db"), key("other.db")
	if len(one.Secret) != 32 || one.Plain != 0 || !bytes.Equal(one.Secret, again.Secret) || bytes.Equal(one.Secret, other.Secret) {
		t.Error("the key of a database is not its own, or not the same for ever")
	}
}
