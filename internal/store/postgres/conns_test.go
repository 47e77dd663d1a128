package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// TestSlowReads: callers of the API wait for as many reads as there are connections for them.
// Leases are renewed meanwhile, and the engine reads and writes. None of the slow reads has to end
// for that.
func TestSlowReads(t *testing.T) {
	s := open(t, blank(t), Options{CallersClock: true, Bounds: Bounds{Conns: Conns{Reading: time.Hour}}})
	defer func() { _ = s.Close() }()
	slow, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { _, _ = s.reading.Exec(slow, "SELECT pg_sleep(3600)") })
	}
	for s.reading.Stat().AcquiredConns() < int32(s.bounds.Conns.Reads) {
		time.Sleep(time.Millisecond)
	}
	if err := bringIn(t.Context(), s, "e"); err != nil {
		t.Error(err)
	}
	owned, err := s.Acquire(t.Context(), "node", []int{1, 2, 3}, time.Minute)
	if err != nil {
		t.Error(err)
	}
	if owned, err = s.Renew(t.Context(), "node", owned, time.Minute); err != nil || len(owned) != 3 {
		t.Errorf("renewed %v, %v", owned, err)
	}
	heads, err := s.Heads(t.Context(), "ep_a", 1)
	if err != nil || len(heads) != 1 {
		t.Fatalf("%v, %v", heads, err)
	}
	if events, err := s.Events(t.Context(), []int64{heads[0].Event}); err != nil || events[0] == nil {
		t.Errorf("%v, %v", events, err)
	}
	if busy := s.reading.Stat().AcquiredConns(); busy < int32(s.bounds.Conns.Reads) {
		t.Errorf("only %d of %d connections were busy with slow reads", busy, s.bounds.Conns.Reads)
	}
	stop()
	all.Wait()
}

// TestBusyIsNotSilent: a read waits for a connection until its deadline, because all are in use.
// That is no evidence of a network fault: the transaction that uses one continues, and no
// connection is replaced.
func TestBusyIsNotSilent(t *testing.T) {
	s := open(t, blank(t), Options{Bounds: Bounds{Conns: Conns{Engine: 1}}})
	defer func() { _ = s.Close() }()
	s.pool.within = 500 * time.Millisecond // not for opening, which takes longer on a busy machine
	era := s.era()
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Heads(t.Context(), "ep_a", 1); grapnel.CodeOf(err) != grapnel.CodeUnavailable {
		t.Errorf("a read without a connection: %v", err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil || era.Err() != nil {
		t.Errorf("%v; connections were replaced: %v", err, era.Err())
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReadingEnds: the database ends a read of the API that takes too long, and nothing else: no
// chore, and no connection. It does so through a pooler as well, and no other client of the pooler
// gets the limit.
func TestReadingEnds(t *testing.T) {
	for name, url := range map[string]string{"direct": blank(t), "pooler": pooler(t).URL(made(t))} {
		t.Run(name, func(t *testing.T) {
			s := open(t, url, Options{Bounds: Bounds{Conns: Conns{Reading: 200 * time.Millisecond, Patience: time.Minute}}})
			defer func() { _ = s.Close() }()
			s.reading.within = time.Minute // so that only the database can end it
			_, err := s.reading.Exec(t.Context(), "SELECT pg_sleep(3600)")
			if stateOf(err) != stateCanceled {
				t.Errorf("a read without end: %v", err)
			}
			if _, err := s.chores.Exec(t.Context(), "SELECT pg_sleep(0.5)"); err != nil {
				t.Errorf("a chore: %v", err)
			}
			tx, err := s.chores.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SELECT pg_sleep(0.5)"); err != nil {
				t.Errorf("a chore in a transaction: %v", err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := s.pool.Exec(t.Context(), "SELECT pg_sleep(0.5)"); err != nil {
				t.Errorf("a read of the engine: %v", err)
			}
		})
	}
}

// silent is a store with a short timeout behind a network that can go silent.
func silent(t *testing.T) (*Store, *pgtest.Proxy) {
	t.Helper()
	p, err := server.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	name := made(t)
	s := open(t, p.URL(name), Options{CallersClock: true, Bounds: Bounds{Conns: Conns{
		Patience: time.Second, Reading: time.Second, Ping: 500 * time.Millisecond, Stall: 100 * time.Millisecond, Probe: 20 * time.Millisecond,
	}}})
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, p
}

// calls has a few calls for each group of connections.
func calls(s *Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Version": func(ctx context.Context) error { _, _, err := s.Version(ctx); return err },
		"Fresh":   func(ctx context.Context) error { _, err := s.Fresh(ctx, []int{1}, 0, 1); return err },
		"Renew": func(ctx context.Context) error {
			_, err := s.Renew(ctx, "n", []store.Owned{{Shard: 1}}, time.Minute)
			return err
		},
		"Heads":  func(ctx context.Context) error { _, err := s.Heads(ctx, "ep_a", 1); return err },
		"Config": func(ctx context.Context) error { _, err := s.Config(ctx); return err },
		"DeliveryList": func(ctx context.Context) error {
			_, err := s.DeliveryList(ctx, store.Everyone(), store.DeliveryQuery{Limit: 1})
			return err
		},
		"Append": func(ctx context.Context) error {
			_, err := s.Append(ctx, store.Batch{Config: 1, Events: []store.Incoming{incomingTo("e", "k", "ep_a")}})
			return err
		},
	}
}

// warm opens several connections of each group. On a busy machine that may take longer than the
// store's short timeout, so it waits until each call works.
func warm(t *testing.T, s *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for range 4 {
		for name, call := range calls(s) {
			all.Go(func() {
				for err := call(ctx); err != nil; err = call(ctx) {
					if ctx.Err() != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// TestSilence: the network carries no packets any more, in several ways. Each call ends, although
// the connection is not closed, and once new connections work, all calls work.
func TestSilence(t *testing.T) {
	for name, c := range map[string]struct{ begin, end func(*pgtest.Proxy) }{
		"half-open": {(*pgtest.Proxy).Freeze, nil},
		"blackhole": {func(p *pgtest.Proxy) { p.Blackhole(true) }, func(p *pgtest.Proxy) { p.Blackhole(false) }},
		"stall":     {func(p *pgtest.Proxy) { p.Stall(true) }, func(p *pgtest.Proxy) { p.Stall(false) }},
		"mute":      {func(p *pgtest.Proxy) { p.Mute(true) }, func(p *pgtest.Proxy) { p.Mute(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := silent(t)
			warm(t, s)
			c.begin(p)
			ended := make(chan string, 64)
			for range 2 {
				var all sync.WaitGroup
				for name, call := range calls(s) {
					all.Go(func() {
						if err := call(context.WithoutCancel(t.Context())); err != nil {
							ended <- name
						}
					})
				}
				all.Wait() // would not return if one of them had no end
			}
			if len(ended) == 0 {
				t.Error("no call met the silence")
			}
			if c.end != nil {
				if s.Unable() == nil {
					t.Error("nothing can be committed, and the store does not say so")
				}
				c.end(p)
			}
			for name, call := range calls(s) {
				var err error
				for range 5 { // connections that were being opened during the silence must end too
					if err = call(t.Context()); err == nil {
						break
					}
				}
				if err != nil {
					t.Errorf("%s, when it was over: %v", name, err)
				}
			}
			if err := s.Unable(); err != nil {
				t.Errorf("it was over: %v", err)
			}
		})
	}
}

// TestProbeOfBefore: a probe that began before a commit and fails after it does not make the store
// unable.
func TestProbeOfBefore(t *testing.T) {
	var a able
	failure := grapnel.Errorf(grapnel.CodeUnavailable, "the probe failed")
	_, commits := a.quiet(0)
	a.saw(nil, time.Now())
	if a.probed(failure, commits, time.Now()); a.failed != nil {
		t.Errorf("after a commit it is unable: %v", a.failed)
	}
	_, commits = a.quiet(0)
	if a.probed(failure, commits, time.Now()); a.failed == nil {
		t.Error("a probe that failed without a commit meanwhile makes it unable")
	}
}

// TestSilentOwner: a node falls silent in the middle of a change of its shards, with their rows
// locked. The database ends that transaction, so that other nodes can take the shards. Otherwise it
// would keep the locks for hours, and no node could renew its leases.
func TestSilentOwner(t *testing.T) {
	for name, url := range map[string]func(p *pgtest.Proxy, name string) string{
		"direct":                      (*pgtest.Proxy).URL,
		"each transaction for itself": func(p *pgtest.Proxy, name string) string { return p.URL(name) + "&default_query_exec_mode=exec" },
	} {
		t.Run(name, func(t *testing.T) {
			p, err := server.NewProxy()
			if err != nil {
				t.Fatal(err)
			}
			database := made(t)
			conns := Conns{Idle: time.Second, Patience: time.Minute}
			s, beside := open(t, url(p, database), Options{Bounds: Bounds{Conns: conns}}),
				open(t, server.URL(database), Options{Bounds: Bounds{Conns: conns}})
			t.Cleanup(func() {
				if err := errors.Join(s.Close(), beside.Close(), p.Close()); err != nil {
					t.Error(err)
				}
			})
			ctx, giveUp := context.WithCancel(t.Context())
			silent := make(chan struct{})
			var all sync.WaitGroup
			defer all.Wait()
			defer giveUp()
			all.Go(func() {
				_, _ = s.shards(ctx, freeShards, []any{[]int16{1}}, func(tx pgx.Tx, free []int16) rows.Asked {
					p.Freeze()
					close(silent)
					return rows.Ask(ctx, tx, takeShards, free, "silent", time.Hour.Microseconds())
				})
			})
			<-silent
			if owned := acquire(t, beside, "other", time.Hour, 1, 2); len(owned) != 2 {
				t.Errorf("the other node has %v", owned)
			}
		})
	}
}

// TestSilentChore: a chore waits for an answer that never comes. It has no deadline, but it ends
// when another call notices the silence.
func TestSilentChore(t *testing.T) {
	s, p := silent(t)
	done := make(chan error)
	go func() {
		_, err := s.chores.Exec(t.Context(), "SELECT pg_sleep(60)") // longer than it takes to warm up
		done <- err
	}()
	for s.chores.Stat().AcquiredConns() == 0 {
		time.Sleep(time.Millisecond)
	}
	warm(t, s)
	p.Freeze()
	_, _ = s.Heads(t.Context(), "ep_a", 1)
	if err := <-done; err == nil {
		t.Error("the chore had an answer")
	}
}

// TestUnable cuts a store off. The store reports that it is unable, and a probe of its own notices
// the end of the fault without any call.
func TestUnable(t *testing.T) {
	s, p := silent(t)
	if err := s.Unable(); err != nil {
		t.Fatal(err)
	}
	p.Cut(true)
	err := calls(s)["Append"](t.Context())
	if grapnel.CodeOf(err) != grapnel.CodeUnavailable || s.Unable() == nil {
		t.Errorf("Append: %v; unable: %v", err, s.Unable())
	}
	p.Cut(false)
	for s.Unable() != nil {
		time.Sleep(time.Millisecond)
	}
}

// TestUnableWithoutCalls cuts an idle store off, in two ways. The store reports that it is unable,
// and later that it is able again, without any call: a load balancer probes readiness before it
// passes the next publish.
func TestUnableWithoutCalls(t *testing.T) {
	for name, set := range map[string]func(*pgtest.Proxy, bool){"refused": (*pgtest.Proxy).Cut, "silent": (*pgtest.Proxy).Blackhole} {
		t.Run(name, func(t *testing.T) {
			s, p := silent(t)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			for _, away := range []bool{true, false, true, false} {
				set(p, away)
				for (s.Unable() != nil) != away {
					select {
					case <-ctx.Done():
						t.Fatalf("away: %t, unable: %v", away, s.Unable())
					case <-time.After(time.Millisecond):
					}
				}
			}
		})
	}
}

// TestHostVanishes: the URL names two hosts, and the first one is silent. Calls reach the second
// within their timeout.
func TestHostVanishes(t *testing.T) {
	var proxies []*pgtest.Proxy
	for range 2 {
		p, err := server.NewProxy()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		proxies = append(proxies, p)
	}
	s := open(t, pgtest.URL(made(t), proxies...), Options{CallersClock: true, Bounds: Bounds{Conns: Conns{Patience: 2 * time.Second}}})
	defer func() { _ = s.Close() }()
	warm(t, s)
	proxies[0].Blackhole(true)
	for name, call := range calls(s) {
		var err error
		for range 3 { // the first call may be the one that notices
			if err = call(t.Context()); err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNothingIsCompiled: a statement that looks expensive because it may read many days is not
// compiled, neither directly nor through a pooler, in a transaction or alone.
func TestNothingIsCompiled(t *testing.T) {
	name := made(t)
	for _, url := range []string{server.URL(name), pooler(t).URL(name)} {
		s := open(t, url, Options{})
		for use, p := range map[string]*pool{"ownership": s.owning, "engine": s.pool, "reads": s.reading, "writes": s.writing,
			"chores": s.chores} {
			var alone, within string
			err := p.QueryRow(t.Context(), "SHOW jit").Scan(&alone)
			if err == nil {
				err = s.snapshot(t.Context(), p, func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, "SHOW jit").Scan(&within) })
			}
			if err != nil || alone != "off" || within != "off" {
				t.Errorf("%s, %s: alone %s, in a transaction %s, %v", url, use, alone, within, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPoolerIsNoticed: a pooler reports no process number. A store that was opened without a pooler
// refuses connections through one that is added later, instead of failing now and then.
func TestPoolerIsNoticed(t *testing.T) {
	name := made(t)
	direct, pooled := server.URL(name), pooler(t).URL(name)
	s := open(t, direct, Options{})
	defer func() { _ = s.Close() }()
	for url, is := range map[string]bool{direct: false, pooled: true} {
		config, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		found, err := behindPooler(t.Context(), config, usual.Conns.Patience)
		if err != nil || found != is {
			t.Errorf("%s: behind a pooler: %t, %v", url, found, err)
		}
		for _, expected := range []bool{false, true} {
			config.ValidateConnect = s.validate(config, nil, "", expected)
			conn, err := pgx.ConnectConfig(t.Context(), config)
			if err == nil {
				err = conn.Close(t.Context())
			}
			if refused := errors.Is(err, errPooler); refused != (is && !expected) || !refused && err != nil {
				t.Errorf("%s, opened behind one: %t: %v", url, expected, err)
			}
		}
	}
}
