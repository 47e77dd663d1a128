package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// Replay returns one.
func (s *reader) Replay(ctx context.Context, scope store.Scope, id string) (grapnel.Replay, error) {
	r, err := s.scopedReplay(ctx, scope, id)
	if err != nil {
		return grapnel.Replay{}, err
	}
	return r.Replay, nil
}

func (s *reader) scopedReplay(ctx context.Context, scope store.Scope, id string) (*decide.StoredReplay, error) {
	r, err := readReplay(s.reading.QueryRow(ctx, replayQuery, id))
	if rows.IsNone(err) || err == nil && !scope.Allows(r.Tenant) {
		return nil, store.ErrNotFound("replay")
	}
	return r, readError(ctx, err)
}

// ReplayList returns at most Limit replays; no limit: none.
func (s *reader) ReplayList(ctx context.Context, scope store.Scope, q store.ReplayQuery) ([]grapnel.Replay, error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some || q.Limit <= 0 {
		return nil, ctx.Err()
	}
	var f filter
	f.text("SELECT "+replayColumns+"WHERE true").equal("r.tenant", tenant).equal("r.endpoint", q.Endpoint)
	if q.Active {
		f.text(" AND r.active")
	}
	if q.Before != "" {
		f.text(" AND r.id < ").value(q.Before)
	}
	f.text(" ORDER BY r.id DESC LIMIT ").value(q.Limit)
	list, err := rows.Collect(f.ask(ctx, s.reading), func(row pgx.Row) (grapnel.Replay, error) {
		r, err := readReplay(row)
		if err != nil {
			return grapnel.Replay{}, err
		}
		return r.Replay, nil
	})
	return list, readError(ctx, err)
}

// ReplayItems returns at most limit items; no limit: none.
func (s *reader) ReplayItems(ctx context.Context, scope store.Scope, id string, after int64,
	limit int) (list []grapnel.ReplayItem, err error) {
	r, err := s.scopedReplay(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	var one grapnel.ReplayItem
	var created, made int64
	into := []any{&one.Original, &created, &one.Made, &made, &one.Status}
	err = rows.Ask(ctx, s.reading, itemsQuery, r.Number, after, max(limit, 0)).Each(into, func() {
		one.CreatedAt, one.MadeAt = codec.Moment(created), codec.Moment(made)
		list = append(list, one)
	})
	return list, readError(ctx, err)
}
