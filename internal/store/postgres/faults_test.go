package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// behindProxy is a store with its connections through a proxy, and another without.
func behindProxy(t *testing.T) (s, beside *Store, p *pgtest.Proxy) {
	t.Helper()
	p, err := server.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("test%d", databases.Add(1))
	url, err := server.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	beside = open(t, url, Options{CallersClock: true})
	s = open(t, p.URL(name), Options{CallersClock: true})
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), beside.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, beside, p
}

// TestLostAnswers loses the answer to a commit, after which no caller knows the outcome, and the
// answer to a begin, after which the outcome is certain.
func TestLostAnswers(t *testing.T) {
	s, beside, p := behindProxy(t)
	b := store.Batch{Config: version(t, s), Events: []store.Incoming{incomingTo("e1", "k", "ep_a"), incomingTo("e2", "k", "ep_a")}}
	p.LoseNext("BEGIN")
	if none, err := s.Append(t.Context(), store.Batch{Config: b.Config,
		Events: []store.Incoming{incomingTo("e0", "l", "ep_b")}}); err != nil || none.Events[0].Duplicate {
		t.Fatalf("the connection was cut before the commit, so the transaction is made again: %+v, %v", none, err)
	}
	p.LoseNext("COMMIT")
	_, err := s.Append(t.Context(), b)
	if !errors.Is(err, store.ErrUnknown) || grapnel.CodeOf(err) != "" {
		t.Fatalf("the answer to the commit was lost: %v", err)
	}
	heads, err := beside.Heads(t.Context(), "ep_a", 10)
	if err != nil || len(heads) != 1 {
		t.Fatalf("it was committed: %v, %v", heads, err)
	}
	again, err := s.Append(t.Context(), b)
	if err != nil || !again.Events[0].Duplicate || !again.Events[1].Duplicate {
		t.Fatalf("repeated: %+v, %v", again, err)
	}

	p.LoseNext("COMMIT")
	_, err = s.Record(t.Context(), []store.Change{deliver(heads[0])})
	if err == nil || grapnel.CodeOf(err) != "" {
		t.Fatalf("the answer to the commit was lost: %v", err)
	}
	is, err := s.Record(t.Context(), []store.Change{deliver(heads[0])})
	if err != nil || is[0].Applied || is[0].Status != grapnel.Delivered || is[0].Next == nil || is[0].Next.Position != 2 {
		t.Fatalf("repeated: %+v, %v", is, err)
	}
	d, err := s.Delivery(t.Context(), store.Everyone(), heads[0].Delivery)
	if err != nil || len(d.Attempts) != 1 {
		t.Fatalf("it has %d attempts, %v", len(d.Attempts), err)
	}
	if p.Lost.Load() != 3 || s.Stats().Unknown != 2 {
		t.Errorf("%d answers were lost, %d outcomes are unknown", p.Lost.Load(), s.Stats().Unknown)
	}
}

// TestAway cuts a node off from its database: calls fail with a code, at once, and work again when
// the database can be reached.
func TestAway(t *testing.T) {
	s, _, p := behindProxy(t)
	config := version(t, s)
	p.Cut(true)
	for i := range 3 {
		_, err := s.Append(t.Context(), store.Batch{Config: config, Events: []store.Incoming{incomingTo(fmt.Sprint("lost", i), "k", "ep_a")}})
		if grapnel.CodeOf(err) != grapnel.CodeUnavailable {
			t.Errorf("Append: %v", err)
		}
	}
	if _, err := s.Heads(t.Context(), "ep_a", 1); grapnel.CodeOf(err) != grapnel.CodeUnavailable {
		t.Errorf("Heads: %v", err)
	}
	p.Cut(false)
	done, err := s.Append(t.Context(), store.Batch{Config: config, Events: []store.Incoming{incomingTo("e", "k", "ep_a")}})
	if err != nil || len(done.Heads) != 1 || done.Heads[0].Position != 1 {
		t.Errorf("once it is back: %+v, %v", done, err)
	}
}

// TestCrash crashes the server repeatedly while publishers and a recorder continue as the engine
// does: a call without an answer or with an error is repeated until it succeeds. No answered event
// may be missing, none may exist twice, and every lane is in order.
func TestCrash(t *testing.T) {
	t.Parallel()
	const publishers, each, crashes = 4, 60, 3
	own := pgtest.For(t, pgtest.Options{})
	url, err := own.Create(t.Context(), "crash")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := open(t, url, Options{CallersClock: true})
	config := version(t, s)
	var published, recorded, failed atomic.Int64
	var all sync.WaitGroup
	// until repeats a call until it succeeds, as its callers do.
	until := func(call func() error) {
		pause := time.NewTicker(5 * time.Millisecond)
		defer pause.Stop()
		for ctx.Err() == nil {
			if call() == nil {
				return
			}
			failed.Add(1)
			<-pause.C
		}
	}
	for p := range publishers {
		all.Go(func() {
			for i := range each {
				b := store.Batch{Config: config, Events: []store.Incoming{incomingTo(fmt.Sprintf("e%d_%d", p, i), fmt.Sprint("k", (p+i)%5), "ep_a")}}
				until(func() error {
					_, err := s.Append(ctx, b)
					return err
				})
				published.Add(1)
			}
		})
	}
	last := make(map[string]int64)
	all.Go(func() {
		for recorded.Load() < publishers*each && ctx.Err() == nil {
			var heads []store.Head
			until(func() (err error) {
				heads, err = s.Heads(ctx, "ep_a", 3)
				return err
			})
			for _, h := range heads {
				var is []store.Changed
				until(func() (err error) {
					is, err = s.Record(ctx, []store.Change{deliver(h)})
					return err
				})
				if len(is) != 1 || is[0].Status != grapnel.Delivered || h.Position != last[h.Lane]+1 {
					t.Errorf("lane %s: position %d after %d: %+v", h.Lane, h.Position, last[h.Lane], is)
					return
				}
				last[h.Lane] = h.Position
				recorded.Add(1)
			}
		}
	})
	for i := range crashes {
		for published.Load() < int64((i+1)*publishers*each/(crashes+1)) && ctx.Err() == nil {
			until(func() error { _, _, err := s.Version(ctx); return err })
		}
		if err := own.Crash(ctx); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	list, err := s.DeliveryList(t.Context(), store.Everyone(),
		store.DeliveryQuery{Limit: 1 << 20, Status: []grapnel.Status{grapnel.Delivered}})
	if err != nil || len(list) != publishers*each {
		t.Errorf("%d deliveries of %d, %v", len(list), publishers*each, err)
	}
	if n, err := s.Imbalance(t.Context()); n != 0 || err != nil {
		t.Errorf("imbalance %d, %v", n, err)
	}
	if failed.Load() == 0 {
		t.Error("no call failed: the crashes were not noticed")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestKilledConnections ends the store's connections on the server, as an administrator or a
// failing proxy does.
func TestKilledConnections(t *testing.T) {
	name := fmt.Sprintf("test%d", databases.Add(1))
	url, err := server.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, url, Options{CallersClock: true})
	defer func() { _ = s.Close() }()
	config := version(t, s)
	for i := range 5 {
		if err := server.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'"); err != nil {
			t.Fatal(err)
		}
		if _, err = s.Append(t.Context(), store.Batch{Config: config,
			Events: []store.Incoming{incomingTo(fmt.Sprint("e", i), "k", "ep_a")}}); err != nil {
			t.Fatalf("a write is made again on another connection: %v", err)
		}
	}
	for range 20 { // a failed read reports its error, and its connection is closed
		var list []grapnel.Delivery
		if list, err = s.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 100}); err == nil {
			if len(list) != 5 {
				t.Errorf("%d deliveries", len(list))
			}
			return
		}
		if grapnel.CodeOf(err) != grapnel.CodeUnavailable {
			break
		}
	}
	t.Error(err)
}

// TestOpen: databases that the store cannot work with are refused.
func TestOpen(t *testing.T) {
	for name, sql := range map[string]string{
		"a database of another program": "CREATE TABLE theirs ()",
		"another schema":                stepsTable + "; INSERT INTO grapnel_schema VALUES (9999, '', '')",
		"one that does not sync":        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$",
	} {
		t.Run(name, func(t *testing.T) {
			url := blank(t)
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), url, Options{})
			if err == nil {
				_ = s.Close()
				t.Fatal("it was opened")
			}
		})
	}
	t.Run("several nodes at once", func(t *testing.T) {
		url := blank(t)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				s, err := Open(t.Context(), url, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				_ = s.Close()
			})
		}
		all.Wait()
	})
}
