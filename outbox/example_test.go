package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/outbox"
)

// The event arrives if and only if the invoice is paid.
func ExamplePublish() {
	pay := func(ctx context.Context, db *sql.DB, invoice string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, "UPDATE invoices SET paid = true WHERE id = $1", invoice); err != nil {
			return err
		}
		data, err := json.Marshal(map[string]string{"id": invoice})
		if err != nil {
			return err
		}
		if err := outbox.Publish(ctx, tx, outbox.Event{Type: "invoice.paid", Key: invoice, Data: data}); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = pay
}

// The same with pgx.
func ExamplePublishPgx() {
	pay := func(ctx context.Context, conn *pgx.Conn, invoice string) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE invoices SET paid = true WHERE id = $1", invoice); err != nil {
				return err
			}
			return outbox.PublishPgx(ctx, tx, outbox.Event{Type: "invoice.paid", Key: invoice, Data: []byte(`{}`)})
		})
	}
	_ = pay
}
