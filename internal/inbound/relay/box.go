package relay

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/store/postgres/inclear"
)

// box is a producer's outbox as a courier sees it through one connection. After an error it is
// closed and opened again.
type box interface {
	// look reads the oldest rows. Until take or leave the outbox is locked against other couriers,
	// but not against producers.
	look(ctx context.Context, maxEvent int64) (page, error)
	// take removes the rows of the last look.
	take(ctx context.Context, p page) error
	// leave releases the rows of the last look.
	leave(ctx context.Context) error
	// sleep asks producers to wake it, until the next look that finds rows, and waits up to d for
	// it. The first call returns at once, because a row may have been committed before any producer
	// saw the request. Behind a pooler it does not ask: it would not be woken.
	sleep(ctx context.Context, d time.Duration) error
	// inClear is the host to which the connection crosses a network without TLS, and the remedy;
	// empty: it has TLS, or stays on this machine.
	inClear() (host, remedy string)
	Close() error
}

// page is the result of a look.
type page struct {
	elsewhere bool          // another courier has the lock; the other fields are empty
	rows      []row         // in order
	full      bool          // more rows follow
	age       time.Duration // of the oldest row, by the database's clock

	newest int64 // numbers drawn up to the look
}

// row is an event, or a transaction without events left.
type row struct {
	number int64 // of the transaction
	batch  int64
	id     int64 // 0: none

	kind, key, event string
	data             []byte // nil: it is larger than it may be
	size             int64
	metadata         map[string]string
	garbled          bool       // metadata is none
	occurredAt       *time.Time // nil: not in the years 1 to 9999

	// of messages of brokers
	media   string // content type; empty: JSON, which is checked
	trace   string // a traceparent; empty: none
	headers []grapnel.Header
	wrong   string // why it cannot be an event, if that is known already
}

const (
	channel = "grapnel_outbox"
	// Advisory locks of the outbox have this class; 0 to 1023 are the places of keys.
	lockClass = 1735552626
	lockRelay = -2
)

var _ box = (*pgBox)(nil)

// pgBox is the box in a PostgreSQL.
type pgBox struct {
	bounds Bounds
	conn   *pgx.Conn
	pooled bool // the connection leads through a pooler, which carries no notifications
	tx     pgx.Tx
	host   string // for inClear
	woken  bool   // a notification came after the last look began
	// remaining time, as of the last look, for which producers were asked to wake a courier;
	// another courier may have asked
	asked time.Duration

	// All numbers up to low are removed forever, so a look need not pass over their dead entries in
	// the index. Those are many while an old transaction holds back vacuum.
	low     int64
	settled settling
	whole   time.Time // when a look last started from the first number
}

// settling is a number that low can rise to once all transactions below xid have ended: those that
// drew the number, or a lower one, have a lower xid.
type settling struct {
	number int64
	xid    int64 // 0: none
}

// open connects.
func open(ctx context.Context, dsn string, within Bounds) (box, error) {
	config, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	return connect(ctx, config, within)
}

func connect(ctx context.Context, config *pgx.ConnConfig, within Bounds) (_ box, err error) {
	b := &pgBox{bounds: within}
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { b.woken = true }
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if b.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	if inclear.Crosses(b.conn.PgConn().Conn()) {
		b.host = config.Host
	}
	if b.pooled, err = postgres.Pooled(ctx, b.conn.PgConn()); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if b.pooled && !postgres.Unprepared(config) {
		if err := b.Close(); err != nil {
			return nil, err
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		if b.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
			return nil, err
		}
	}
	if b.pooled {
		return b, nil
	}
	if _, err := b.conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// begin sets, for its transaction only, settings that must not depend on statistics: the tables are
// empty one moment and huge the next, so plans that are good for only one of the two are forbidden.
// Rows that take removes need not be on disk before it returns: if they come back, they are
// duplicates.
const begin = `SELECT pg_try_advisory_xact_lock($1, $2), pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
  (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM grapnel.outbox_commit_number),
  (SELECT last_value FROM grapnel.outbox_sleeper) - (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
  set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
  set_config('synchronous_commit', 'off', true), set_config('idle_in_transaction_session_timeout', '60s', true)`

// find reads the oldest rows, up to a page. The data of an oversized event are not read, nor is a
// time that Go or JSON cannot write, such as infinity.
const find = `SELECT number, batch, coalesce(id, 0), coalesce(type, ''), coalesce(key, ''), coalesce(event_id, ''),
  CASE WHEN size <= $3 THEN data END, coalesce(size, 0), metadata,
  CASE WHEN occurred_at >= '0001-01-01 00:00Z' AND occurred_at < '10000-01-01 00:00Z' THEN occurred_at END,
  extract(epoch FROM clock_timestamp() - committed_at)::float8, found
FROM (
  SELECT *, count(*) OVER () AS found, sum(least(size, $3)) OVER (ORDER BY number, id) - least(size, $3) AS before
  FROM (
    SELECT c.number, c.committed_at, c.batch, e.id, e.type, e.key, e.event_id, e.data, octet_length(e.data)::bigint AS size, e.metadata, e.occurred_at
    FROM (SELECT * FROM grapnel.outbox_commit WHERE number > $1 ORDER BY number LIMIT $2) AS c
    LEFT JOIN LATERAL (SELECT * FROM grapnel.outbox_event WHERE batch = c.batch ORDER BY id LIMIT $2) AS e ON true
    ORDER BY c.number, e.id
    LIMIT $2
  ) AS oldest
) AS counted
WHERE coalesce(before, 0) < $4
ORDER BY number, id`

func (b *pgBox) look(ctx context.Context, maxEvent int64) (p page, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.bounds.Call)
	defer cancel()
	b.woken = false
	if b.tx, err = b.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err != nil {
		return p, err
	}
	var mine bool
	var oldest, asked int64
	if err := b.tx.QueryRow(ctx, begin, lockClass, lockRelay).Scan(&mine, &oldest, &p.newest, &asked, nil, nil, nil, nil, nil); err != nil {
		return p, err
	}
	b.asked = max(0, time.Duration(asked)*time.Millisecond)
	if !mine {
		return page{elsewhere: true}, nil
	}
	if now := time.Now(); now.Sub(b.whole) > b.bounds.Whole {
		b.low, b.whole = 0, now
	}
	rows, err := b.tx.Query(ctx, find, b.low, b.bounds.Rows, maxEvent, b.bounds.Bytes)
	if err != nil {
		return p, err
	}
	found, age := 0, 0.0
	p.rows, err = pgx.CollectRows(rows, func(from pgx.CollectableRow) (r row, err error) {
		var metadata *string
		err = from.Scan(&r.number, &r.batch, &r.id, &r.kind, &r.key, &r.event, &r.data, &r.size, &metadata,
			&r.occurredAt, &age, &found)
		if metadata != nil {
			r.garbled = json.Unmarshal([]byte(*metadata), &r.metadata) != nil
		}
		p.age = max(p.age, time.Duration(age*float64(time.Second)))
		return r, err
	})
	if err != nil {
		return p, err
	}
	p.full = found >= b.bounds.Rows || found > len(p.rows)
	b.settle(oldest, p.rows)
	if len(p.rows) > 0 && b.asked > 0 {
		err = b.ask(ctx, 0)
	}
	return p, err
}

// settle raises low as far as possible after a look.
func (b *pgBox) settle(oldest int64, rows []row) {
	if b.settled.xid == 0 || oldest < b.settled.xid {
		return
	}
	number := b.settled.number
	if len(rows) > 0 {
		number = min(number, rows[0].number-1)
	}
	b.low, b.settled = max(b.low, number), settling{}
}

// remove deletes events, and the transactions without events left.
const (
	removeEvents  = `DELETE FROM grapnel.outbox_event AS e USING unnest($1::bigint[], $2::bigint[]) AS done (batch, id) WHERE e.batch = done.batch AND e.id = done.id`
	removeCommits = `DELETE FROM grapnel.outbox_commit AS c WHERE c.number = ANY ($1) AND NOT EXISTS (SELECT FROM grapnel.outbox_event AS e WHERE e.batch = c.batch)`
)

func (b *pgBox) take(ctx context.Context, p page) error {
	ctx, cancel := context.WithTimeout(ctx, b.bounds.Call)
	defer cancel()
	var batches, ids, numbers []int64
	for i := range p.rows {
		r := &p.rows[i]
		if r.id != 0 {
			batches, ids = append(batches, r.batch), append(ids, r.id)
		}
		if len(numbers) == 0 || numbers[len(numbers)-1] != r.number {
			numbers = append(numbers, r.number)
		}
	}
	if _, err := b.tx.Exec(ctx, removeEvents, batches, ids); err != nil {
		return err
	}
	if _, err := b.tx.Exec(ctx, removeCommits, numbers); err != nil {
		return err
	}
	if b.settled.xid == 0 {
		s := settling{number: p.newest}
		if err := b.tx.QueryRow(ctx, `SELECT pg_current_xact_id()::text::bigint`).Scan(&s.xid); err != nil {
			return err
		}
		b.settled = s
	}
	return b.tx.Commit(ctx)
}

func (b *pgBox) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.bounds.Call)
	defer cancel()
	return b.tx.Rollback(ctx)
}

func (b *pgBox) sleep(ctx context.Context, d time.Duration) error {
	if b.pooled {
		backoff.Wait(ctx.Done(), d)
		return nil
	}
	if b.asked < b.bounds.Again {
		first := b.asked == 0
		if err := b.ask(ctx, b.bounds.Ask); err != nil || first {
			return err
		}
	}
	if b.woken {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if _, err := b.conn.WaitForNotification(waiting); err != nil && (!pgconn.Timeout(err) || ctx.Err() != nil) {
		return err
	}
	return nil
}

// ask asks to be woken for some time; 0: no more.
func (b *pgBox) ask(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, b.bounds.Call)
	defer cancel()
	const until = `SELECT setval('grapnel.outbox_sleeper', CASE WHEN $1::bigint = 0 THEN 0 ELSE (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $1 END)`
	_, err := b.conn.Exec(ctx, until, d.Milliseconds())
	return err
}

func (b *pgBox) inClear() (host, remedy string) { return b.host, inclear.Remedy }

// Close closes the connection, which ends its transaction.
func (b *pgBox) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return b.conn.Close(ctx)
}
