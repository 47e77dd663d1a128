package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// proxied is a server behind a proxy, and a connection through it.
func proxied(t *testing.T) (*Server, *Proxy, *pgx.Conn) {
	t.Helper()
	s := For(t, Options{})
	p, err := s.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, p, through(t, p)
}

func through(t *testing.T, p *Proxy) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel() // without waiting for the server: the connection may carry nothing
		_ = conn.Close(gone)
	})
	return conn
}

// silent fails the test if the connection is answered, or ends, within a short time.
func silent(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := conn.Ping(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("the connection is not silent: %v", err)
	}
}

func alright(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if err := conn.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFreeze(t *testing.T) {
	s, p, conn := proxied(t)
	alright(t, conn)
	p.Freeze()
	silent(t, conn) // and the client has given the connection up
	alright(t, through(t, p))
	if n, err := s.Ask(t.Context(), "SELECT count(*)::text FROM pg_stat_activity WHERE client_port = -1 AND backend_type = 'client backend'"); err != nil || n != "3" {
		t.Errorf("the server has %s connections, the frozen one among them: %v", n, err)
	}
}

func TestBlackhole(t *testing.T) {
	_, p, conn := proxied(t)
	p.Blackhole(true)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := pgx.Connect(ctx, p.URL("postgres")); err == nil || ctx.Err() == nil {
		t.Errorf("a new connection is not swallowed: %v", err)
	}
	p.Blackhole(false)
	silent(t, conn)
	alright(t, through(t, p))
}

func TestStall(t *testing.T) {
	_, p, conn := proxied(t)
	p.Stall(true)
	answered := make(chan error, 1)
	go func() { answered <- conn.Ping(t.Context()) }()
	select {
	case err := <-answered:
		t.Errorf("answered through a stalled proxy: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	p.Stall(false)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestLatency(t *testing.T) {
	_, p, conn := proxied(t)
	p.Latency(50 * time.Millisecond)
	began := time.Now()
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM (SELECT generate_series(1, 1000)) x").Scan(&n); err != nil || n != 1000 {
		t.Fatal(n, err)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("there and back took %v", took)
	}
}

func TestMute(t *testing.T) {
	s, p, conn := proxied(t)
	if err := s.Exec(t.Context(), "CREATE TABLE t (n int)"); err != nil {
		t.Fatal(err)
	}
	idle := through(t, p)
	p.Mute(true)
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "INSERT INTO t VALUES (1)")
		failed <- err
	}()
	if err := s.until(t.Context(), "SELECT count(*) = 1 FROM t"); err != nil {
		t.Fatal(err)
	}
	for p.Lost.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	p.Mute(false)
	if err := <-failed; err == nil {
		t.Error("the answer was not lost")
	}
	alright(t, idle)
}

func TestCutSome(t *testing.T) {
	_, p, one := proxied(t)
	other := through(t, p)
	if cut := p.CutSome(1); cut != 1 {
		t.Errorf("%d connections were cut, and not one", cut)
	}
	// After a failure pgx opens another connection, to cancel. So nothing is cut or reset after this.
	a, b := one.Ping(t.Context()), other.Ping(t.Context())
	if (a == nil) == (b == nil) {
		t.Errorf("one of two connections was cut: %v, %v", a, b)
	}
}

func TestReset(t *testing.T) {
	_, p, conn := proxied(t)
	p.Reset()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection was not reset")
	}
}

func TestPoint(t *testing.T) {
	s, p, conn := proxied(t)
	other := For(t, Options{})
	if err := other.Exec(t.Context(), "CREATE TABLE here (n int)"); err != nil {
		t.Fatal(err)
	}
	p.Point(other)
	alright(t, conn)
	if _, err := through(t, p).Exec(t.Context(), "SELECT FROM here"); err != nil {
		t.Errorf("a new connection does not go to the other server: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT FROM here"); err == nil {
		t.Error("the old connection has moved as well")
	}
	second, err := s.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	both, err := pgx.Connect(t.Context(), URL("postgres", second, p))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := both.Exec(t.Context(), "SELECT FROM here"); err != nil {
		t.Errorf("of two hosts the one that is there is not taken: %v", err)
	}
	if err := both.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
