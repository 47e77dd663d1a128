package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// failover is a primary with a standby, and an address that leads to the primary until the test
// points it elsewhere.
type failover struct {
	primary *pgtest.Server
	standby *pgtest.Standby
	address *pgtest.Proxy
}

func newFailover(t *testing.T) *failover {
	t.Helper()
	f := &failover{primary: pgtest.For(t, pgtest.Options{})}
	if _, err := f.primary.Create(t.Context(), "failing"); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.standby, err = f.primary.Standby(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.standby.Stop() })
	if f.address, err = f.primary.NewProxy(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.address.Close() })
	return f
}

// over loses all later commits of the primary, then promotes the standby and points the address at
// it.
func (f *failover) over(t *testing.T, lost func()) {
	t.Helper()
	if err := f.standby.CaughtUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.standby.Link.Blackhole(true)
	lost()
	if err := f.standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.address.Point(f.standby.Server)
	f.address.Cut(false)
}

// refuses checks that the store refuses every call and has reported that it does.
func refuses(t *testing.T, s *Store) {
	t.Helper()
	select {
	case err := <-s.Fatal():
		if !errors.Is(err, store.ErrWentBack) {
			t.Errorf("Fatal: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the store says nothing")
	}
	for name, call := range calls(s) {
		if err := call(t.Context()); !errors.Is(err, store.ErrWentBack) || grapnel.CodeOf(err) != grapnel.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Unable(); !errors.Is(err, store.ErrWentBack) {
		t.Errorf("Unable: %v", err)
	}
}

func bringIn(ctx context.Context, s *Store, id string) error {
	v, _, err := s.Version(ctx)
	if err == nil {
		_, err = s.Append(ctx, store.Batch{Config: v, Events: []store.Incoming{incomingTo(id, "k", "ep_a")}})
	}
	return err
}

// TestWentBack promotes a standby that lacks the last events. The first call that meets it, a read
// or a write, gets no rows: their ids have another meaning now.
func TestWentBack(t *testing.T) {
	t.Parallel()
	f := newFailover(t)
	reader, writer := open(t, f.address.URL("failing"), Options{}), open(t, f.address.URL("failing"), Options{})
	defer func() { _, _ = reader.Close(), writer.Close() }()
	f.over(t, func() {
		if err := bringIn(t.Context(), writer, "lost"); err != nil {
			t.Error(err)
		}
	})
	until := func(s *Store, call func() error) {
		for range 100 {
			if err := call(); err == nil {
				t.Error("the store answers from another database")
			} else if errors.Is(err, store.ErrWentBack) {
				break
			}
		}
		refuses(t, s)
	}
	until(reader, func() error { _, err := reader.Heads(t.Context(), "ep_a", 1); return err })
	until(writer, func() error { return bringIn(t.Context(), writer, "again") })

	fresh := open(t, f.address.URL("failing"), Options{History: writer.history})
	defer func() { _ = fresh.Close() }()
	if err := bringIn(t.Context(), fresh, "new"); err != nil {
		t.Errorf("after it was opened anew: %v", err)
	}
}

// TestOldPrimary: the old primary comes back at the address, with the same store, and with a newly
// opened one.
func TestOldPrimary(t *testing.T) {
	t.Parallel()
	f := newFailover(t)
	s := open(t, f.address.URL("failing"), Options{})
	defer func() { _ = s.Close() }()
	f.over(t, func() {})
	for bringIn(t.Context(), s, "e") == nil || s.refusal() == nil { // until a call has met the new one
	}
	refuses(t, s)
	var log bytes.Buffer
	again := open(t, f.address.URL("failing"), Options{History: s.history, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	f.address.Point(f.primary)
	f.address.Cut(false)
	for range 3 {
		if err := bringIn(t.Context(), again, "e"); grapnel.CodeOf(err) != grapnel.CodeUnavailable || errors.Is(err, store.ErrWentBack) {
			t.Errorf("over the old primary: %v", err)
		}
	}
	f.address.Point(f.standby.Server)
	f.address.Cut(false)
	if err := bringIn(t.Context(), again, "f"); err != nil {
		t.Errorf("back at the new one: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "old primary"); n != 1 {
		t.Errorf("%d lines tell of the old primary: %s", n, log.String())
	}
	f.address.Point(f.primary)
	f.address.Cut(false)
	if s, err := Open(t.Context(), f.address.URL("failing"), Options{History: s.history}); err == nil {
		_ = s.Close()
		t.Error("the old primary was opened")
	}
}

// TestHosts: the URL names the primary and the standby, without saying which is which. The store
// finds the writable one.
func TestHosts(t *testing.T) {
	t.Parallel()
	f := newFailover(t)
	beside, err := f.standby.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = beside.Close() })
	url := strings.Replace(pgtest.URL("failing", beside, f.address), "target_session_attrs=read-write", "", 1)
	s := open(t, url, Options{})
	defer func() { _ = s.Close() }()
	if err := bringIn(t.Context(), s, "e"); err != nil {
		t.Error(err)
	}
}

// TestRestored restores a copy of the files: the server has the same identity and timeline.
func TestRestored(t *testing.T) {
	t.Parallel()
	own := pgtest.For(t, pgtest.Options{})
	url, err := own.Create(t.Context(), "failing")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, url, Options{})
	defer func() { _ = s.Close() }()
	if err := own.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := bringIn(t.Context(), s, fmt.Sprint("lost", i)); err != nil {
			t.Fatal(err)
		}
	}
	s.reset() // new connections see the end of the log
	if err := bringIn(t.Context(), s, "last"); err != nil {
		t.Fatal(err)
	}
	if err := own.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := bringIn(t.Context(), s, "again"); err == nil {
			t.Error("the store answers from what was restored")
		} else if errors.Is(err, store.ErrWentBack) {
			break
		}
	}
	refuses(t, s)
}

// TestNumbersAgain: sequences and the configuration's version fall while everything else is
// unchanged, as when a dump is loaded.
func TestNumbersAgain(t *testing.T) {
	for name, sql := range map[string]string{
		"events":     "SELECT setval('event_number', last_value - 2) FROM event_number",
		"deliveries": "SELECT setval('delivery_number', last_value - 2) FROM delivery_number",
		"version":    "UPDATE configuration SET version = version - 1",
	} {
		t.Run(name, func(t *testing.T) {
			url := blank(t)
			s := open(t, url, Options{})
			defer func() { _ = s.Close() }()
			for i := range 3 {
				if err := bringIn(t.Context(), s, fmt.Sprint("e", i)); err != nil {
					t.Fatal(err)
				}
			}
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
			if err := bringIn(t.Context(), s, "again"); !errors.Is(err, store.ErrWentBack) {
				t.Errorf("numbers were given again: %v", err)
			}
			refuses(t, s)
		})
	}
}

// TestSamePrimary restarts the same server, crashes it, and ends its connections: none of that is a
// database that went back. The store is an ordinary user of the database.
func TestSamePrimary(t *testing.T) {
	t.Parallel()
	own := pgtest.For(t, pgtest.Options{})
	url, err := own.Create(t.Context(), "failing")
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"CREATE ROLE ordinary LOGIN", "ALTER DATABASE failing OWNER TO ordinary"} {
		if err := own.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, strings.Replace(url, "user=postgres", "user=ordinary", 1), Options{})
	defer func() { _ = s.Close() }()
	if s.blind.Load() || s.at.system == "" || s.at.timeline != 1 {
		t.Errorf("an ordinary user cannot see which database it is: %+v", s.at)
	}
	for i := range 3 {
		for n := range 5 {
			if err := bringIn(t.Context(), s, fmt.Sprint("e", i, n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := own.Crash(t.Context()); err != nil {
			t.Fatal(err)
		}
		for bringIn(t.Context(), s, fmt.Sprint("f", i)) != nil && s.refusal() == nil {
		}
	}
	if err := s.refusal(); err != nil {
		t.Error(err)
	}
}

// TestPoolerLeadsElsewhere: a store is behind a pooler whose connections stay while the server
// behind them changes.
func TestPoolerLeadsElsewhere(t *testing.T) {
	s := open(t, pooler(t).URL(made(t)), Options{})
	defer func() { _ = s.Close() }()
	if err := bringIn(t.Context(), s, "e"); err != nil {
		t.Fatal(err)
	}
	s.history.mu.Lock() // as if the last look had reached another server than the next one
	s.at.timeline, s.history.newest.timeline = 0, 0
	s.history.mu.Unlock()
	if _, err := s.Heads(t.Context(), "ep_a", 1); !errors.Is(err, store.ErrWentBack) {
		t.Errorf("Heads: %v", err)
	}
	refuses(t, s)
}

// TestSynchronous: commits wait for a standby that is cut off. The database commits a transaction
// whose wait is cancelled, as by a limit on statements, and reports that as it reports others. Such
// a commit must not be acknowledged.
func TestSynchronous(t *testing.T) {
	t.Parallel()
	primary := pgtest.For(t, pgtest.Options{})
	url, err := primary.Create(t.Context(), "failing")
	if err != nil {
		t.Fatal(err)
	}
	standby, err := primary.Standby(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop() })
	s := open(t, url, Options{Bounds: Bounds{Conns: Conns{Patience: 2 * time.Second}}})
	defer func() { _ = s.Close() }()
	if err := bringIn(t.Context(), s, "e"); err != nil {
		t.Fatal(err)
	}
	standby.Link.Stall(true)
	if err := bringIn(t.Context(), s, "f"); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("acknowledged, and not on the standby: %v", err)
	}
	standby.Link.Stall(false)
}
