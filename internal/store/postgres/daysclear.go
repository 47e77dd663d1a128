package postgres

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// A day is cleared when its last event is as old as it is kept. What has to stay for longer is then little: what was over late, what is
// not over, what was delivered again since. That is put aside and back into empty tables; if there is nothing, the tables go. So all else of a day is
// removed at once, by removing files, and no row is touched for it.
//
// What is removed is found out, and counted, beside everything else; that takes as long as reading the day. It cannot change after that: nothing
// that is over does, and no more numbers are drawn in that day. Only what others remove at the same time, or bring from another cell, is
// in the way, and is noticed. Then, for a moment, nobody else reads or writes.

const (
	// mostKept is how much of a day can stay, so that the moment is one.
	mostKept = 5000
	// worthwhile is how many times more has to go than stay, if nothing else is said.
	worthwhile = 4
	// lookAgain is when a day is looked at again of which too much would have to stay.
	lookAgain = time.Hour
)

// clearance is what becomes of a day.
type clearance struct {
	day       int64
	events    []int64 // that stay
	over      []int64 // deliveries that are over, and stay
	waiting   []int64 // that were not over
	tallies   map[tallyOf]*tally
	counted   int   // as Purge counts
	removed   int64 // deliveries that go
	newest    int64 // of them
	lastEvent int64
	lastOver  int64
	purged    int64    // by anybody, until now
	sealed    []string // whose things stay
}

// clearDays clears the days that are old enough, and says how much of them it removed. A day that cannot be cleared now is left alone, and what has
// been in it for too long is removed row by row.
func (s *Store) clearDays(ctx context.Context, keep *store.Keep) (removed int, err error) {
	c, err := s.readDays(ctx)
	if err != nil {
		return 0, readError(ctx, err)
	}
	before, _, err := cutoffs(ctx, s.pool, keep, onTime)
	if err != nil {
		return 0, readError(ctx, err)
	}
	earliest := int64(math.MaxInt64)
	for _, cut := range before {
		earliest = min(earliest, cut)
	}
	for _, d := range c.days {
		if d.number >= c.current || keep.Now.Before(s.days.later(d.number)) {
			continue
		}
		n, err := s.clearDay(ctx, d.number, keep, earliest)
		removed += n
		switch {
		case errors.Is(err, errNotNow):
			s.days.postpone(d.number, keep.Now.Add(lookAgain))
		case stateOf(err) == stateLocked:
			s.log.Info("somebody reads what is older than it is kept; the day will be removed later", "day", midnight(d.number).Format(time.DateOnly))
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

// errNotNow is that a day is not worth being cleared yet.
var errNotNow = errors.New("postgres: too much of the day has to stay")

const (
	lastEventQuery = "SELECT accepted FROM %event ORDER BY seq DESC LIMIT 1"
	stateQuery     = `SELECT purged, (SELECT sealed FROM configuration), (SELECT coalesce(max(seq), -1) FROM %event), (SELECT coalesce(max(seq), -1) FROM %finished)
		FROM ledger`
	goingQuery = `SELECT g.target, k.tenant, g.status, g.n, g.newest FROM (
			SELECT d.target, d.kind, d.status, count(*) AS n, max(d.seq) AS newest FROM %finished d
				JOIN unnest($1::int[], $2::bigint[]) cut(kind, before) ON cut.kind = d.kind AND d.finished < before AND ` + acceptedAt + ` < before
			GROUP BY d.target, d.kind, d.status
		) g JOIN kind k ON k.number = g.kind`
	stayingQuery = `SELECT d.seq, d.event FROM %finished d LEFT JOIN unnest($1::int[], $2::bigint[]) cut(kind, before) ON cut.kind = d.kind
		WHERE (d.finished < before AND ` + acceptedAt + ` < before) IS NOT TRUE LIMIT $3`
	// In one look, because events are large: which stay, and how many go of which there are no deliveries.
	ofEvents = `SELECT coalesce((array_agg(seq) FILTER (WHERE stays))[1:$3], '{}'), count(*) FILTER (WHERE made = 0 AND NOT stays) FROM (
			SELECT seq, made, cut.kind IS NULL OR accepted >= before OR last >= $4 AS stays FROM %event e
				LEFT JOIN unnest($1::int[], $2::bigint[]) cut(kind, before) ON cut.kind = e.kind
		) e`
	waitingOfDay  = "SELECT seq, event FROM pending WHERE seq >= $1 AND seq < $2 ORDER BY seq LIMIT $3"
	keepEvents    = "INSERT INTO kept_event SELECT * FROM %event WHERE seq = ANY($1) AND seq <> ALL($2)"
	keepFinished  = "INSERT INTO kept_finished SELECT * FROM %finished WHERE seq = ANY($1)"
	keepAttempts  = "INSERT INTO kept_attempt SELECT * FROM %attempt WHERE delivery = ANY($1)"
	repeatedOfDay = "SELECT DISTINCT event FROM redelivery WHERE event >= $1 AND event < $2 AND delivery >= $2 LIMIT $3"
	changedInDay  = `SELECT EXISTS (SELECT FROM pending WHERE seq >= $1 AND seq < $2 AND seq <> ALL($3))
		OR EXISTS (SELECT FROM %finished WHERE seq > $4 AND seq <> ALL($3))`
	exclusively = "LOCK TABLE ONLY event, ONLY finished, ONLY attempt IN ACCESS EXCLUSIVE MODE"
)

// of puts the tables of a day into a query.
func ofDayTables(query string, day int64) string {
	for _, of := range dated {
		query = strings.ReplaceAll(query, "%"+of, tableOf(of, day))
	}
	return query
}

// clearDay clears one day.
func (s *Store) clearDay(ctx context.Context, day int64, keep *store.Keep, earliest int64) (removed int, err error) {
	var last int64
	err = s.pool.QueryRow(ctx, ofDayTables(lastEventQuery, day)).Scan(&last)
	if err != nil && !isNone(err) || err == nil && last >= earliest {
		return 0, err
	}
	var c *clearance
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		c, err = lookAtDay(ctx, tx, day, keep, s.days.worth)
		return err
	})
	if err != nil {
		return 0, err
	}
	err = s.inDays(ctx, func(tx pgx.Tx) error { return c.clear(ctx, tx) })
	if err != nil {
		return 0, err
	}
	return c.counted, s.sweepRange(ctx, begins(day), begins(day+1))
}

// lookAtDay finds out what of a day goes and what stays.
func lookAtDay(ctx context.Context, tx pgx.Tx, day int64, keep *store.Keep, worth int) (*clearance, error) {
	before, _, err := cutoffs(ctx, tx, keep, onTime) // without what is sealed at this moment
	if err != nil {
		return nil, err
	}
	c := &clearance{day: day, events: []int64{}, tallies: make(map[tallyOf]*tally)}
	kinds := sortedKeys(before, cmp.Compare[int32])
	cuts := column(kinds, func(kind int32) int64 { return before[kind] })
	events := make(map[int64]bool)
	pairs := func(sql string, args ...any) (seqs []int64, err error) {
		seqs = []int64{} // not NULL
		rows, err := tx.Query(ctx, ofDayTables(sql, day), args...)
		if err != nil {
			return nil, err
		}
		var seq, event int64
		_, err = pgx.ForEachRow(rows, []any{&seq, &event}, func() error {
			seqs = append(seqs, seq)
			events[event] = true
			return nil
		})
		return seqs, err
	}
	// What is quickest to find out comes first, for it may be too much already.
	if err = tx.QueryRow(ctx, ofDayTables(stateQuery, day)).Scan(&c.purged, &c.sealed, &c.lastEvent, &c.lastOver); err != nil {
		return nil, err
	}
	tooMuch := func() bool { return len(c.over)+len(c.waiting)+len(events) > mostKept }
	if c.waiting, err = pairs(waitingOfDay, begins(day), begins(day+1), mostKept+1); err != nil {
		return nil, err
	}
	repeated, err := repeatedOf(ctx, tx, day)
	if err != nil {
		return nil, err
	}
	for _, event := range repeated {
		events[event] = true
	}
	if tooMuch() {
		return nil, errNotNow
	}
	if c.over, err = pairs(stayingQuery, kinds, cuts, mostKept+1); err != nil {
		return nil, err
	}
	if tooMuch() {
		return nil, errNotNow
	}
	var young []int64
	if err := tx.QueryRow(ctx, ofDayTables(ofEvents, day), kinds, cuts, mostKept+1, begins(day+1)).Scan(&young, &c.counted); err != nil {
		return nil, err
	}
	for _, event := range young {
		events[event] = true
	}
	if tooMuch() {
		return nil, errNotNow
	}
	for event := range events {
		if dayOf(event) == day {
			c.events = append(c.events, event)
		}
	}
	if err := c.count(ctx, tx, kinds, cuts); err != nil {
		return nil, err
	}
	c.counted += int(c.removed)
	if stay := c.stays(); stay > 0 && c.counted < worth*stay {
		return nil, errNotNow
	}
	return c, nil
}

// repeatedOf are the events of a day of which there are deliveries of later days.
func repeatedOf(ctx context.Context, db pgx.Tx, day int64) ([]int64, error) {
	rows, err := db.Query(ctx, repeatedOfDay, begins(day), begins(day+1), mostKept+1)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// count counts the deliveries that go.
func (c *clearance) count(ctx context.Context, tx pgx.Tx, kinds []int32, cuts []int64) error {
	rows, err := tx.Query(ctx, ofDayTables(goingQuery, c.day), kinds, cuts)
	if err != nil {
		return err
	}
	var of tallyOf
	var status grapnel.Status
	var n, newest int64
	_, err = pgx.ForEachRow(rows, []any{&of.target, &of.tenant, &status, &n, &newest}, func() error {
		if c.tallies[of] == nil {
			c.tallies[of] = new(tally)
		}
		*c.tallies[of].of(status) -= n
		c.removed, c.newest = c.removed+n, max(c.newest, newest)
		return nil
	})
	return err
}

// stays is how much stays.
func (c *clearance) stays() int { return len(c.events) + len(c.over) + len(c.waiting) }

// clear does it, if the day is as it was.
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
	// Nobody else reads or writes from here on.
	now := clearance{}
	var changed bool
	if err := db.QueryRow(ctx, ofDayTables(stateQuery, c.day)).Scan(&now.purged, &now.sealed, &now.lastEvent, &now.lastOver); err != nil {
		return err
	}
	if err := db.QueryRow(ctx, ofDayTables(changedInDay, c.day), begins(c.day), begins(c.day+1), c.waiting, c.lastOver).Scan(&changed); err != nil {
		return err
	}
	repeated, err := repeatedOf(ctx, db, c.day)
	if err != nil {
		return err
	}
	if changed || now.purged != c.purged || now.lastEvent != c.lastEvent || !slices.Equal(now.sealed, c.sealed) || len(repeated) > mostKept ||
		len(repeated) > 0 && !some {
		return errNotNow
	}
	b = new(pgx.Batch)
	if some {
		c.putBack(b, repeated)
	} else {
		dropDay(b, c.day)
	}
	if c.removed > 0 {
		(&tx{tallies: c.tallies}).flushTallies(b)
		b.Queue(countPurged, c.removed, c.newest)
	}
	return db.SendBatch(ctx, b).Close()
}

// putAside copies what stays and cannot change, while others go on.
func (c *clearance) putAside(ctx context.Context, db pgx.Tx) error {
	b := new(pgx.Batch)
	for _, of := range dated {
		b.Queue("CREATE TEMPORARY TABLE kept_" + of + " (LIKE " + of + ") ON COMMIT DROP")
	}
	if err := db.SendBatch(ctx, b).Close(); err != nil { // before there are statements about them
		return err
	}
	b = new(pgx.Batch)
	b.Queue(ofDayTables(keepEvents, c.day), c.events, []int64{})
	b.Queue(ofDayTables(keepFinished, c.day), c.over)
	b.Queue(ofDayTables(keepAttempts, c.day), c.over)
	return db.SendBatch(ctx, b).Close()
}

// putBack leaves in the tables only what stays, with what has come to that in the meantime.
func (c *clearance) putBack(b *pgx.Batch, repeated []int64) {
	b.Queue(ofDayTables(keepEvents, c.day), repeated, c.events)
	b.Queue(ofDayTables(keepFinished, c.day), c.waiting)
	b.Queue(ofDayTables(keepAttempts, c.day), c.waiting)
	b.Queue("DELETE FROM event_name WHERE seq IN (SELECT seq FROM kept_event)") // they get their names again
	for _, of := range dated {
		b.Queue("TRUNCATE " + tableOf(of, c.day))
		b.Queue("INSERT INTO " + tableOf(of, c.day) + " SELECT * FROM kept_" + of)
	}
}

// What refers to deliveries and events that went with their day, and is looked for by nobody.
var sweeps = []string{
	`DELETE FROM mark WHERE delivery = ANY(ARRAY(SELECT delivery FROM mark m WHERE delivery >= $1 AND delivery < $2
		AND NOT EXISTS (SELECT FROM finished WHERE seq = m.delivery OFFSET 0) AND NOT EXISTS (SELECT FROM pending WHERE seq = m.delivery OFFSET 0) LIMIT $3))`,
	`DELETE FROM redelivery WHERE delivery = ANY(ARRAY(SELECT delivery FROM redelivery r WHERE delivery >= $1 AND delivery < $2
		AND NOT EXISTS (SELECT FROM finished WHERE seq = r.delivery OFFSET 0) AND NOT EXISTS (SELECT FROM pending WHERE seq = r.delivery OFFSET 0) LIMIT $3))`,
	`DELETE FROM event_name WHERE seq = ANY(ARRAY(SELECT seq FROM event_name n WHERE seq >= $1 AND seq < $2
		AND NOT EXISTS (SELECT FROM event WHERE seq = n.seq OFFSET 0) LIMIT $3))`,
}

// sweptAtOnce is how much of it one statement removes.
const sweptAtOnce = 2000

// sweep removes what is left over from days that are gone.
func (s *Store) sweep(ctx context.Context, c *calendar) error {
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

func (s *Store) sweepRange(ctx context.Context, from, to int64) error {
	for _, sql := range sweeps {
		for {
			tag, err := s.pool.Exec(ctx, sql, from, to, sweptAtOnce)
			if err != nil {
				return err
			}
			if tag.RowsAffected() < sweptAtOnce {
				break
			}
		}
	}
	return nil
}

// later is before when a day need not be looked at.
func (d *days) later(day int64) time.Time {
	at, _ := d.postponed.Load(day)
	when, _ := at.(time.Time)
	return when
}

func (d *days) postpone(day int64, until time.Time) { d.postponed.Store(day, until) }
