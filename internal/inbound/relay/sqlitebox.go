package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
	"github.com/grapnelhq/grapnel/outbox"
)

// sqliteBox is the box in an SQLite database. It locks nothing between look and take: the ids of
// rows are in the order of commits, because SQLite has one writer; and two couriers of one file do
// no harm, because a repeated event is a duplicate.
type sqliteBox struct {
	bounds Bounds
	conn   *sqlite3.Conn
	seen   int64 // the version of the data at the last look
}

var _ box = (*sqliteBox)(nil)

// errNotGiven is the error of a file that the server was not started with.
var errNotGiven = errors.New("this server may not use that file: start it with --outbox-file and its path")

// openFile opens a database that exists, and creates the outbox's table unless it is there.
func openFile(path string, within Bounds) (box, error) {
	conn, err := sqlite3.Open(path, sqlite3.ReadWrite)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := conn.Exec(outbox.InstallSQLite()); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &sqliteBox{bounds: within, conn: conn}, nil
}

// The oldest rows. The data of an oversized event are not read.
const oldest = `SELECT id, type, coalesce(key, ''), event_id, CASE WHEN octet_length(data) <= ?2 THEN data END, octet_length(data), metadata,
  occurred_at, published_at FROM grapnel_outbox ORDER BY id LIMIT ?1`

func (b *sqliteBox) look(ctx context.Context, maxEvent int64) (p page, err error) {
	if err := ctx.Err(); err != nil { // nothing else here waits, and the courier ends by an error
		return p, err
	}
	if b.seen, err = b.version(); err != nil {
		return p, err
	}
	rows := b.conn.Query(oldest).Int(int64(b.bounds.Rows)).Int(maxEvent)
	defer rows.Reset()
	var sum int64
	for rows.More(&err) {
		r := row{id: rows.Integer(0), kind: rows.String(1), key: rows.String(2), event: rows.String(3), size: rows.Integer(5)}
		if sum > 0 && sum+r.size > b.bounds.Bytes {
			p.full = true
			break
		}
		sum += min(r.size, maxEvent)
		if !rows.IsNull(4) {
			r.data = rows.Bytes(4)
		}
		if !rows.IsNull(6) {
			r.garbled = json.Unmarshal([]byte(rows.String(6)), &r.metadata) != nil
		}
		if at, err := time.Parse(time.RFC3339Nano, rows.String(7)); err == nil {
			r.occurredAt = &at
		}
		p.age = max(p.age, time.Since(time.UnixMilli(rows.Integer(8))))
		p.rows = append(p.rows, r)
	}
	p.full = p.full || len(p.rows) >= b.bounds.Rows
	return p, err
}

// take removes rows one by one: of a page that was cut, only the first ones were published.
func (b *sqliteBox) take(_ context.Context, p page) error {
	if err := b.conn.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for i := range p.rows {
		if err := b.conn.Query("DELETE FROM grapnel_outbox WHERE id = ?").Int(p.rows[i].id).Run(); err != nil {
			return errors.Join(err, b.conn.Exec("ROLLBACK"))
		}
	}
	return b.conn.Exec("COMMIT")
}

func (b *sqliteBox) leave(context.Context) error { return nil }

// sleep waits until another connection commits. SQLite wakes nobody, so sleep reads the number of
// the last commit again and again, which costs some microseconds.
func (b *sqliteBox) sleep(ctx context.Context, d time.Duration) error {
	for until := time.Now().Add(d); ctx.Err() == nil && time.Now().Before(until); {
		if now, err := b.version(); err != nil || now != b.seen {
			return err
		}
		backoff.Wait(ctx.Done(), min(b.bounds.Nap, d))
	}
	return nil
}

func (b *sqliteBox) version() (v int64, err error) {
	s := b.conn.Query("PRAGMA data_version")
	defer s.Reset()
	if more, err := s.Row(); err != nil || !more {
		return 0, err
	}
	return s.Integer(0), nil
}

func (b *sqliteBox) inClear() (host, remedy string) { return "", "" }

func (b *sqliteBox) Close() error { return b.conn.Close() }
