package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
)

// Events, deliveries that are over and attempts are in tables of a day each, so that they can go as a whole. Which table has a row follows from its
// number: a day has the numbers of its own range, and when it begins the sequences jump there. They jump while nobody else writes, and only
// to a day whose tables are there, so every number that is drawn has a table, and all that a transaction draws has the same day. If nobody jumps,
// because no one was there at midnight or a table could not be made, numbers simply go on in the range of the day before. So nothing depends on the
// clock that says when a day begins, which is the database's; it never takes a number back.

// dayBits is how many bits of a number tell what is of a day apart.
const dayBits = 36

// dayOf is the day since 1970 in whose tables a number is. Numbers from before there were days are of day 0.
func dayOf(number int64) int64 { return number >> dayBits }

// begins is the first number of a day.
func begins(day int64) int64 { return day << dayBits }

// dayAt is the day in which a time is.
func dayAt(micros int64) int64 { return micros / (24 * time.Hour).Microseconds() }

// dated are the tables that are cut into days.
var dated = []string{"event", "finished", "attempt"}

// tableOf is the table of a day.
func tableOf(of string, day int64) string {
	if day == 0 {
		return of + "_first"
	}
	return of + "_" + midnight(day).Format("20060102")
}

func midnight(day int64) time.Time { return time.Unix(day*24*60*60, 0).UTC() }

// calendar is what a node knows of the days there are. It may be old: others make days and remove them.
type calendar struct {
	days    []day // the oldest first
	current int64 // the day that numbers are drawn from
	// arrivals is how many tenants had come from elsewhere: each may bring days of its own.
	arrivals int64
	named    int // see Bounds.DaysNamed
}

// day is one that has tables.
type day struct {
	number int64
	// The ids that are in no other day's table and have no name (namings) are those between these texts. All of day 0 can only be found there.
	from, to string
	whose    bool // ids are unique by tenant there, and not by themselves as before step 9
}

// dayOfTables says which ids a day can have alone: those made on that day or on the one before, as they tell by themselves.
func dayOfTables(number int64) day {
	return day{number: number, from: firstID(number - 1), to: firstID(number + 1)}
}

// firstID is what no id that is made on a day or later comes before. It ends where the random part begins.
func firstID(day int64) string {
	return grapnel.NewID(grapnel.EventPrefix, midnight(day), strings.NewReader("0123456789"))[:len(grapnel.EventPrefix)+1+10]
}

func (d *day) mayHave(id string) bool { return d.number == 0 || d.from <= id && id < d.to }

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

// canBegin says whether numbers may be drawn from a day.
func (c *calendar) canBegin(number int64) bool {
	return slices.ContainsFunc(c.days, func(d day) bool { return d.number == number && (d.whose || number <= c.current) })
}

// due is the day that numbers are to be drawn from. A day that an earlier program has made is left
// for the next one.
func (c *calendar) due(today int64) int64 {
	if slices.ContainsFunc(c.days, func(d day) bool { return d.number == c.current && !d.whose }) {
		return max(today, c.current+1)
	}
	return today
}

// of is what to read rows with these numbers from: the tables of their days, which saves the server from looking at all of them; or the
// whole, if that is not known, or they are many.
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

// holders are the tables in which events with these ids can be that have no name (namings).
func (c *calendar) holders(ids []string) (tables []string) {
	for i := range c.days {
		d := &c.days[i]
		if d.number <= c.current && slices.ContainsFunc(ids, d.mayHave) {
			tables = append(tables, tableOf("event", d.number))
		}
	}
	return tables
}

// days is what a store remembers of them, and does for them.
type days struct {
	known   atomic.Pointer[calendar]
	doubted atomic.Bool  // it is read again before it is used for writing
	clock   atomic.Int64 // of the database, as it was told last

	chore sync.Mutex // who holds it makes days
	again time.Time  // when to try again, after that has failed

	worth     int      // see Bounds.DayWorth
	postponed sync.Map // until when (time.Time) a day (int64) is not looked at again to be cleared
}

const calendarQuery = `SELECT coalesce(array_agg(c.relname::text), '{}'),
		coalesce(array_agg(to_regclass(c.relname || '_whose') IS NOT NULL), '{}'),
		(SELECT last_value FROM event_number), (SELECT arrivals FROM configuration)
	FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'event'::regclass`

// readDays reads which days there are.
func (s *Store) readDays(ctx context.Context) (*calendar, error) {
	var tables []string
	var whose []bool
	var last, arrivals int64
	if err := s.pool.QueryRow(ctx, calendarQuery).Scan(&tables, &whose, &last, &arrivals); err != nil {
		return nil, err
	}
	c := &calendar{current: dayOf(last), arrivals: arrivals, named: s.bounds.DaysNamed}
	for i, table := range tables {
		if table == tableOf("event", 0) {
			c.days = append(c.days, day{whose: whose[i]})
		} else if at, err := time.Parse("event_20060102", table); err == nil {
			d := dayOfTables(dayAt(at.UnixMicro()))
			d.whose = whose[i]
			c.days = append(c.days, d)
		}
	}
	slices.SortFunc(c.days, func(x, y day) int { return int(x.number - y.number) })
	s.days.known.Store(c)
	s.days.doubted.Store(false)
	return c, nil
}

// learnDays makes sure that what is known of the days can be used.
func (s *Store) learnDays(ctx context.Context) (*calendar, error) {
	if c := s.days.known.Load(); c != nil && !s.days.doubted.Load() {
		return c, nil
	}
	return s.readDays(ctx)
}

// daily begins a new day if there is one by the database's clock, as far as that was told. Writers call it between two transactions.
func (s *Store) daily() {
	c, today := s.days.known.Load(), dayAt(s.days.clock.Load())
	if c != nil && c.due(today) <= c.current || !s.days.chore.TryLock() {
		return
	}
	defer s.days.chore.Unlock()
	if s.now().Before(s.days.again) {
		return
	}
	ctx, done := s.writing.bound(s.ctx)
	defer done()
	s.beginOrLog(ctx, today)
}

func (s *Store) beginOrLog(ctx context.Context, today int64) {
	if err := s.begin(ctx, today); err != nil {
		s.days.again = s.now().Add(10 * time.Second)
		s.log.Warn("tables for a new day could not be made; events go to those of the day before until they can", "error", err)
	}
}

// begin makes the tables of a day, and of those that come next, and lets numbers jump there. Any node may do it, at any time and again.
func (s *Store) begin(ctx context.Context, today int64) error {
	if err := s.settleFirst(ctx); err != nil {
		return err
	}
	c, err := s.readDays(ctx)
	if err != nil {
		return err
	}
	today = c.due(today)
	for day := max(today, c.current); day <= today+int64(s.bounds.DaysAhead); day++ {
		if c.canBegin(day) || day == 0 {
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
	if c.has(0) {
		if err := s.inDays(ctx, func(tx pgx.Tx) error { return dropFirst(ctx, tx) }); err != nil && stateOf(err) != stateLocked {
			return err
		}
	}
	_, err = s.readDays(ctx)
	return err
}

// dropFirst removes the tables of before there were days if nothing is in them, as in a new database.
func dropFirst(ctx context.Context, tx pgx.Tx) error {
	var there bool
	err := tx.QueryRow(ctx, "SELECT to_regclass('event_first') IS NULL").Scan(&there)
	if err != nil || there {
		return err
	}
	if _, err := tx.Exec(ctx, aloneLock, lockClass, lockConfiguration); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, firstQuery, begins(1)).Scan(&there); err != nil || there {
		return err
	}
	b := new(pgx.Batch)
	dropDay(b, 0)
	return tx.SendBatch(ctx, b).Close()
}

// firstQuery says whether there is anything in the first tables, or can come into them.
const firstQuery = `SELECT EXISTS (SELECT FROM event_first) OR EXISTS (SELECT FROM finished_first) OR EXISTS (SELECT FROM attempt_first)
	OR EXISTS (SELECT FROM pending WHERE seq < $1) OR (SELECT last_value < $1 FROM event_number)`

// dropDay removes the tables of a day.
func dropDay(b *pgx.Batch, day int64) {
	b.Queue("DROP TABLE " + strings.Join(column(dated, func(of string) string { return tableOf(of, day) }), ", "))
}

// lockPatience is how long tables and locks of days are waited for. Others wait behind who waits.
const lockPatience = "SELECT set_config('lock_timeout', '300ms', true)"

// inDays makes a transaction about the tables of days, of which there is one at a time.
func (s *Store) inDays(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.chores, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockPatience); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, aloneLock, lockClass, lockDays); err != nil {
			return err
		}
		return do(tx)
	})
}

// makeDay makes the tables of a day, or of before there were days. Nobody waits for that: adding a table to a whole keeps nobody from using it.
// In tables that an earlier program has made it lets ids be unique by tenant.
func makeDay(ctx context.Context, tx pgx.Tx, number int64) error {
	var there, whose bool
	event := tableOf("event", number)
	const query = "SELECT to_regclass($1) IS NOT NULL, to_regclass($1 || '_whose') IS NOT NULL"
	err := tx.QueryRow(ctx, query, event).Scan(&there, &whose)
	if err != nil || whose {
		return err
	}
	if there {
		_, err = tx.Exec(ctx, "SELECT event_ids_by_tenant($1)", event)
		return err
	}
	d, from := dayOfTables(number), strconv.FormatInt(begins(number), 10)
	if number == 0 {
		from = "MINVALUE"
	}
	named := map[string]string{"event": "kind > 0", "finished": "kind > 0 AND target > 0"} // as in step 7
	var sql strings.Builder
	for _, of := range dated {
		table := tableOf(of, number)
		fmt.Fprintf(&sql, "CREATE TABLE %s (LIKE %s INCLUDING ALL);\n", table, of)
		if check := named[of]; check != "" {
			fmt.Fprintf(&sql, "ALTER TABLE %s ADD CONSTRAINT named CHECK (%s);\n", table, check)
		}
		if of == "event" {
			fmt.Fprintf(&sql, "SELECT event_ids_by_tenant('%s');\n", table)
		}
		if of == "event" && number > 0 { // the first tables are looked into for every id
			fmt.Fprintf(&sql, "CREATE TRIGGER named AFTER INSERT ON %s FOR EACH ROW WHEN (NEW.id < '%s' OR NEW.id >= '%s') EXECUTE FUNCTION name_event();\n",
				table, d.from, d.to)
		}
		fmt.Fprintf(&sql, "ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%d);\n", of, table, from, begins(number+1))
	}
	_, err = tx.Exec(ctx, sql.String(), pgx.QueryExecModeSimpleProtocol)
	return err
}

const jumpSQL = "SELECT setval('%[1]s', $1, false) FROM %[1]s WHERE last_value < $1 AND to_regclass($2) IS NOT NULL"

// jump lets numbers go on in the range of a day. Nobody writes meanwhile, so what was written before it is seen by all that comes after it, and
// no transaction has numbers of two days.
func jump(ctx context.Context, tx pgx.Tx, day int64) error {
	if _, err := tx.Exec(ctx, aloneLock, lockClass, lockConfiguration); err != nil {
		return err
	}
	// Where events are says which day it is, so theirs comes last.
	for _, sequence := range []string{"delivery_number", "event_number"} {
		if _, err := tx.Exec(ctx, fmt.Sprintf(jumpSQL, sequence), begins(day), tableOf("event", day)); err != nil {
			return err
		}
	}
	return nil
}

const (
	unsettledQuery = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('event_first') AND pg_get_expr(relpartbound, oid) = 'DEFAULT'"
	settleFirstSQL = "ALTER TABLE %[1]s DETACH PARTITION %[1]s_first; ALTER TABLE %[1]s ATTACH PARTITION %[1]s_first FOR VALUES FROM (MINVALUE) TO (%[2]d);\n"
)

// settleFirst gives the tables of before there were days the range that they have. That nothing else is in them is read first, once, beside
// everything else.
func (s *Store) settleFirst(ctx context.Context) error {
	var unsettled int
	if err := s.chores.QueryRow(ctx, unsettledQuery).Scan(&unsettled); err != nil || unsettled == 0 {
		return err
	}
	var sql strings.Builder
	for _, of := range dated {
		if _, err := s.chores.Exec(ctx, fmt.Sprintf("ALTER TABLE %[1]s_first VALIDATE CONSTRAINT %[1]s_first_numbers", of)); err != nil {
			return err
		}
		fmt.Fprintf(&sql, settleFirstSQL, of, begins(1))
	}
	return s.inDays(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, aloneLock, lockClass, lockConfiguration); err != nil { // then only readers can be in the way
			return err
		}
		if err := tx.QueryRow(ctx, unsettledQuery).Scan(&unsettled); err != nil || unsettled == 0 {
			return err
		}
		_, err := tx.Exec(ctx, sql.String(), pgx.QueryExecModeSimpleProtocol)
		return err
	})
}
