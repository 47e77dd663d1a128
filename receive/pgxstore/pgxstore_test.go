package pgxstore

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

// ready makes a store of an empty database, with its tables and one for effects.
func ready(t *testing.T) (*Store, *pgxpool.Pool) {
	t.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	if _, err := server.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), server.URL(name)+"&pool_max_conns=20")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := New(pool)
	if err := s.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "create table ledger(event text not null)"); err != nil {
		t.Fatal(err)
	}
	return s, pool
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) receive.Store { s, _ := ready(t); return s })
	storetest.RunTransactor(t, func(t *testing.T) (receive.Transactor[pgx.Tx], func(context.Context, pgx.Tx) error, func() int) {
		s, pool := ready(t)
		effect := func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into ledger values('x')")
			return err
		}
		return s, effect, func() (n int) {
			if err := pool.QueryRow(t.Context(), "select count(*) from ledger").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	})
}

// TestAHandlerThatEndsTheTransactionFails: after a handler's own "rollback" there is nothing to
// commit; an answer of success would lose the event.
func TestAHandlerThatEndsTheTransactionFails(t *testing.T) {
	s, _ := ready(t)
	key := receive.Key{Source: "acme", ID: "evt_1"}
	now := time.Now()
	b := receive.Bid{Key: key, Owner: "a", Now: now, LeaseUntil: now.Add(time.Minute), KeepUntil: now.Add(time.Hour)}
	for _, own := range []string{"rollback", "commit"} {
		_, err := s.Transact(t.Context(), b, time.Minute, func(tx pgx.Tx, _ receive.Claim) (receive.Outcome, error) {
			_, err := tx.Exec(t.Context(), own)
			return receive.Processed, err
		})
		if err == nil {
			t.Errorf("a handler's own %s is a success", own)
		}
	}
}
