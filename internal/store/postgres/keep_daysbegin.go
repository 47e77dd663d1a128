package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

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

// locksOfDay is the number of locks that a read takes for each day if it may look into all: of the
// tables of events and finished deliveries, and of their indexes.
const locksOfDay = 9

// locksQuery returns the size of the server's table of locks, as locks of each of a number of
// transactions, and the number of nodes.
const locksQuery = `SELECT current_setting('max_locks_per_transaction')::int, current_setting('max_connections')::int
	+ current_setting('max_prepared_transactions')::int, (SELECT greatest(count(*), 1) FROM node
		WHERE seen > clock_timestamp() - interval '1 hour')`

// countLocks warns if the table of locks has no space for the reads that all nodes may make at
// once. Then writes fail as well as reads. The table has space for two holders of each lock.
func (s *keeper) countLocks(ctx context.Context, days int) error {
	var each, transactions, nodes int
	err := s.chores.QueryRow(ctx, locksQuery).Scan(&each, &transactions, &nodes)
	if need := days * locksOfDay * s.bounds.Conns.Reads * nodes; err == nil && need > 2*each*transactions {
		s.log.Warn("max_locks_per_transaction of the database is too small for its stored days; reads at the same time may fail with "+
			"\"out of shared memory\", and writes beside them", "max_locks_per_transaction", each, "days", days,
			"least", (need-1)/(2*transactions)+1)
	}
	return err
}
