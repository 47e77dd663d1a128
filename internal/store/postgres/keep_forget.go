package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// A lane's row has the position given last. The row is removed together with the delivery that has
// this position, if nothing waits in the lane; or with one that was pending for the shortest
// retention, as the delivery with this position may have been purged meanwhile. Otherwise each key
// that was ever used would have a row for ever. The row of an endpoint's key "", which is no lane,
// has the highest position of its removed lanes. A lane that begins goes on above it, so the
// positions of a key never go back.
//
// A lane that gets a position meanwhile stays: its row is locked, and passed over, or its last
// position is no longer that of the delivery.
const (
	forgottenQuery = "SELECT target, last FROM lane WHERE target = ANY($1) AND key = ''"
	forgetLanes    = "WITH gone AS MATERIALIZED (SELECT lane, position, finished - created >= $2 AS long FROM finished WHERE seq = ANY($1) AND lane <> 0)" + forget + " SELECT count(*) FROM removed"
	forgetPage     = `WITH page AS MATERIALIZED (SELECT seq, lane, position, finished - created >= $4 AS long FROM %finished WHERE seq > $1 ORDER BY seq LIMIT $2),
		gone AS MATERIALIZED (SELECT lane, position, long FROM page WHERE lane <> 0 AND seq <> ALL($3))` +
		forget + " SELECT count(*), coalesce(max(seq), 0) FROM page"
	forget = `, old AS MATERIALIZED (
			SELECT number FROM gone JOIN lane l ON l.number = gone.lane AND (l.last = gone.position OR gone.long)
				WHERE NOT EXISTS (SELECT FROM pending p WHERE p.lane = l.number AND p.lane <> 0 OFFSET 0) FOR UPDATE OF l SKIP LOCKED
		), removed AS (
			DELETE FROM lane USING old WHERE lane.number = old.number RETURNING target, last
		), highest AS (
			INSERT INTO lane AS l (target, key, last) SELECT target, '', max(last) FROM removed GROUP BY target
				ON CONFLICT (target, key) DO UPDATE SET last = greatest(l.last, excluded.last)
		)`
)

// readForgotten reads the highest positions of removed lanes, and goes on from them in lanes that
// begin. Its statement comes after the one that locks the lanes, so it sees the removal of each
// lane that had to be made again.
func (t *tx) readForgotten(got pgx.Rows) error {
	var target int32
	var last int64
	return rows.Answered(got).Each([]any{&target, &last}, func() {
		for of, l := range t.byName {
			if of.target == target && l.drawn > 0 && l.given == 0 {
				l.given = last
			}
		}
	})
}

// forgetDay removes the lanes whose last delivery goes with a day, a page at a time: clearing the
// day excludes all others, and must be short. If the day is not cleared then, these deliveries are
// removed one by one.
func (s *keeper) forgetDay(ctx context.Context, c *clearance) error {
	stay := slices.Concat([]int64{-1}, c.over, c.waiting) // an array without elements would be NULL
	for n, last := s.bounds.SweepPage, begins(c.day)-1; n == s.bounds.SweepPage; {
		err := s.inChore(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, beginShared, lockClass, lockConfiguration); err != nil {
				return err
			}
			return tx.QueryRow(ctx, ofDayTables(forgetPage, c.day), last, s.bounds.SweepPage, stay, c.long).Scan(&n, &last)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
