package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// writeAudit stores an entry, unless it exists. e may be nil.
func writeAudit(t *tx, e *grapnel.AuditEntry) error {
	if e == nil {
		return nil
	}
	bind := func(s *sqlite3.Stmt) *sqlite3.Stmt {
		s.Int(codec.Micros(e.At)).Text(e.Tenant).Text(e.Actor).Text(string(e.Verb))
		return rows.BindName(rows.BindName(s, e.Endpoint), e.Delivery).Text(e.Reason)
	}
	if there, err := rows.Integer(bind(t.q.noted)); there == 1 || err != nil {
		return err
	}
	return bind(t.q.addNote).Run()
}

// Note stores an entry.
func (s *changer) Note(ctx context.Context, e grapnel.AuditEntry) error {
	return s.write(ctx, &change{do: func(t *tx) error { return writeAudit(t, &e) }})
}
