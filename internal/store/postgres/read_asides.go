package postgres

import (
	"context"
	"fmt"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// Aside returns a request with its body.
func (s *reader) Aside(ctx context.Context, scope store.Scope, id string) (grapnel.Aside, error) {
	var f codec.Frozen
	a, err := s.readAside(ctx, s.reading.QueryRow(ctx, asideQuery, id), &f.Packed, &f.Sum, &f.Data)
	switch {
	case rows.IsNone(err) || err == nil && !scope.Allows(a.Tenant):
		return grapnel.Aside{}, store.ErrNotFound("request")
	case err != nil:
		return grapnel.Aside{}, readError(ctx, err)
	}
	if err = s.packer.ThawAside(ctx, &a, &f); err != nil {
		return grapnel.Aside{}, fmt.Errorf("postgres: request %s: %w", id, err)
	}
	return a, nil
}

// AsideList returns at most Limit requests; no limit: none. It leaves out corrupt ones.
func (s *reader) AsideList(ctx context.Context, scope store.Scope, q store.AsideQuery) (list []grapnel.Aside, err error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some || q.Limit <= 0 {
		return nil, ctx.Err()
	}
	for len(list) < q.Limit {
		var f filter
		f.text("SELECT "+asideColumns+" FROM aside WHERE true").equal("tenant", tenant).equal("source", q.Source).equal("why", string(q.Why))
		if q.Before != "" {
			f.text(" AND id < ").value(q.Before)
		}
		most, found, order := q.Limit-len(list), 0, " ORDER BY id DESC LIMIT "
		if q.After != "" {
			f.text(" AND id > ").value(q.After)
			order = " ORDER BY id LIMIT "
		}
		f.text(order).value(most)
		rows, err := s.reading.Query(ctx, f.sql(), f.values...)
		if err != nil {
			return nil, readError(ctx, err)
		}
		for rows.Next() {
			a, err := s.readAside(ctx, rows)
			if found++; q.After != "" {
				q.After = a.ID
			} else {
				q.Before = a.ID
			}
			if err != nil {
				s.log.Error("a request in the database is corrupt", "request", a.ID, "err", err)
				continue
			}
			list = append(list, a)
		}
		if err := rows.Err(); err != nil || found < most {
			return list, readError(ctx, err)
		}
	}
	return list, nil
}
