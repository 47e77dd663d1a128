package embed

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/grapnelhq/grapnel/wire"
)

// Options are the settings. The zero value stores in ./grapnel-data.
type Options struct {
	// Store is sqlite:PATH, or the URL of a PostgreSQL database that has no tables of others. Empty:
	// sqlite:./grapnel-data/grapnel.db
	Store string
	// Outbox is the program's own database, for PublishTx: sqlite:/absolute/path of a file that exists,
	// the DSN of a PostgreSQL database, or mysql://user:password@host:3306/database. A table or schema
	// for the events is created in it. Empty: there is no PublishTx.
	Outbox string
	// PublicURL is where others reach Handler, as in https://shop.example/webhooks. Its path is the
	// prefix that Handler is served at. Empty: Handler is served at /, and there are no links to it.
	PublicURL string
	// Key is the admin key. Empty: the one in admin.key beside the store, which the first start writes.
	Key string
	// SessionKey seals the dashboard's sessions, and is the same in all processes that share a store.
	// Empty: the one in session.key beside the store, which the first start writes.
	SessionKey string
	// Listen is where other processes with the same PostgreSQL store reach this one. Empty: a port of
	// the system's choice, for processes on this machine. An SQLite store needs none.
	Listen       string
	EgressAllow  []netip.Prefix // addresses that deliveries may reach although they are not public
	Retention    time.Duration  // of full records; 0: 30 days
	DrainTimeout time.Duration  // of attempts in flight when Close is called; 0: 30 s
	Log          *slog.Logger   // nil: nothing is logged
}

// Event is an event to be published. Type and Data are required.
type Event = wire.NewEvent

// ErrNoOutbox is the error of PublishTx without Options.Outbox.
var ErrNoOutbox = errors.New("embed: PublishTx needs Options.Outbox, the database of the transaction")

// Execer is a transaction: a *sql.Tx is one.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}
