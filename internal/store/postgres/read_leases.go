package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// clock is the same for a read.
func (s *database) clock(ctx context.Context, tx pgx.Tx, callers time.Time) (at int64, err error) {
	if s.callers {
		return codec.Micros(callers), nil
	}
	err = tx.QueryRow(ctx, clockSQL).Scan(&at)
	return at, err
}

var (
	leasePlaces = "SELECT " + placeColumns + ` FROM pending p JOIN lease s ON s.delivery = p.seq
		JOIN target t ON t.number = p.target JOIN kind k ON k.number = p.kind LEFT JOIN lane l ON l.number = p.lane WHERE `
	leaseQuery  = leasePlaces + "s.token = $1"
	leasesQuery = leasePlaces + "s.target = (SELECT number FROM target WHERE endpoint = $1) ORDER BY p.due, p.seq LIMIT $2"
)

func (s *reader) leases(ctx context.Context, query string, args ...any) (list []grapnel.Lease, err error) {
	err = s.readHeads(ctx, s.pool, func(p *place) { list = append(list, p.Leased(&p.lease)) }, query, args...)
	return list, err
}

// Lease finds a lease by its token.
func (s *reader) Lease(ctx context.Context, token string) (grapnel.Lease, error) {
	list, err := s.leases(ctx, leaseQuery, token)
	if err == nil && len(list) == 0 {
		err = store.ErrNotFound("lease")
	}
	if err != nil {
		return grapnel.Lease{}, err
	}
	return list[0], nil
}

// LeaseList returns leases in the order of their ends.
func (s *reader) LeaseList(ctx context.Context, queue string, limit int) ([]grapnel.Lease, error) {
	return s.leases(ctx, leasesQuery, queue, max(limit, 0))
}

// A queue's detailed counts come from its heads, up to a limit; the totals of pending deliveries
// and dead letters are maintained counters. So counting a queue of a million deliveries takes as
// long as counting one of ten thousand.
const (
	countHeads = `WITH of AS (SELECT number FROM target WHERE endpoint = $1),
		due AS (SELECT seq, created FROM pending WHERE target = (SELECT number FROM of) AND due <= $2 ORDER BY due, seq LIMIT $3),
		later AS (SELECT seq, created FROM pending WHERE target = (SELECT number FROM of) AND due > $2 ORDER BY due, seq LIMIT $3),
		blocked AS (SELECT seq, created FROM pending WHERE target = (SELECT number FROM of) AND blocked LIMIT $3)
		SELECT (SELECT count(*) FROM due), (SELECT count(*) FROM later), (SELECT count(*) FROM blocked),
			(SELECT created FROM (SELECT * FROM due UNION ALL SELECT * FROM later UNION ALL SELECT * FROM blocked) o ORDER BY seq LIMIT 1),
			(SELECT coalesce(sum(pending), 0)::bigint FROM tally WHERE target = (SELECT number FROM of)),
			(SELECT coalesce(sum(failed), 0)::bigint FROM tally WHERE target = (SELECT number FROM of))`
	countLeases = `SELECT count(*), count(*) FILTER (WHERE p.due <= $2) FROM lease s JOIN pending p ON p.seq = s.delivery
		WHERE s.target = (SELECT number FROM target WHERE endpoint = $1)`
	// countResolved examines the newest failed deliveries.
	countResolved = `SELECT count(*) FROM (SELECT seq FROM finished WHERE target = (SELECT number FROM target WHERE endpoint = $1)
		AND status = 'failed' AND status <> 'delivered' ORDER BY seq DESC LIMIT $2) d
		JOIN mark m ON m.delivery = d.seq WHERE m.discarded IS NOT NULL OR m.replay_result = 'delivered'`
)

// QueueCounts reads one snapshot.
func (s *reader) QueueCounts(ctx context.Context, queue string, now time.Time) (n grapnel.QueueCounts, err error) {
	err = s.snapshot(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		at, err := s.clock(ctx, tx, now)
		if err != nil {
			return err
		}
		var h decide.Heads
		var all, dead, resolved int64
		var oldest *int64
		if err := tx.QueryRow(ctx, countLeases, queue, at).Scan(&h.Leased, &h.Over); err != nil {
			return err
		}
		// Leased heads are among the heads with a due time, so the limit grows by their number.
		h.Limit = store.MostCounted + h.Leased + 1
		if err := tx.QueryRow(ctx, countHeads, queue, at, h.Limit).Scan(&h.Due, &h.Later, &h.Blocked, &oldest, &all, &dead); err != nil {
			return err
		}
		n = h.Counts(all)
		if n.Dead = dead; oldest != nil {
			n.Oldest = codec.Moment(*oldest)
		}
		if n.Dead == 0 {
			return nil
		}
		err = tx.QueryRow(ctx, countResolved, queue, store.MostCounted).Scan(&resolved)
		n.Dead -= resolved
		return err
	})
	return n, err
}
