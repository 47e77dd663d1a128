package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// Document returns one.
func (s *reader) Document(ctx context.Context, scope store.Scope, tenant, kind, id string) (store.Document, error) {
	if !scope.Allows(tenant) {
		return store.Document{}, store.ErrNotFound("document")
	}
	d := store.Document{Tenant: tenant, Kind: kind, ID: id}
	var at int64
	err := s.reading.QueryRow(ctx, documentQuery, tenant, kind, id).Scan(&d.Revision, &at, &d.Body)
	if rows.IsNone(err) {
		return store.Document{}, store.ErrNotFound("document")
	}
	if err != nil {
		return store.Document{}, readError(ctx, err)
	}
	d.At = codec.Moment(at)
	return store.OpenDocument(ctx, s.sealer, d)
}

// DocumentList returns at most Limit documents; no limit: none.
func (s *reader) DocumentList(ctx context.Context, scope store.Scope, q store.DocumentQuery) ([]store.Document, error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some || q.Limit <= 0 {
		return nil, ctx.Err()
	}
	q.Tenant = tenant
	f := documentsQuery(q)
	list, err := rows.Collect(f.ask(ctx, s.reading), func(row pgx.Row) (store.Document, error) {
		d, at := store.Document{Kind: q.Kind}, int64(0)
		err := row.Scan(&d.Tenant, &d.ID, &d.Revision, &at, &d.Body)
		if err != nil {
			return d, err
		}
		d.At = codec.Moment(at)
		return store.OpenDocument(ctx, s.sealer, d)
	})
	return list, readError(ctx, err)
}

func documentsQuery(q store.DocumentQuery) *filter {
	var f filter
	f.text("SELECT tenant, id, revision, at, body FROM document WHERE kind = ").value(q.Kind).equal("tenant", q.Tenant)
	beyond, order := " AND id > ", " ORDER BY id, tenant LIMIT "
	if q.Backwards {
		beyond, order = " AND id < ", " ORDER BY id DESC, tenant DESC LIMIT "
	}
	if q.After != "" {
		f.text(beyond).value(q.After)
	}
	f.text(order).value(q.Limit)
	return &f
}
