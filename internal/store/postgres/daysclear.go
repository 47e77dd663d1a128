package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// A day is cleared once the retention of its last event has passed. Few rows have to stay for
// longer then: deliveries that finished late, pending ones, and events that were redelivered since.
// Those rows are put aside and written back into the emptied tables; without such rows the tables
// are dropped. So all other rows of a day are deleted at once, by deleting files, without touching
// any row.
//
// Counting the rows to delete takes as long as reading the day, and runs beside other work. The
// result holds afterwards: finished rows do not change, and no new row ids are drawn in that day.
// Only another node's deletions, or a tenant's arrival, can change it, and clear checks for both.
// Clearing itself then excludes all readers and writers for a moment.

// clearance is the plan for clearing a day.
type clearance struct {
	day       int64
	most      int     // limit for the rows that stay
	events    []int64 // events that stay
	over      []int64 // finished deliveries that stay
	waiting   []int64 // deliveries that were pending
	tallies   map[tallyOf]*tally
	counted   int   // as counted by Purge
	removed   int64 // deliveries to delete
	newest    int64 // highest row id of those
	lastEvent int64
	lastOver  int64
	purged    int64    // ledger's count of purged deliveries, of all nodes
	sealed    []string // tenants whose rows stay
}

// clearDays clears the days that are old enough, and returns how much of them it deleted. A day
// that cannot be cleared now stays, and its expired rows are deleted one by one.
func (s *Store) clearDays(ctx context.Context, keep *store.Keep) (removed int, err error) {
	c, err := s.readDays(ctx)
	if err != nil {
		return 0, readError(ctx, err)
	}
	for _, d := range c.days {
		if d.number >= c.current || keep.Now.Before(s.days.later(d.number)) {
			continue
		}
		n, err := s.clearDay(ctx, d.number, keep)
		removed += n
		switch {
		case errors.Is(err, errNotNow):
			s.days.postpone(d.number, keep.Now.Add(s.bounds.DayAgain))
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

// errNotNow says that a day is not worth clearing yet.
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
	// One query for both, because events are large: the events that stay, and the number of deleted
	// events without deliveries.
	ofEvents = `SELECT coalesce((array_agg(seq) FILTER (WHERE stays))[1:$3], '{}'), count(*) FILTER (WHERE made = 0 AND NOT stays) FROM (
			SELECT seq, made, cut.kind IS NULL OR accepted >= before OR last >= $4 AS stays FROM %event e
				LEFT JOIN unnest($1::int[], $2::bigint[]) cut(kind, before) ON cut.kind = e.kind
		) e`
	unnamedOfDay  = "SELECT EXISTS (SELECT FROM %event WHERE kind <= 0) OR EXISTS (SELECT FROM %finished WHERE target <= 0)"
	waitingOfDay  = "SELECT seq, event FROM pending WHERE seq >= $1 AND seq < $2 ORDER BY seq LIMIT $3"
	keepEvents    = "INSERT INTO kept_event SELECT * FROM %event WHERE seq = ANY($1) AND seq <> ALL($2)"
	keepFinished  = "INSERT INTO kept_finished SELECT * FROM %finished WHERE seq = ANY($1)"
	keepAttempts  = "INSERT INTO kept_attempt SELECT * FROM %attempt WHERE delivery = ANY($1)"
	repeatedOfDay = "SELECT DISTINCT event FROM redelivery WHERE event >= $1 AND event < $2 AND delivery >= $2 LIMIT $3"
	changedInDay  = `SELECT EXISTS (SELECT FROM pending WHERE seq >= $1 AND seq < $2 AND seq <> ALL($3))
		OR EXISTS (SELECT FROM %finished WHERE seq > $4 AND seq <> ALL($3))`
	exclusively = "LOCK TABLE ONLY event, ONLY finished, ONLY attempt IN ACCESS EXCLUSIVE MODE"
)

// ofDayTables puts the tables of a day into a query.
func ofDayTables(query string, day int64) string {
	for _, of := range dated {
		query = strings.ReplaceAll(query, "%"+of, tableOf(of, day))
	}
	return query
}

// clearDay clears one day.
func (s *Store) clearDay(ctx context.Context, day int64, keep *store.Keep) (removed int, err error) {
	ctx, done := s.chores.bound(ctx)
	defer done()
	old, err := s.isOld(ctx, day, keep)
	if err != nil || !old {
		return 0, err
	}
	var c *clearance
	err = pgx.BeginTxFunc(ctx, s.chores, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		c, err = s.lookAtDay(ctx, tx, day, keep)
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

// isOld says whether the retention of a day's last event has passed for every kind of the day. It
// reads the kinds only if the answer depends on them, because one rule says yes and another no. If
// the answer is no then, it is errNotNow, so that the kinds are not read in every round.
func (s *Store) isOld(ctx context.Context, day int64, keep *store.Keep) (bool, error) {
	var last int64
	err := s.chores.QueryRow(ctx, ofDayTables(lastEventQuery, day)).Scan(&last)
	switch {
	case isNone(err):
		return true, nil
	case err != nil || last >= codec.Micros(keep.Now.Add(-shortest(keep, onTime))):
		return false, err
	case last < codec.Micros(keep.Now.Add(-longest(keep))):
		return true, nil
	}
	before, err := cutoffs(ctx, s.chores, eventKinds, day, keep)
	for _, cut := range before {
		if err == nil && last >= cut {
			return false, errNotNow
		}
	}
	return err == nil, err
}

// The kinds of a day: those of its events, one index step each, and those of deliveries that repeat
// events of earlier days.
const (
	eventKinds = `WITH RECURSIVE one AS (
			(SELECT kind FROM %event ORDER BY kind LIMIT 1)
			UNION ALL SELECT (SELECT kind FROM %event WHERE kind > one.kind ORDER BY kind LIMIT 1) FROM one WHERE one.kind IS NOT NULL
		) SELECT k.number, k.tenant, k.type FROM one JOIN kind k ON k.number = one.kind WHERE ` + unsealed
	dayKinds = eventKinds + ` UNION SELECT k.number, k.tenant, k.type FROM (SELECT DISTINCT kind FROM %finished WHERE replay_of <> 0) f
		JOIN kind k ON k.number = f.kind WHERE ` + unsealed
)

// cutoffs are, for each kind of a day, the time before which an event must have been accepted, and
// a delivery finished, to be deleted. A kind of a sealed tenant has none.
func cutoffs(ctx context.Context, db queries, kinds string, day int64, keep *store.Keep) (before map[int32]int64, err error) {
	rows, err := db.Query(ctx, ofDayTables(kinds, day))
	if err != nil {
		return nil, err
	}
	before = make(map[int32]int64)
	var number int32
	var k kind
	_, err = pgx.ForEachRow(rows, []any{&number, &k.tenant, &k.eventType}, func() error {
		before[number] = codec.Micros(keep.Now.Add(-keep.Of(k.tenant, k.eventType)))
		return nil
	})
	return before, err
}

// lookAtDay plans which rows of a day stay.
func (s *Store) lookAtDay(ctx context.Context, tx pgx.Tx, day int64, keep *store.Keep) (*clearance, error) {
	before, err := cutoffs(ctx, tx, dayKinds, day, keep) // without the tenants sealed at this moment
	if err != nil {
		return nil, err
	}
	c := &clearance{day: day, most: s.bounds.DayStays, events: []int64{}, tallies: make(map[tallyOf]*tally)}
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
	// The cheapest queries come first, because they may show already that too much stays.
	if err = tx.QueryRow(ctx, ofDayTables(stateQuery, day)).Scan(&c.purged, &c.sealed, &c.lastEvent, &c.lastOver); err != nil {
		return nil, err
	}
	// Rows that name kind 0 or target 0 cannot be written back: the day's table refuses them. They
	// stay where they are (unnamed).
	var stuck bool
	if err = tx.QueryRow(ctx, ofDayTables(unnamedOfDay, day)).Scan(&stuck); err != nil {
		return nil, err
	}
	if stuck {
		return nil, errNotNow
	}
	tooMuch := func() bool { return len(c.over)+len(c.waiting)+len(events) > c.most }
	if c.waiting, err = pairs(waitingOfDay, begins(day), begins(day+1), c.most+1); err != nil {
		return nil, err
	}
	repeated, err := c.repeated(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, event := range repeated {
		events[event] = true
	}
	if tooMuch() {
		return nil, errNotNow
	}
	if c.over, err = pairs(stayingQuery, kinds, cuts, c.most+1); err != nil {
		return nil, err
	}
	if tooMuch() {
		return nil, errNotNow
	}
	var young []int64
	if err := tx.QueryRow(ctx, ofDayTables(ofEvents, day), kinds, cuts, c.most+1, begins(day+1)).Scan(&young, &c.counted); err != nil {
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
	if stay := c.stays(); stay > 0 && c.counted < s.days.worth*stay {
		return nil, errNotNow
	}
	return c, nil
}

// repeated are the events of the day that have deliveries of later days.
func (c *clearance) repeated(ctx context.Context, db pgx.Tx) ([]int64, error) {
	rows, err := db.Query(ctx, repeatedOfDay, begins(c.day), begins(c.day+1), c.most+1)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// count counts the deliveries to delete.
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

// stays is the number of rows that stay.
func (c *clearance) stays() int { return len(c.events) + len(c.over) + len(c.waiting) }

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
	if err := db.QueryRow(ctx, ofDayTables(stateQuery, c.day)).Scan(&now.purged, &now.sealed, &now.lastEvent, &now.lastOver); err != nil {
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
	if changed || now.purged != c.purged || now.lastEvent != c.lastEvent || !slices.Equal(now.sealed, c.sealed) || len(repeated) > c.most ||
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
	for _, table := range namings {
		b.Queue("DELETE FROM " + table + " WHERE seq IN (SELECT seq FROM kept_event)") // the INSERT below adds their names again
	}
	for _, of := range dated {
		b.Queue("TRUNCATE " + tableOf(of, c.day))
		b.Queue("INSERT INTO " + tableOf(of, c.day) + " SELECT * FROM kept_" + of)
	}
}

// Rows about deliveries and events that were deleted with their day. No query looks for them.
var sweeps = append(column(namings, func(table string) string {
	return "DELETE FROM " + table + " WHERE seq = ANY(ARRAY(SELECT seq FROM " + table + ` n WHERE seq >= $1 AND seq < $2
		AND NOT EXISTS (SELECT FROM event WHERE seq = n.seq OFFSET 0) LIMIT $3))`
}),
	`DELETE FROM mark WHERE delivery = ANY(ARRAY(SELECT delivery FROM mark m WHERE delivery >= $1 AND delivery < $2
		AND NOT EXISTS (SELECT FROM finished WHERE seq = m.delivery OFFSET 0) AND NOT EXISTS (SELECT FROM pending WHERE seq = m.delivery OFFSET 0) LIMIT $3))`,
	`DELETE FROM redelivery WHERE delivery = ANY(ARRAY(SELECT delivery FROM redelivery r WHERE delivery >= $1 AND delivery < $2
		AND NOT EXISTS (SELECT FROM finished WHERE seq = r.delivery OFFSET 0) AND NOT EXISTS (SELECT FROM pending WHERE seq = r.delivery OFFSET 0) LIMIT $3))`,
)

// sweep deletes the remaining rows about days that were dropped.
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

// later is the time before which a day is not considered.
func (d *days) later(day int64) time.Time {
	at, _ := d.postponed.Load(day)
	when, _ := at.(time.Time)
	return when
}

func (d *days) postpone(day int64, until time.Time) { d.postponed.Store(day, until) }
