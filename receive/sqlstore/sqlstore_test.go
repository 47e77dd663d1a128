package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/storetest"
)

// server is shared by the tests of this package.
var server *pgtest.Server

func TestMain(m *testing.M) {
	var err error
	if server, err = pgtest.Start(context.Background(), pgtest.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var databases atomic.Int64

// postgres opens an empty database.
func postgres(t *testing.T) *sql.DB {
	t.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	if _, err := server.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return opened(t, "pgx", server.URL(name))
}

// sqlite opens an empty file.
func sqlite(t *testing.T) *sql.DB {
	t.Helper()
	return opened(t, "sqlite", "file:"+t.TempDir()+"/hooks.db?_pragma=journal_mode(wal)")
}

func opened(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// ready makes a store with its tables, and one for effects.
func ready(t *testing.T, db *sql.DB, d Dialect) *Store {
	t.Helper()
	s := New(db, d)
	for range 2 { // the second time there is nothing to create
		if err := s.CreateTables(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.ExecContext(t.Context(), "create table ledger(event text not null)"); err != nil {
		t.Fatal(err)
	}
	return s
}

func effects(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "select count(*) from ledger").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

var kinds = map[string]struct {
	dialect Dialect
	open    func(*testing.T) *sql.DB
}{"PostgreSQL": {PostgreSQL, postgres}, "SQLite": {SQLite, sqlite}}

func TestWindowsOfTheKits(t *testing.T) {
	text, err := os.ReadFile("../../sdk/conformance/windows.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			db := kind.open(t)
			s := ready(t, db, kind.dialect)
			storetest.RunWindows(t, text, func(t *testing.T) receive.Store {
				if _, err := db.ExecContext(t.Context(), "delete from webhook_claim"); err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
	}
}

// TestASwallowedErrorIsNoSuccess: PostgreSQL turns the commit of a transaction with a failed
// statement into a rollback. A handler that ignores the statement's error gets no 200.
func TestASwallowedErrorIsNoSuccess(t *testing.T) {
	db := postgres(t)
	s := ready(t, db, PostgreSQL)
	now := time.Now()
	bid := receive.Bid{Key: receive.Key{Source: "acme", ID: "evt_1"}, Owner: "a", Now: now, LeaseUntil: now, KeepUntil: now}
	_, err := s.Transact(t.Context(), bid, time.Second, func(tx *sql.Tx, _ receive.Claim) (receive.Outcome, error) {
		_, _ = tx.ExecContext(t.Context(), "insert into ledger values('x')")
		_, _ = tx.ExecContext(t.Context(), "insert into ledger values(null)")
		return receive.Processed, nil
	})
	if err == nil || effects(t, db) != 0 {
		t.Errorf("the commit's error is %v; there are %d effects", err, effects(t, db))
	}
	if c, err := s.Look(t.Context(), bid.Key); err != nil || c.State != "" {
		t.Errorf("the key's row is %+v, %v", c, err)
	}
}

// TestTheHandlersOwnWaitIsAsBefore: the claim's time to wait for a lock ends with its statement.
func TestTheHandlersOwnWaitIsAsBefore(t *testing.T) {
	db := postgres(t)
	s := ready(t, db, PostgreSQL)
	if _, err := db.ExecContext(t.Context(), "alter role postgres set lock_timeout = '17s'"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := db.ExecContext(context.Background(), "alter role postgres reset lock_timeout"); err != nil {
			t.Error(err)
		}
	}()
	db.SetMaxIdleConns(0) // connections from here on have the role's setting
	now := time.Now()
	for _, from := range []string{"no row", "a row that is no longer retained"} {
		bid := receive.Bid{Key: receive.Key{Source: "acme", ID: "evt_1"}, Owner: from, Now: now, LeaseUntil: now, KeepUntil: now}
		now = now.Add(time.Minute)
		ran := false
		if _, err := s.Transact(t.Context(), bid, time.Second, func(tx *sql.Tx, _ receive.Claim) (receive.Outcome, error) {
			ran = true
			var is string
			err := tx.QueryRowContext(t.Context(), "show lock_timeout").Scan(&is)
			if is != "17s" {
				t.Errorf("with %s the handler's statements wait %s", from, is)
			}
			return receive.Processed, err
		}); err != nil || !ran {
			t.Fatalf("with %s: %v; the handler ran: %t", from, err, ran)
		}
	}
}

func TestStore(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) receive.Store { return ready(t, kind.open(t), kind.dialect) })
			storetest.RunTransactor(t, func(t *testing.T) (receive.Transactor[*sql.Tx], func(context.Context, *sql.Tx) error, func() int) {
				db := kind.open(t)
				effect := func(ctx context.Context, tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, "insert into ledger values('x')")
					return err
				}
				return ready(t, db, kind.dialect), effect, func() int { return effects(t, db) }
			})
		})
	}
}
