package relay

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store/postgres/inclear"
)

// mysqlBox is the box in a database of MySQL or MariaDB. It remembers no id, because those of
// different keys are committed in any order: each look begins with the lowest one. A look locks no
// rows, so it waits for no producer; a lock by name keeps other couriers away.
type mysqlBox struct {
	bounds Bounds
	db     *sql.DB
	conn   *sql.Conn
	oldest *sql.Stmt
	host   string // for inClear
}

var _ box = (*mysqlBox)(nil)

// dialer is the signature of net.Dialer.DialContext.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

const mysqlRemedy = "add ssl-mode=VERIFY_IDENTITY to the URL of the database, and ssl-ca=FILE if its certificate is of a private authority"

// The lock of couriers. Names of locks belong to the whole server, and have 64 characters at most.
const (
	mysqlLock   = `SELECT coalesce(GET_LOCK(concat('grapnel.outbox.', md5(database())), 0), 0)`
	mysqlUnlock = `DO RELEASE_LOCK(concat('grapnel.outbox.', md5(database())))`
)

// mysqlOldest reads the oldest rows, up to a page, in one statement, which is one state of the
// table. The data of an oversized event are not read.
const mysqlOldest = "SELECT o.id, o.type, coalesce(o.`key`, ''), o.event_id, if(o.size <= ?, o.data, NULL), o.size, o.metadata, o.occurred_at," + `
  timestampdiff(MICROSECOND, o.published_at, utc_timestamp(6)), s.found
FROM (
  SELECT id, size, count(*) OVER () AS found, sum(least(size, ?)) OVER (ORDER BY id) AS upto
  FROM (SELECT id, size FROM grapnel_outbox ORDER BY id LIMIT ?) AS first
) AS s STRAIGHT_JOIN grapnel_outbox AS o ON o.id = s.id
WHERE s.upto - least(s.size, ?) < ?
ORDER BY s.id`

// openMySQL connects.
func openMySQL(ctx context.Context, dsn string, within Bounds) (box, error) {
	return connectMySQL(ctx, dsn, within, new(net.Dialer).DialContext)
}

func connectMySQL(ctx context.Context, dsn string, within Bounds, dial dialer) (_ box, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	var raw net.Conn // before TLS
	db, err := dialMySQL(dsn, func(ctx context.Context, network, address string) (_ net.Conn, err error) {
		raw, err = dial(ctx, network, address)
		return raw, err
	})
	if err != nil {
		return nil, err
	}
	b := &mysqlBox{bounds: within, db: db}
	if b.conn, err = db.Conn(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	var name, cipher string
	if err = b.conn.QueryRowContext(ctx, `SHOW SESSION STATUS LIKE 'Ssl_cipher'`).Scan(&name, &cipher); err == nil {
		b.oldest, err = b.conn.PrepareContext(ctx, mysqlOldest)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if cipher == "" && inclear.Crosses(raw) {
		b.host, _, _ = net.SplitHostPort(raw.RemoteAddr().String())
	}
	return b, nil
}

// dialMySQL gives connections to a DSN.
func dialMySQL(dsn string, dial dialer) (*sql.DB, error) {
	at, err := parseMySQL(dsn)
	if err != nil {
		return nil, err
	}
	config, err := at.config()
	if err != nil {
		return nil, err
	}
	config.DialFunc = dial
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func (b *mysqlBox) look(ctx context.Context, maxEvent int64) (p page, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.bounds.Call)
	defer cancel()
	var mine int
	if err := b.conn.QueryRowContext(ctx, mysqlLock).Scan(&mine); err != nil || mine == 0 {
		return page{elsewhere: true}, err
	}
	rows, err := b.oldest.QueryContext(ctx, maxEvent, maxEvent, b.bounds.Rows, maxEvent, b.bounds.Bytes)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found := 0
	for rows.Next() {
		var r row
		var metadata sql.NullString
		var at sql.NullTime
		var age int64
		if err := rows.Scan(&r.id, &r.kind, &r.key, &r.event, &r.data, &r.size, &metadata, &at, &age, &found); err != nil {
			return p, err
		}
		if metadata.Valid {
			r.garbled = json.Unmarshal([]byte(metadata.String), &r.metadata) != nil
		}
		if at.Valid && !at.Time.IsZero() && at.Time.Year() > 0 { // a date of zeros is the zero time
			r.occurredAt = &at.Time
		}
		p.age = max(p.age, time.Duration(age)*time.Microsecond)
		p.rows = append(p.rows, r)
	}
	p.full = found >= b.bounds.Rows || found > len(p.rows)
	return p, rows.Err()
}

// take removes each row by a statement of its own, all in one call. One statement for many could
// read the whole of a small table, and would then wait for rows that producers have not committed.
func (b *mysqlBox) take(ctx context.Context, p page) error {
	ctx, cancel := context.WithTimeout(ctx, b.bounds.Call)
	defer cancel()
	var all strings.Builder
	all.WriteString("START TRANSACTION; ")
	for i := range p.rows {
		all.WriteString("DELETE FROM grapnel_outbox WHERE id = " + strconv.FormatInt(p.rows[i].id, 10) + "; ")
	}
	all.WriteString("COMMIT; " + mysqlUnlock)
	_, err := b.conn.ExecContext(ctx, all.String())
	return err
}

func (b *mysqlBox) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.bounds.Call)
	defer cancel()
	_, err := b.conn.ExecContext(ctx, mysqlUnlock)
	return err
}

// sleep waits for the next look: producers cannot wake a courier in MySQL.
func (b *mysqlBox) sleep(ctx context.Context, d time.Duration) error {
	backoff.Wait(ctx.Done(), min(d, b.bounds.Glance))
	return nil
}

func (b *mysqlBox) inClear() (host, remedy string) { return b.host, mysqlRemedy }

// Close closes the connection, which ends its transaction and its lock. The pool of one does so
// only with a connection that was given back.
func (b *mysqlBox) Close() error { return errors.Join(b.conn.Close(), b.db.Close()) }
