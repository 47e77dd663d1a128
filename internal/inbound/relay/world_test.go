package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/outbox"
)

// server is shared by the tests of this package, except those that crash a server.
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

// database creates a database with an outbox and returns its URL.
func database(t *testing.T, s *pgtest.Server) string {
	t.Helper()
	url, err := s.Create(t.Context(), fmt.Sprintf("outbox%d", databases.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Install(t.Context(), url, Rights{}); err != nil {
		t.Fatal(err)
	}
	return url
}

// pool connects producers to a database.
func pool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 20
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// sink is a store behind the engine's interface for the relay, with one endpoint that wants every
// event.
type sink struct {
	*memory.Store
	t      *testing.T
	mu     sync.Mutex
	source []grapnel.Source
	// another node owns all sources
	foreign atomic.Bool
	injure  func(events []store.Incoming) (before, after error) // nil: no faults
}

func newSink(t *testing.T, dsns ...string) *sink {
	t.Helper()
	s := &sink{Store: memory.New(), t: t}
	for i, dsn := range dsns {
		s.source = append(
			s.source,
			grapnel.Source{
				ID:     fmt.Sprintf("src_%d", i+1),
				Tenant: "acme",
				Name:   fmt.Sprint(i),
				Outbox: &grapnel.Outbox{DSN: grapnel.Secret{Text: dsn}},
			},
		)
	}
	return s
}

func (s *sink) Sources(store.Scope) []grapnel.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]grapnel.Source{}, s.source...)
}

func (s *sink) Decides(string) bool { return !s.foreign.Load() }

func (s *sink) set(sources ...grapnel.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source = sources
}

func (s *sink) Publish(ctx context.Context, events []store.Incoming, once *store.Once) (done store.Accepted, err error) {
	var before, after error
	if s.injure != nil {
		if before, after = s.injure(events); before != nil {
			return done, before
		}
	}
	version, _, err := s.Version(ctx)
	if err != nil {
		return done, err
	}
	for i := range events {
		events[i].Targets = []store.Target{{Endpoint: "ep", Ordered: true}}
	}
	done, err = s.Append(ctx, store.Batch{Config: version, Events: events, Once: once})
	return done, errors.Join(err, after)
}

// events returns all arrived events, in order.
func (s *sink) events() []*grapnel.Event {
	s.t.Helper()
	var all []*grapnel.Event
	for {
		seqs := make([]int64, 1000)
		for i := range seqs {
			seqs[i] = int64(len(all) + i + 1)
		}
		page, err := s.Store.Events(context.Background(), seqs)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, ev := range page {
			if ev == nil {
				return all
			}
			all = append(all, ev)
		}
	}
}

func (s *sink) asides() []grapnel.Aside {
	s.t.Helper()
	all, err := s.AsideList(context.Background(), store.Everyone(), store.AsideQuery{Limit: 100})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// relaying runs a relay until stop, which waits for it.
func relaying(t *testing.T, o Options) (r *Runner, stop func()) {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	r = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-over
	})
	t.Cleanup(stop)
	return r, stop
}

// until waits for an effect of real I/O.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-late.C:
			t.Fatalf("never: %s", what)
		}
	}
}

// do runs a transaction.
func do(t *testing.T, p *pgxpool.Pool, events ...outbox.Event) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), p, func(tx pgx.Tx) error {
		for _, e := range events {
			if err := outbox.PublishPgx(t.Context(), tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func event(key, data string) outbox.Event {
	return outbox.Event{Type: "order.paid", Key: key, Data: []byte(data)}
}

// left is the number of rows in an outbox; -1: it cannot be read at the moment.
func left(t *testing.T, p *pgxpool.Pool) (n int) {
	t.Helper()
	const all = `SELECT (SELECT count(*) FROM grapnel.outbox_event) + (SELECT count(*) FROM grapnel.outbox_commit)`
	if err := p.QueryRow(t.Context(), all).Scan(&n); err != nil {
		return -1
	}
	return n
}

// fight lets producers compete for keys. Each transaction increments one or two keys in a table of
// the producer and publishes the new values, in either order; some are rolled back, or parts of
// them. over returns the final value of each key.
func fight(t *testing.T, p *pgxpool.Pool, producers, keys, each int, lenient bool) (fought <-chan struct{}, over func() map[string]int) {
	t.Helper()
	ctx := t.Context()
	if _, err := p.Exec(ctx, `CREATE TABLE counted (key text PRIMARY KEY, n int NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Exec(ctx, `INSERT INTO counted SELECT 'k' || k, 0 FROM generate_series(0, $1::int - 1) AS k`, keys); err != nil {
		t.Fatal(err)
	}
	errGiveUp := errors.New("the producer has changed its mind")
	var all sync.WaitGroup
	for i := range producers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(6, uint64(i)))
			for range each {
				err := pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error { return transaction(ctx, tx, random, keys, errGiveUp) })
				if err != nil && !errors.Is(err, errGiveUp) && !lenient {
					t.Error(err)
					return
				}
			}
		})
	}
	end := make(chan struct{})
	go func() {
		all.Wait()
		close(end)
	}()
	return end, func() map[string]int {
		t.Helper()
		<-end
		counted := map[string]int{}
		until(t, "what was counted can be read", func() bool {
			rows, err := p.Query(ctx, `SELECT key, n FROM counted`)
			if err != nil {
				return false
			}
			var key string
			var n int
			_, err = pgx.ForEachRow(rows, []any{&key, &n}, func() error { counted[key] = n; return nil })
			return err == nil
		})
		return counted
	}
}

func transaction(ctx context.Context, tx pgx.Tx, random *rand.Rand, keys int, giveUp error) error {
	first, second := random.IntN(keys), random.IntN(keys)
	// The producer's own rows are locked in one order, to avoid deadlocks among them. Its events are
	// in any order.
	first, second = min(first, second), max(first, second)
	events := make([]outbox.Event, 0, 2)
	for _, k := range []int{first, second} {
		if len(events) > 0 && (first == second || random.IntN(2) == 0) {
			break
		}
		var n int
		if err := tx.QueryRow(ctx, `UPDATE counted SET n = n + 1 WHERE key = $1 RETURNING n`, fmt.Sprint("k", k)).Scan(&n); err != nil {
			return err
		}
		events = append(events, event(fmt.Sprint("k", k), fmt.Sprint(n)))
	}
	random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	if random.IntN(4) == 0 {
		// An event rolled back to a savepoint was never published, whether or not it was the
		// transaction's first.
		err := pgx.BeginFunc(ctx, tx, func(part pgx.Tx) error {
			return errors.Join(outbox.PublishPgx(ctx, part, event("k0", `"taken back"`)), giveUp)
		})
		if err != nil && !errors.Is(err, giveUp) {
			return err
		}
	}
	for _, e := range events {
		if err := outbox.PublishPgx(ctx, tx, e); err != nil {
			return err
		}
	}
	if random.IntN(5) == 0 {
		return giveUp
	}
	return nil
}

// ordered checks that exactly 1, 2, 3, … arrived of each key, in this order.
func (s *sink) ordered(counted map[string]int) {
	s.t.Helper()
	arrived := map[string]int{}
	for _, ev := range s.events() {
		arrived[ev.Key]++
		if got, want := string(ev.Data), fmt.Sprint(arrived[ev.Key]); got != want {
			s.t.Fatalf("of %s came %s where %s was due", ev.Key, got, want)
		}
	}
	total := 0
	for key, n := range counted {
		if total += n; arrived[key] != n {
			s.t.Errorf("of %s %d arrived, not %d", key, arrived[key], n)
		}
	}
	if len(arrived) > len(counted) || total == 0 {
		s.t.Errorf("events of %d keys arrived; %d were counted", len(arrived), total)
	}
}
