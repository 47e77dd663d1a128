package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
)

// Events, finished deliveries and attempts are in one table per day, so that a day can be dropped
// as a whole. A row's table follows from its row id: each day has its own range of row ids. When a
// day begins, the sequences jump to its range. They jump under a lock that excludes writers, and
// only to a day whose tables exist. So every row id drawn has a table, and all ids drawn by one
// transaction have the same day. If no node jumps at midnight, because none was running or a table
// could not be created, row ids go on in the range of the day before. So correctness does not
// depend on the clock that begins a day, which is the database's; if it goes back, the sequences do
// not.

// dayBits is the number of low bits of a row id that distinguish rows of one day.
const dayBits = 36

// dayOf is the day since 1970 of a row id's tables. Day 0 has none: a new database's sequences
// begin there.
func dayOf(number int64) int64 { return number >> dayBits }

// begins returns the first row id of a day.
func begins(day int64) int64 { return day << dayBits }

// dayAt is the day of a time.
func dayAt(micros int64) int64 { return micros / (24 * time.Hour).Microseconds() }

// dated are the tables with one partition per day.
var dated = []string{"event", "finished", "attempt"}

// tableOf is the table of a day.
func tableOf(of string, day int64) string {
	return of + "_" + midnight(day).Format("20060102")
}

func midnight(day int64) time.Time { return time.Unix(day*24*60*60, 0).UTC() }

// calendar is a node's knowledge of the days. It may be outdated, because other nodes create and
// remove days.
type calendar struct {
	days    []day // the oldest first
	current int64 // the day from which row ids are drawn
	named   int   // see Bounds.DaysNamed
}

// day is a day that has tables.
type day struct {
	number int64
	// Ids between these texts are in no other day's table, unless they have a name (event_name).
	from, to string
}

// dayOfTables computes the ids that only this day can have: those created on that day or on the day
// before, by the time inside the id.
func dayOfTables(number int64) day {
	return day{number: number, from: firstID(number - 1), to: firstID(number + 1)}
}

// firstID is the smallest prefix of ids created on a day or later. It ends where the random part
// begins.
func firstID(day int64) string {
	return grapnel.NewID(grapnel.EventPrefix, midnight(day), strings.NewReader("0123456789"))[:len(grapnel.EventPrefix)+1+10]
}

func (d *day) mayHave(id string) bool { return d.from <= id && id < d.to }

// newest is the last day that has tables.
func (c *calendar) newest() int64 {
	if len(c.days) == 0 {
		return -1
	}
	return c.days[len(c.days)-1].number
}

func (c *calendar) has(number int64) bool {
	return slices.ContainsFunc(c.days, func(d day) bool { return d.number == number })
}

// of is the source for reading rows with these row ids: the tables of their days, so that the
// server need not search all days; or the whole table, if a day is unknown or there are too many.
func (c *calendar) of(table string, numbers []int64) string {
	var days []int64
	for _, n := range numbers {
		day := dayOf(n)
		if day > c.newest() {
			return table
		}
		if !slices.Contains(days, day) && c.has(day) {
			days = append(days, day)
		}
		if len(days) > c.named {
			return table
		}
	}
	if len(days) <= 1 {
		for _, day := range days {
			return tableOf(table, day)
		}
		return table
	}
	slices.Sort(days)
	return "(" + strings.Join(column(days, func(day int64) string { return "SELECT * FROM " + tableOf(table, day) }), " UNION ALL ") + ")"
}

// holders are the tables in which events with these ids can be that have no name (event_name).
func (c *calendar) holders(ids []string) (tables []string) {
	for i := range c.days {
		d := &c.days[i]
		if d.number <= c.current && slices.ContainsFunc(ids, d.mayHave) {
			tables = append(tables, tableOf("event", d.number))
		}
	}
	return tables
}

// days is a store's cached state about days.
type days struct {
	known   atomic.Pointer[calendar]
	doubted atomic.Bool  // the next write reads the calendar again before it uses it
	clock   atomic.Int64 // the database's time, as of the last answer

	chore sync.Mutex // held while days are created
	again time.Time  // no retry before this, after a failure

	worth     int      // see Bounds.DayWorth
	postponed sync.Map // by day (int64): time.Time before which it is not considered for clearing
}

const calendarQuery = `SELECT coalesce(array_agg(c.relname::text), '{}'), (SELECT last_value FROM event_number)
	FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'event'::regclass`

// readDays reads the calendar.
func (s *database) readDays(ctx context.Context) (*calendar, error) {
	var tables []string
	var last int64
	if err := s.pool.QueryRow(ctx, calendarQuery).Scan(&tables, &last); err != nil {
		return nil, err
	}
	c := &calendar{current: dayOf(last), named: s.bounds.DaysNamed}
	for _, table := range tables {
		if at, err := time.Parse("event_20060102", table); err == nil {
			c.days = append(c.days, dayOfTables(dayAt(at.UnixMicro())))
		}
	}
	slices.SortFunc(c.days, func(x, y day) int { return int(x.number - y.number) })
	s.days.known.Store(c)
	s.days.doubted.Store(false)
	return c, nil
}

// learnDays returns a calendar that can be used, read again if it is in doubt.
func (s *database) learnDays(ctx context.Context) (*calendar, error) {
	if c := s.days.known.Load(); c != nil && !s.days.doubted.Load() {
		return c, nil
	}
	return s.readDays(ctx)
}

// daily begins a new day if the database's clock, as last seen, has reached it. Writers call it
// between two transactions.
func (s *keeper) daily() {
	c, today := s.days.known.Load(), dayAt(s.days.clock.Load())
	if c != nil && today <= c.current || !s.days.chore.TryLock() {
		return
	}
	defer s.days.chore.Unlock()
	if s.now().Before(s.days.again) {
		return
	}
	ctx, done := s.writing.bound(s.ctx)
	defer done()
	if err := s.begin(ctx, today); err != nil {
		s.retryBegin(err)
	}
}

// retryBegin lets row ids go on in the tables of the current day for a while.
func (s *keeper) retryBegin(err error) {
	s.days.again = s.now().Add(10 * time.Second)
	s.log.Warn("creating tables for a new day failed; the previous day's tables stay in use; retrying", "err", err)
}

// begin creates the tables of a day and of the next ones, and moves the sequences to the day. Any
// node may call it at any time, repeatedly.
func (s *keeper) begin(ctx context.Context, today int64) error {
	c, err := s.readDays(ctx)
	if err != nil {
		return err
	}
	for day := max(today, c.current); day <= today+int64(s.bounds.DaysAhead); day++ {
		if c.has(day) {
			continue
		}
		if err := s.inDays(ctx, func(tx pgx.Tx) error { return makeDay(ctx, tx, day) }); err != nil {
			return err
		}
	}
	if today > c.current {
		if err := s.inDays(ctx, func(tx pgx.Tx) error { return jump(ctx, tx, today) }); err != nil {
			return err
		}
	}
	if c, err = s.readDays(ctx); err != nil {
		return err
	}
	return s.countLocks(ctx, len(c.days))
}

// dropDay drops the tables of a day.
func dropDay(b *pgx.Batch, day int64) {
	b.Queue("DROP TABLE " + strings.Join(column(dated, func(of string) string { return tableOf(of, day) }), ", "))
}

// lockPatience is the limit for waiting for tables of days and other locks: other transactions
// queue behind the waiter. Behind one that waits for lockDays, which is taken before, only others
// of days queue.
const (
	daysPatience = "SELECT set_config('lock_timeout', '3s', true)"
	lockPatience = "SELECT set_config('lock_timeout', '300ms', true)"
)

// inDays runs a transaction on the days' tables. Only one runs at a time.
func (s *keeper) inDays(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.chores, func(tx pgx.Tx) error {
		b := new(pgx.Batch)
		b.Queue(daysPatience)
		b.Queue(aloneLock, lockClass, lockDays)
		b.Queue(lockPatience)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		return do(tx)
	})
}

// makeDay creates the tables of a day. It blocks no reader or writer: attaching a partition does
// not exclude them.
func makeDay(ctx context.Context, tx pgx.Tx, number int64) error {
	var there bool
	event := tableOf("event", number)
	if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", event).Scan(&there); err != nil || there {
		return err
	}
	d := dayOfTables(number)
	var sql strings.Builder
	for _, of := range dated {
		table := tableOf(of, number)
		fmt.Fprintf(&sql, "CREATE TABLE %s (LIKE %s INCLUDING ALL);\n", table, of)
		if of == "event" {
			fmt.Fprintf(&sql, "CREATE UNIQUE INDEX %[1]s_id ON %[1]s (id, tenant);\n", table)
			fmt.Fprintf(&sql, "CREATE TRIGGER named AFTER INSERT ON %s FOR EACH ROW WHEN (NEW.id < '%s' OR NEW.id >= '%s') EXECUTE FUNCTION name_event();\n",
				table, d.from, d.to)
		}
		fmt.Fprintf(&sql, "ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%d) TO (%d);\n", of, table, begins(number), begins(number+1))
	}
	_, err := tx.Exec(ctx, sql.String(), pgx.QueryExecModeSimpleProtocol)
	return err
}

const jumpSQL = "SELECT setval('%[1]s', $1, false) FROM %[1]s WHERE last_value < $1 AND to_regclass($2) IS NOT NULL"

// jump moves the sequences to the range of a day. No other transaction writes meanwhile. So every
// later transaction sees the earlier writes, and no transaction has row ids of two days.
func jump(ctx context.Context, tx pgx.Tx, day int64) error {
	if _, err := tx.Exec(ctx, aloneLock, lockClass, lockConfiguration); err != nil {
		return err
	}
	// The events' sequence defines the current day (readDays), so it is moved last.
	for _, sequence := range []string{"delivery_number", "event_number"} {
		if _, err := tx.Exec(ctx, fmt.Sprintf(jumpSQL, sequence), begins(day), tableOf("event", day)); err != nil {
			return err
		}
	}
	return nil
}
