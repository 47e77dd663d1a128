package embed

import (
	"context"
	"database/sql"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/outbox"
)

// PgxTx makes an Execer of a transaction of pgx. The compiler infers T.
func PgxTx[T any](tx interface {
	Exec(ctx context.Context, query string, args ...any) (T, error)
}) Execer {
	return pgxTx[T]{tx}
}

type pgxTx[T any] struct {
	tx interface {
		Exec(ctx context.Context, query string, args ...any) (T, error)
	}
}

// ExecContext executes a statement whose result does not matter.
func (t pgxTx[T]) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	_, err := t.tx.Exec(ctx, query, args...)
	return nil, err
}

// publisher puts events into an outbox.
func publisher(in relay.Database) func(context.Context, Execer, *Event) error {
	return func(ctx context.Context, tx Execer, e *Event) error {
		out := outbox.Event{Type: e.Type, Key: e.Key, Data: e.Data, ID: e.ID, Metadata: e.Metadata}
		if e.OccurredAt != nil {
			out.OccurredAt = *e.OccurredAt
		}
		switch {
		case e.Tenant != "" && e.Tenant != grapnel.DefaultTenant:
			return grapnel.Errorf(grapnel.CodeInvalid, "tenant: events of an outbox are those of the tenant %s", grapnel.DefaultTenant)
		case e.AggregateType != "" || e.AggregateID != "":
			return grapnel.Errorf(grapnel.CodeInvalid, "aggregate_type: an outbox takes key, as in type/id")
		case in == relay.SQLite:
			return outbox.PublishSQLite(ctx, tx, out)
		case in == relay.MySQL:
			return outbox.PublishMySQL(ctx, tx, out)
		}
		return outbox.Publish(ctx, tx, out)
	}
}

// sourceName is the name of the source whose relay reads the outbox.
const sourceName = "embedded outbox"

// ensureSource makes the source of the outbox, or gives it this DSN.
func ensureSource(ctx context.Context, c *client.Client, dsn string) error {
	settings := &client.NewOutbox{DSN: dsn}
	page, err := c.Sources(ctx, client.SourceFilter{Tenant: grapnel.DefaultTenant, Search: sourceName})
	if err != nil {
		return err
	}
	for i := range page.Data {
		if page.Data[i].Name == sourceName {
			_, err = c.UpdateSource(ctx, page.Data[i].ID, map[string]any{"outbox": settings})
			return err
		}
	}
	_, err = c.CreateSource(ctx, client.NewSource{Name: sourceName, Description: "what this program publishes in its own transactions",
		Outbox: settings})
	return err
}
