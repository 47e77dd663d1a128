package sqlite

import (
	"context"
	"math"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Replay returns one.
func (s *reader) Replay(ctx context.Context, scope store.Scope, id string) (grapnel.Replay, error) {
	kept, err := rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (*decide.StoredReplay, error) { return scopedReplay(r, scope, id) })
	if err != nil {
		return grapnel.Replay{}, err
	}
	return kept.Replay, nil
}

func scopedReplay(r *sqlite3.Conn, scope store.Scope, id string) (*decide.StoredReplay, error) {
	found, err := findReplay(r.Query(replayQuery), id)
	if err == nil && (found == nil || !scope.Allows(found.Tenant)) {
		err = store.ErrNotFound("replay")
	}
	return found, err
}

// readReplays is read for something that depends on replays and their progress alone. Of the
// unflushed operations only one that ends a redelivery changes these, so it seldom needs a flush:
// replays are looked at each second.
func (s *reader) readReplays(ctx context.Context, do func(*sqlite3.Conn) error) error {
	if s.unflushed.replayed.Load() {
		return s.read(ctx, do)
	}
	return s.readFlushed(ctx, do)
}

// ReplayList returns at most Limit replays; no limit is none.
func (s *reader) ReplayList(ctx context.Context, scope store.Scope, q store.ReplayQuery) ([]grapnel.Replay, error) {
	return rows.Reading(ctx, s.readReplays, func(r *sqlite3.Conn) ([]grapnel.Replay, error) {
		var some bool
		if q.Tenant, some = scope.Narrow(q.Tenant); !some {
			return nil, nil
		}
		sql, values := replaysQuery(q)
		replays := r.Query(sql).Texts(values...).Int(int64(min(max(q.Limit, 0), math.MaxInt32)))
		return rows.Each(replays, func(q *sqlite3.Stmt) (grapnel.Replay, error) {
			one, err := readReplay(q)
			if err != nil {
				return grapnel.Replay{}, err
			}
			return one.Replay, nil
		})
	})
}

// replaysQuery is the SQL of a list with the values of its filters; the last value is the limit.
func replaysQuery(q store.ReplayQuery) (sql string, values []string) {
	var f rows.Filters
	if q.Active {
		f.All = append(f.All, "r.active = 1")
	}
	f.Equal("r.endpoint", q.Endpoint)
	f.Equal("r.tenant", q.Tenant)
	f.Add("r.id < ?", q.Before)
	return "SELECT " + replayColumns + f.Where() + " ORDER BY r.id DESC LIMIT ?", f.Values
}

// ReplayItems returns at most limit; no limit is none.
func (s *reader) ReplayItems(ctx context.Context, scope store.Scope, id string, after int64,
	limit int) ([]grapnel.ReplayItem, error) {
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) ([]grapnel.ReplayItem, error) {
		of, err := scopedReplay(r, scope, id)
		if err != nil {
			return nil, err
		}
		q := r.Query(replayItemsQuery).Int(of.Number).Int(after).Int(int64(max(limit, 0)))
		return rows.Each(q, func(q *sqlite3.Stmt) (grapnel.ReplayItem, error) {
			return grapnel.ReplayItem{Original: q.Integer(0), CreatedAt: codec.Moment(q.Integer(1)), Made: q.Integer(2),
				MadeAt: codec.Moment(q.Integer(3)), Status: rows.ReadWord(q, 4, rows.Statuses)}, nil
		})
	})
}
