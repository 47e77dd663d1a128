package pgtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// rows is the number of rows of the table t.
func rows(t *testing.T, s *Server) string {
	t.Helper()
	n, err := s.Ask(t.Context(), "SELECT count(*)::text FROM t")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// do makes calls in turn and fails the test at the first error.
func do(t *testing.T, calls ...func() error) {
	t.Helper()
	for i, call := range calls {
		if err := call(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

func (s *Server) insert(ctx context.Context) func() error {
	return func() error { return s.Exec(ctx, "INSERT INTO t VALUES (1)") }
}

func TestStandby(t *testing.T) {
	ctx := t.Context()
	s := For(t, Options{})
	do(t, func() error { return s.Exec(ctx, "CREATE TABLE t (n int)") }, s.insert(ctx))
	b, err := s.Standby(ctx, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	}()
	do(t, s.insert(ctx), func() error { return b.CaughtUp(ctx) })
	if n := rows(t, b.Server); n != "2" {
		t.Fatalf("the standby has %s rows", n)
	}
	b.Link.Stall(true)
	do(t, s.insert(ctx), s.Kill, func() error { return b.Promote(ctx) }, b.insert(ctx))
	if n := rows(t, b.Server); n != "3" {
		t.Errorf("without the third, and with the fourth, the promoted standby has %s rows", n)
	}
	do(t, func() error { return s.Start(ctx) }, s.insert(ctx))
	if n := rows(t, s); n != "4" {
		t.Errorf("the old primary takes writes again and has %s rows", n)
	}
}

func TestSynchronousStandby(t *testing.T) {
	ctx := t.Context()
	s := For(t, Options{})
	do(t, func() error { return s.Exec(ctx, "CREATE TABLE t (n int)") })
	b, err := s.Standby(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	}()
	do(t, s.insert(ctx))
	b.Link.Stall(true)
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := s.insert(short)(); err == nil {
		t.Error("a commit returned before the standby had it")
	}
	b.Link.Stall(false)
	do(t, s.insert(ctx), s.Kill, func() error { return b.Promote(ctx) }, b.insert(ctx))
	if n := rows(t, b.Server); n != "4" {
		t.Errorf("the promoted standby has %s rows", n)
	}
}

func TestRestore(t *testing.T) {
	ctx := t.Context()
	s := For(t, Options{})
	identity := func() string {
		id, err := s.Ask(ctx, "SELECT system_identifier || ' ' || timeline_id FROM pg_control_system(), pg_control_checkpoint()")
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	do(t, func() error { return s.Exec(ctx, "CREATE TABLE t (n int)") }, s.insert(ctx), func() error { return s.Save(ctx) }, s.insert(ctx))
	before := identity()
	do(t, func() error { return s.Restore(ctx) })
	if n := rows(t, s); n != "1" {
		t.Errorf("the restored server has %s rows", n)
	}
	if after := identity(); after != before {
		t.Errorf("the server was %s and is %s", before, after)
	}
}

func TestSuspend(t *testing.T) {
	ctx := t.Context()
	s := For(t, Options{})
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Suspend(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- errors.Join(conn.Ping(ctx), conn.Close(ctx)) }()
	select {
	case err := <-answered:
		t.Errorf("a suspended server answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	do(t, s.Resume, func() error { return <-answered })
}
