package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestNoEntryIsAddedBelowTheEnd: a transaction that has the lower row id is committed after one
// with the higher. An export that ended at the latter would never have the former.
func TestNoEntryIsAddedBelowTheEnd(t *testing.T) {
	t.Parallel()
	url := blank(t)
	s := nodesAt(t, url, 1)[0]
	on(t, url, func(conn *pgx.Conn) error {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			return err
		}
		_, err = tx.Exec(t.Context(), `INSERT INTO audit (at, tenant, actor, verb, endpoint, delivery, reason)
			VALUES (1, 'acme', 'slow', 'note', '', '', '')`)
		if err != nil {
			return err
		}
		quick := grapnel.AuditEntry{At: time.Unix(1, 0), Tenant: "acme", Actor: "quick", Verb: grapnel.VerbNote}
		if err := s.Note(t.Context(), quick); err != nil {
			return err
		}
		if end, err := s.AuditEnd(t.Context()); err == nil {
			t.Errorf("the end is %d while an entry below it is not committed", end)
		} else if grapnel.CodeOf(err) != grapnel.CodeUnavailable {
			t.Errorf("the error is %v (%s)", err, grapnel.CodeOf(err))
		}
		return tx.Commit(t.Context())
	})
	end, err := s.AuditEnd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.AuditList(t.Context(), store.Everyone(), store.AuditQuery{Before: end + 1, Oldest: true, Limit: 9})
	if err != nil || len(list) != 2 || list[0].Actor != "slow" || list[1].Seq != end {
		t.Errorf("the end is %d of %+v, %v", end, list, err)
	}
}
