// Package outbox publishes events inside a producer's own transaction in PostgreSQL, MySQL, MariaDB
// or SQLite: if the transaction commits, the events arrive, and if it is rolled back, they never
// existed. No call to Grapnel is made on the way, so a producer works whether Grapnel does or not.
//
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	_, err = tx.ExecContext(ctx, "UPDATE invoices SET paid = true WHERE id = $1", id)
//	…
//	err = outbox.Publish(ctx, tx, outbox.Event{Type: "invoice.paid", Key: id, Data: data})
//	…
//	err = tx.Commit()
//
// The database needs the schema grapnel, created by "grapnel outbox install", or by InstallSQL as
// one of the producer's own migrations. A source of kind outbox then moves the events into Grapnel.
//
// Invariants:
//
//   - Events of one key arrive in the order in which their transactions commit, those of one
//     transaction in the order of the calls.
//   - Each arrives in Grapnel exactly once, whatever crashes.
//   - In PostgreSQL publishing locks nothing before the commit, so transactions may publish to keys
//     in any order without a deadlock. PublishMySQL locks its key.
//   - The bytes of Data stay as they are.
//
// It promises no order between different keys. An event that breaks a limit of the server
// (--max-event) is not delivered; it is stored in Grapnel's inbox, where operators see it.
// The limits that the database can check make Publish fail, and with it the transaction.
package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// Event is an event to publish.
type Event struct {
	Type       string            // dotted segments of [A-Za-z0-9_-]
	Key        string            // the ordering key; empty: no order
	Data       []byte            // JSON in UTF-8
	ID         string            // 1 to 64 characters of [A-Za-z0-9_-], the same one for the same event; empty: a new one
	OccurredAt time.Time         // zero: now
	Metadata   map[string]string // at most 32 strings of at most 1024 bytes
}

// Every parameter has its type, so that no driver has to find it out.
const publish = `SELECT grapnel.grapnel_publish($1::text, $2::text, $3::text, $4::text, $5::text, $6::timestamptz)`

// Publish publishes an event in a transaction of database/sql, with any driver. With a *sql.Conn or
// *sql.DB the event is a transaction of its own. After an error the transaction cannot be
// committed.
func Publish(ctx context.Context, tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, e Event) error {
	args, err := e.arguments()
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, publish, args...); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// PublishPgx is Publish for a transaction of pgx: a pgx.Tx is a tx. The compiler infers T.
func PublishPgx[T any](ctx context.Context, tx interface {
	Exec(ctx context.Context, query string, args ...any) (T, error)
}, e Event) error {
	args, err := e.arguments()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, publish, args...); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// arguments are those of publish. Data goes as text, because drivers encode bytes in different ways
// and not all of them give JSON.
func (e *Event) arguments() ([]any, error) {
	args := []any{e.Type, string(e.Data), given(e.Key), given(e.ID), nil, nil}
	if len(e.Metadata) > 0 {
		metadata, err := json.Marshal(e.Metadata)
		if err != nil {
			return nil, fmt.Errorf("outbox: metadata: %w", err)
		}
		args[4] = string(metadata)
	}
	if !e.OccurredAt.IsZero() {
		args[5] = e.OccurredAt
	}
	return args, nil
}

// given is NULL for an empty text.
func given(text string) any {
	if text == "" {
		return nil
	}
	return text
}
