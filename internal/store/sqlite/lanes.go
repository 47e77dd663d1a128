package sqlite

import (
	"cmp"
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	// stuckQuery reads all heads of an endpoint by their index: a tenth of a second for a million.
	// An index of stuck lanes would have to be written with every failing attempt. The plus keeps
	// SQLite from reading the deliveries behind the heads.
	stuckQuery = `SELECT seq FROM pending WHERE head = 1 AND target = ? AND +position > 0 AND (attempts > 0 OR blocked = 1)
		AND seq > ? AND (? OR tenant = (SELECT number FROM tenant WHERE name = ?)) ORDER BY seq LIMIT ?`
	behindQuery = `SELECT count(*) FROM
		(SELECT 1 FROM pending WHERE target = ? AND lane = ? AND position > ? AND position > 0 LIMIT ?)`
)

// StuckLanes returns at most Limit lanes; no limit: none.
func (s *reader) StuckLanes(ctx context.Context, scope store.Scope, q store.LaneQuery) ([]grapnel.Lane, error) {
	tenant, one := scope.One()
	if q.Limit <= 0 || one && !scope.Allows(tenant) {
		return nil, ctx.Err()
	}
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) (lanes []grapnel.Lane, err error) {
		target, err := rows.Integer(r.Query(targetQuery).Text(q.Endpoint))
		if err != nil || target == 0 {
			return nil, err
		}
		heads, err := rows.Integers(r.Query(stuckQuery).Int(target).Int(q.After).Bool(!one).Text(tenant).Int(int64(q.Limit)))
		if err != nil {
			return nil, err
		}
		for _, seq := range heads {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			l, err := readLane(r, target, seq)
			if err != nil {
				return nil, err
			}
			lanes = append(lanes, l)
		}
		return lanes, nil
	})
}

// readLane reads the lane whose head has this row id.
func readLane(r *sqlite3.Conn, target, head int64) (grapnel.Lane, error) {
	d, err := fetch(r, head)
	if d == nil {
		return grapnel.Lane{}, cmp.Or(err, codec.ErrMangled)
	}
	behind, err := rows.Integer(r.Query(behindQuery).Int(target).Text(d.Key).Int(d.Position).Int(store.MaxWaiting))
	return grapnel.Lane{Endpoint: d.EndpointID, Key: d.Key, Head: d.Delivery, Waiting: int(behind)}, err
}
