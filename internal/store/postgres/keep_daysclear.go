package postgres

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// A day is cleared once the retention of its last event has passed. Few rows have to stay for
// longer: deliveries that finished late, pending ones, and events that were redelivered since.
// Those rows are put aside and written back into the emptied tables; without such rows the tables
// are dropped. So all other rows of a day are deleted at once, by deleting files, without touching
// any row.
//
// Counting the rows to delete takes as long as reading the day, and runs beside other work. The
// result holds afterwards: finished rows do not change, and no new row ids are drawn in that day.
// Only another node's deletions can change it, and clear checks for them.
// Clearing itself then excludes all readers and writers for a moment.

// clearDays clears the days that are old enough, and returns the number of deleted deliveries. A
// day that cannot be cleared now stays, and its expired rows are deleted one by one.
func (s *keeper) clearDays(ctx context.Context, keep *store.Keep) (removed int, err error) {
	c, err := s.readDays(ctx)
	if err != nil {
		return 0, readError(ctx, err)
	}
	for _, d := range c.days {
		later, _ := s.days.postponed.Load(d.number)
		if until, postponed := later.(time.Time); d.number >= c.current || postponed && keep.Now.Before(until) {
			continue
		}
		n, err := s.clearDay(ctx, d.number, keep)
		removed += n
		switch {
		case errors.Is(err, errNotNow):
			s.days.postponed.Store(d.number, keep.Now.Add(s.bounds.DayAgain))
		case stateOf(err) == stateLocked:
			s.log.Info("day tables in use; drop postponed", "day", midnight(d.number).Format(time.DateOnly))
		case err != nil:
			return removed, readError(ctx, err)
		}
	}
	if removed > 0 {
		if c, err = s.readDays(ctx); err != nil {
			return removed, readError(ctx, err)
		}
	}
	return removed, readError(ctx, s.sweep(ctx, c))
}

// clearDay clears one day.
func (s *keeper) clearDay(ctx context.Context, day int64, keep *store.Keep) (removed int, err error) {
	ctx, done := s.chores.bound(ctx)
	defer done()
	old, err := s.isOld(ctx, day, keep)
	if err != nil || !old {
		return 0, err
	}
	var c *clearance
	err = s.snapshot(ctx, s.chores, func(ctx context.Context, tx pgx.Tx) (err error) {
		c, err = s.lookAtDay(ctx, tx, day, keep)
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := s.forgetDay(ctx, c); err != nil {
		return 0, err
	}
	if err := s.inDays(ctx, func(tx pgx.Tx) error { return c.clear(ctx, tx) }); err != nil {
		return 0, err
	}
	return c.counted, s.sweepRange(ctx, begins(day), begins(day+1))
}

// clear carries out the plan if the day has not changed since.
func (c *clearance) clear(ctx context.Context, db pgx.Tx) error {
	some := c.stays() > 0
	if some {
		if err := c.putAside(ctx, db); err != nil {
			return err
		}
	}
	b := new(pgx.Batch)
	b.Queue(aloneLock, lockClass, lockConfiguration)
	b.Queue(aloneLock, lockClass, lockRemoval)
	b.Queue(exclusively)
	if err := db.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	// No other transaction reads or writes these tables from here on.
	now := clearance{}
	var changed bool
	if err := db.QueryRow(ctx, ofDayTables(stateQuery, c.day)).Scan(&now.purged, &now.lastEvent, &now.lastOver); err != nil {
		return err
	}
	if err := db.QueryRow(ctx, ofDayTables(changedInDay, c.day), begins(c.day), begins(c.day+1), c.waiting,
		c.lastOver).Scan(&changed); err != nil {
		return err
	}
	repeated, err := c.repeated(ctx, db)
	if err != nil {
		return err
	}
	if changed || now.purged != c.purged || now.lastEvent != c.lastEvent || len(repeated) > c.most || len(repeated) > 0 && !some {
		return errNotNow
	}
	b = new(pgx.Batch)
	if some {
		c.putBack(b, repeated)
	} else {
		dropDay(b, c.day)
	}
	if c.removed > 0 {
		flushTallies((&tx{tallies: c.tallies}), b)
		b.Queue(countPurged, c.removed, c.newest)
		notePurged(b, c.highest)
	}
	return db.SendBatch(ctx, b).Close()
}

// putAside copies the rows that stay and cannot change, while other transactions continue.
func (c *clearance) putAside(ctx context.Context, db pgx.Tx) error {
	b := new(pgx.Batch)
	for _, of := range dated {
		b.Queue("CREATE TEMPORARY TABLE kept_" + of + " (LIKE " + of + ") ON COMMIT DROP")
	}
	if err := db.SendBatch(ctx, b).Close(); err != nil { // before statements name them
		return err
	}
	b = new(pgx.Batch)
	b.Queue(ofDayTables(keepEvents, c.day), c.events, []int64{})
	b.Queue(ofDayTables(keepFinished, c.day), c.over)
	b.Queue(ofDayTables(keepAttempts, c.day), c.over)
	return db.SendBatch(ctx, b).Close()
}

// putBack replaces the tables' rows by those that stay, including the ones that changed in the
// meantime.
func (c *clearance) putBack(b *pgx.Batch, repeated []int64) {
	b.Queue(ofDayTables(keepEvents, c.day), repeated, c.events)
	b.Queue(ofDayTables(keepFinished, c.day), c.waiting)
	b.Queue(ofDayTables(keepAttempts, c.day), c.waiting)
	b.Queue("DELETE FROM event_name WHERE seq IN (SELECT seq FROM kept_event)") // the INSERT below adds their names again
	for _, of := range dated {
		b.Queue("TRUNCATE " + tableOf(of, c.day))
		b.Queue("INSERT INTO " + tableOf(of, c.day) + " SELECT * FROM kept_" + of)
	}
}

// Rows about deliveries and events that were deleted with their day. No query looks for them.
var sweeps = []string{
	`DELETE FROM event_name WHERE seq = ANY(ARRAY(SELECT seq FROM event_name n WHERE seq >= $1 AND seq < $2
		AND NOT EXISTS (SELECT FROM event WHERE seq = n.seq OFFSET 0) LIMIT $3))`,
	`DELETE FROM mark WHERE delivery = ANY(ARRAY(SELECT delivery FROM mark m WHERE delivery >= $1 AND delivery < $2
		AND NOT EXISTS (SELECT FROM finished WHERE seq = m.delivery OFFSET 0) AND NOT EXISTS (SELECT FROM pending WHERE seq = m.delivery OFFSET 0) LIMIT $3))`,
	`DELETE FROM redelivery WHERE delivery = ANY(ARRAY(SELECT delivery FROM redelivery r WHERE delivery >= $1 AND delivery < $2
		AND NOT EXISTS (SELECT FROM finished WHERE seq = r.delivery OFFSET 0) AND NOT EXISTS (SELECT FROM pending WHERE seq = r.delivery OFFSET 0) LIMIT $3))`,
}

// sweep deletes the remaining rows about days that were dropped.
func (s *keeper) sweep(ctx context.Context, c *calendar) error {
	from := int64(0)
	for _, d := range c.days {
		if begins(d.number) > from {
			if err := s.sweepRange(ctx, from, begins(d.number)); err != nil {
				return err
			}
		}
		from = begins(d.number + 1)
	}
	return nil
}

func (s *keeper) sweepRange(ctx context.Context, from, to int64) error {
	for _, sql := range sweeps {
		for {
			tag, err := s.chores.Exec(ctx, sql, from, to, s.bounds.SweepPage)
			if err != nil {
				return err
			}
			if tag.RowsAffected() < int64(s.bounds.SweepPage) {
				break
			}
		}
	}
	return nil
}

// dropDay drops the tables of a day.
func dropDay(b *pgx.Batch, day int64) {
	b.Queue("DROP TABLE " + strings.Join(rows.Column(dated, func(of string) string { return tableOf(of, day) }), ", "))
}

const countPurged = "UPDATE ledger SET purged = purged + $1, newest = greatest(newest, $2)"

// raisePurged waits for no other writer: only purges write it, and one at a time.
const raisePurged = `UPDATE target SET purged = n.highest FROM unnest($1::int[], $2::bigint[]) n(target, highest)
	WHERE number = n.target AND purged < n.highest`

// notePurged notes the highest row ids of purged deliveries, so that a feed shows a gap (Feed).
func notePurged(b *pgx.Batch, highest map[int32]int64) {
	targets := sortedKeys(highest, cmp.Compare[int32])
	b.Queue(raisePurged, targets, rows.Column(targets, func(target int32) int64 { return highest[target] }))
}
