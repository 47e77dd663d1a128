package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// statement is an operation that runs SQL in the writer.
type statement string

func (statement) grows() bool { return false }

func (sql statement) apply(t *tx) error { return t.conn.Exec(string(sql)) }

// Deliveries that were pending when their row got the column of the kind are counted by type too.
func TestDeliveriesFromBeforeTheKindAreCountedByType(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grapnel.db")
	s, err := Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	e := store.Incoming{Targets: []store.Target{{Endpoint: "ep_1"}}, Event: &grapnel.Event{ID: "old", Tenant: "acme", Type: "invoice.paid",
		ContentType: grapnel.JSONType, Data: []byte("1"), AcceptedAt: now}}
	done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{e}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), statement("UPDATE pending SET kind = 0")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), path, Options{Ballast: -1}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Record(t.Context(), []store.Change{{Delivery: done.Heads[0].Delivery, At: now.Add(time.Second), Status: grapnel.Delivered,
		Attempt: &grapnel.Attempt{Number: 1, StatusCode: 200, Class: policy.ClassNone}}}); err != nil {
		t.Fatal(err)
	}
	list, err := s.Totals(t.Context(), store.Everyone(), store.TotalsQuery{By: store.ByType})
	if err != nil || len(list) != 1 || list[0].Name != "invoice.paid" || list[0].Delivered != 1 ||
		list[0].Classes.By()[policy.ClassNone] != 1 {
		t.Errorf("counted %+v, %v", list, err)
	}
}
