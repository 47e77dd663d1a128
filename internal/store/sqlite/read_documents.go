package sqlite

import (
	"context"
	"math"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

func (s *reader) readDocument(ctx context.Context, q *sqlite3.Stmt, kind string) (store.Document, error) {
	return store.OpenDocument(ctx, s.sealer, store.Document{Tenant: q.String(0), Kind: kind, ID: q.String(1), Revision: q.Integer(2),
		At: codec.Moment(q.Integer(3)), Body: q.Bytes(4)})
}

// Document returns one.
func (s *reader) Document(ctx context.Context, scope store.Scope, tenant, kind, id string) (store.Document, error) {
	if !scope.Allows(tenant) {
		return store.Document{}, store.ErrNotFound("document")
	}
	return rows.Reading(ctx, s.readUnflushed, func(r *sqlite3.Conn) (store.Document, error) {
		q := r.Query(documentQuery).Text(tenant).Text(kind).Text(id)
		return rows.First(q, store.ErrNotFound("document"), func(q *sqlite3.Stmt) (store.Document, error) { return s.readDocument(ctx, q, kind) })
	})
}

// DocumentList returns at most Limit documents; no limit: none.
func (s *reader) DocumentList(ctx context.Context, scope store.Scope, q store.DocumentQuery) ([]store.Document, error) {
	var some bool
	if q.Tenant, some = scope.Narrow(q.Tenant); !some {
		return nil, ctx.Err()
	}
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) ([]store.Document, error) {
		sql, values := documentsQuery(q)
		found := r.Query(sql).Texts(values...).Int(int64(min(max(q.Limit, 0), math.MaxInt32)))
		return rows.Each(found, func(row *sqlite3.Stmt) (store.Document, error) { return s.readDocument(ctx, row, q.Kind) })
	})
}

// documentsQuery is the SQL of a list with its values; the last value is the limit.
func documentsQuery(q store.DocumentQuery) (sql string, values []string) {
	beyond, order := "id > ?", " ORDER BY id, tenant LIMIT ?"
	if q.Backwards {
		beyond, order = "id < ?", " ORDER BY id DESC, tenant DESC LIMIT ?"
	}
	f := rows.Filters{All: []string{"kind = ?"}, Values: []string{q.Kind}}
	f.Add("tenant = ?", q.Tenant)
	f.Add(beyond, q.After)
	return "SELECT tenant, id, revision, at, body FROM document" + f.Where() + order, f.Values
}
