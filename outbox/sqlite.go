package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed" // the SQL
	"encoding/hex"
	"fmt"
	"time"
)

//go:embed install_sqlite.sql
var installSQLite string

// InstallSQLite is the SQL that creates the outbox in an SQLite database. A relay of that database
// runs the same when it begins.
func InstallSQLite() string { return installSQLite }

const publishSQLite = `INSERT INTO grapnel_outbox (type, key, event_id, data, metadata, occurred_at, published_at) VALUES (?, ?, ?, ?, ?, ?, ?)`

// PublishSQLite is Publish for a transaction of an SQLite database, with any driver. The database
// checks less than PostgreSQL's does: an event that Grapnel cannot accept is set aside by the relay.
func PublishSQLite(ctx context.Context, tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, e Event) error {
	now := time.Now().UTC()
	if e.ID == "" {
		e.ID = newID(now)
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = now
	}
	args, err := e.arguments()
	if err != nil {
		return err
	}
	kind, data, key, id, metadata := args[0], args[1], args[2], args[3], args[4]
	occurred := e.OccurredAt.UTC().Format(time.RFC3339Nano)
	if _, err := tx.ExecContext(ctx, publishSQLite, kind, key, id, data, metadata, occurred, now.UnixMilli()); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// newID is an id like those that the server and the function of PostgreSQL give.
func newID(now time.Time) string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // it never fails
	return fmt.Sprintf("evt_%012x7%s", now.UnixMilli(), hex.EncodeToString(random[:])[:19])
}
