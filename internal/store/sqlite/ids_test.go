package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestIDsOfBefore: in a database in which ids were unique among all tenants, a tenant's are still
// its own, and another tenant may use them.
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
