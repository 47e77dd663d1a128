package postgres

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
)

// TestPurgeReadsEventsThatStayOnce: 2,000 old events have pending deliveries, and 40 behind them
// can be deleted. Twenty calls that delete two each do not
// all read the 2,000.
func TestPurgeReadsEventsThatStayOnce(t *testing.T) {
	t.Parallel()
	const stay, calls = 2000, 20
	url := blank(t)
	s := open(t, url, Options{CallersClock: true})
	b := store.Batch{Config: version(t, s)}
	for n := range stay {
		b.Events = append(b.Events, incomingTo(fmt.Sprint("stays", n), "", "ep_1"))
	}
	for n := range 2 * calls {
		b.Events = append(b.Events, incomingTo(fmt.Sprint("goes", n), ""))
	}
	if _, err := s.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	on(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "ANALYZE")
		return err
	})
	read := func() (n int64) {
		on(t, url, func(conn *pgx.Conn) error {
			for others := 1; others > 0; { // a connection that ends adds its reads first
				if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
					AND backend_type = 'client backend'`).Scan(&others); err != nil {
					return err
				}
			}
			return conn.QueryRow(t.Context(), `SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables
				WHERE relname ~ '^event_[0-9f]'`).Scan(&n)
		})
		return n
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := read()
	s = open(t, url, Options{CallersClock: true})
	keep := store.Keep{Now: at(0).Add(300 * aDay), For: 30 * aDay}
	for call := range calls {
		if n, err := s.Purge(t.Context(), keep, 2); n != 2 || err != nil {
			t.Fatalf("call %d: %d, %v", call, n, err)
		}
	}
	for range 2 { // the first one comes to the end, and the second one begins anew
		if n, err := s.Purge(t.Context(), keep, 2); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := read() - before; n >= calls*stay { // as many as if each call read them
		t.Errorf("%d events were read", n)
	}
}
