package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
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
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var databases atomic.Int64

var (
	usual   = bounds.Fill(Bounds{})
	ahead   = int64(usual.DaysAhead)
	fewDays = usual.DaysNamed
)

// blank creates an empty database and returns its URL.
func blank(t *testing.T) string {
	t.Helper()
	return server.URL(made(t))
}

// made creates an empty database and returns its name.
func made(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	if _, err := server.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// pooler is a pooler of this test's own.
func pooler(t *testing.T) *pgtest.Pooler {
	t.Helper()
	p, err := server.NewPooler(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// empty empties a database. Creating a new one takes thirty times as long. The tables of the days
// that Open would create stay: dropping and creating them costs more than the rest of a case.
func empty(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), fmt.Sprintf(`DO $$
		DECLARE name text; ahead int := %d;
		BEGIN
			FOR name IN SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent IN ('event'::regclass, 'finished'::regclass, 'attempt'::regclass)
				AND right(inhrelid::regclass::text, 8) NOT IN (
					SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC' + day * interval '1 day', 'YYYYMMDD') FROM generate_series(0, ahead) AS day)
			LOOP
				EXECUTE 'DROP TABLE ' || name;
			END LOOP;
			PERFORM setval('event_number', 1, false), setval('delivery_number', 1, false);
			FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public'
				AND tablename NOT IN ('grapnel_schema', 'configuration', 'ledger', 'shard', 'peer', 'id_key')
			LOOP
				EXECUTE format('DELETE FROM %%I', name);
			END LOOP;
			UPDATE configuration SET version = 1;
			UPDATE ledger SET purged = 0, newest = 0;
			UPDATE shard SET epoch = 0, owner = '', until = '-infinity';
		END $$`, ahead))
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, url string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// isClosed says whether a store is closed.
func isClosed(s *Store) bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// crossing is a store in which a day begins after every few writes of deliveries, and which always
// prefers to remove a whole day.
type crossing struct {
	*Store
	every  int64
	writes atomic.Int64
}

func (c *crossing) cross(ctx context.Context) error {
	if c.writes.Add(1)%c.every != 0 {
		return nil
	}
	err := c.begin(ctx, c.days.known.Load().current+1)
	if stateOf(err) == stateLocked {
		return nil // too many writers compete for the lock; the day begins later
	}
	return err
}

func (c *crossing) Append(ctx context.Context, b store.Batch) (store.Accepted, error) {
	if err := c.cross(ctx); err != nil {
		return store.Accepted{}, err
	}
	return c.Store.Append(ctx, b)
}

func (c *crossing) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	if err := c.cross(ctx); err != nil {
		return nil, err
	}
	return c.Store.Record(ctx, changes)
}

// Purge removes the oldest rows, or whole days where the limit makes no difference. No removal may
// be late.
func (c *crossing) Purge(ctx context.Context, keep store.Keep, limit int) (int, error) {
	if limit >= 100 {
		keep.Slack = 1
	}
	return c.Store.Purge(ctx, keep, limit)
}

// TestStore runs the suite of the contract over many midnights. The random histories run without
// prepared statements, as a pooler of transactions requires.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness(2, usually, blank))
}

// usually has the default bounds.
func usually() Options { return Options{} }

// TestStoreSealed runs the suite's random histories on databases that are sealed, payloads
// included, with usual bounds and with tiny ones in turn. TestLeastRights runs some of its cases so.
func TestStoreSealed(t *testing.T) {
	t.Parallel()
	storetest.Drawn(t, harness(2, sealed(t), blank))
}

// sealed seals payloads, with usual bounds and with tiny ones in turn.
func sealed(t *testing.T) func() Options {
	t.Helper()
	from, n := masterKey(t), uint64(0)
	return func() Options {
		o := Options{Master: from, Payloads: true}
		if n++; n%2 == 0 {
			o.Bounds = bounds.Tiny[Bounds](n)
		}
		return o
	}
}

// masterKey is the source of a master key.
func masterKey(t *testing.T) seal.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "master.key")
	if err := os.WriteFile(path, []byte(strings.Repeat("a", seal.MinLength)), 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := seal.ParseSource("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// TestStoreTiny runs the suite's random histories, and the random tests of this package, with
// bounds so small that they are crossed repeatedly. Each store gets different ones. GRAPNEL_SOAK=1
// runs the whole suite, and more often.
func TestStoreTiny(t *testing.T) {
	t.Parallel()
	seeds, crowds, run := 1, 4, storetest.Drawn
	if os.Getenv("GRAPNEL_SOAK") != "" {
		seeds, crowds, run = 5, 200, storetest.Run
	}
	seed := uint64(0)
	next := func() Bounds {
		seed++
		return bounds.Tiny[Bounds](seed)
	}
	for round := range seeds {
		t.Run(fmt.Sprint("Suite", round), func(t *testing.T) { run(t, harness(8, func() Options { return Options{Bounds: next()} }, blank)) })
		t.Run(fmt.Sprint("Lanes", round), func(t *testing.T) { shareLanes(t, nodesWith(t, blank(t), 3, next)) })
		t.Run(fmt.Sprint("Agree", round), func(t *testing.T) { agree(t, nodesWith(t, blank(t), 3, next)) })
		t.Run(fmt.Sprint("IDs", round), func(t *testing.T) { idsOverDays(t, nodesWith(t, blank(t), 2, next)) })
	}
	t.Run("Crowd", func(t *testing.T) {
		url := blank(t)
		for n := range crowds {
			s := open(t, url, Options{CallersClock: true, Bounds: next()})
			crowd(t, s, uint64(n))
			if err := s.Close(); err != nil || t.Failed() {
				t.Fatalf("history %d, seed %d: %v", n+1, seed, err)
			}
		}
	})
}

// harness opens stores, each with the options that next returns. fresh creates an empty database.
func harness(histories int, next func() Options, fresh func(*testing.T) string) storetest.Harness {
	used := make(map[string]*crossing) // the current or last user of each database
	start := func(t *testing.T, url string) store.Store {
		t.Helper()
		mode, every := "", int64(61)
		if strings.HasSuffix(t.Name(), "/Model") {
			mode, every = "&default_query_exec_mode=exec", 3
		}
		o := next()
		o.CallersClock = true
		// A transaction, and the store between two of its statements, may wait for a processor; those that
		// hang have tests of their own.
		o.Bounds.Conns.Patience, o.Bounds.Conns.Idle = time.Minute, time.Minute
		used[url] = &crossing{Store: open(t, url+mode, o), every: every}
		used[url].days.worth = 0
		return used[url]
	}
	return storetest.Harness{
		Histories: histories,
		Open: func(t *testing.T) store.Store {
			for url, s := range used {
				if isClosed(s.Store) {
					empty(t, url)
					return start(t, url)
				}
			}
			return start(t, fresh(t))
		},
		Reopen: func(t *testing.T, s store.Store) store.Store {
			for url, of := range used {
				if of == s {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					return start(t, url)
				}
			}
			t.Fatal("this store was not opened here")
			return nil
		},
	}
}
