package sqlite

import (
	"context"
	"math"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
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

// AuditList returns at most Limit entries; no limit: none.
func (s *reader) AuditList(ctx context.Context, scope store.Scope, q store.AuditQuery) ([]grapnel.AuditEntry, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) ([]grapnel.AuditEntry, error) {
		var some bool
		if q.Tenant, some = scope.Narrow(q.Tenant); !some {
			return nil, nil
		}
		sql, values := auditQuery(q)
		entries := r.Query(sql).Texts(values...).Int(everything(q.Before).below).Int(int64(min(max(q.Limit, 0), math.MaxInt32)))
		return rows.Each(entries, func(q *sqlite3.Stmt) (grapnel.AuditEntry, error) {
			return grapnel.AuditEntry{
				Seq: q.Integer(0), At: codec.Moment(q.Integer(1)), Tenant: q.String(2), Actor: q.String(3), Verb: grapnel.Verb(q.String(4)),
				Endpoint: q.String(5), Delivery: q.String(6), Reason: q.String(7),
			}, nil
		})
	})
}

// auditQuery is the SQL of a list with the values of its filters; the last two values are: below,
// limit.
func auditQuery(q store.AuditQuery) (sql string, values []string) {
	var f rows.Filters
	f.Equal("delivery", q.Delivery)
	f.Equal("endpoint", q.Endpoint)
	f.Equal("tenant", q.Tenant)
	f.All = append(f.All, "seq < ?")
	return "SELECT seq, at, tenant, actor, verb, endpoint, delivery, reason FROM audit" + f.Where() + " ORDER BY seq DESC LIMIT ?", f.Values
}
