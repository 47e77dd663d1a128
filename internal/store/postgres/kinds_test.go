package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
)

// TestOthersKindsAreNotRead: a tenant has 20,000 types. Lists and purges of other tenants read only
// few of those.
func TestOthersKindsAreNotRead(t *testing.T) {
	t.Parallel()
	const others = 20_000
	url := blank(t)
	s := open(t, url, Options{CallersClock: true})
	today := cross(t, s)
	for _, id := range []string{"a", "b", "c"} {
		publish(t, s, typed(id, "order."+id, "", "ep_1"))
	}
	if _, err := s.pool.Exec(t.Context(), `INSERT INTO kind (tenant, type, source) SELECT 'other', 'type.' || n, '' FROM generate_series(1, $1) n`, others); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), "ANALYZE kind"); err != nil {
		t.Fatal(err)
	}
	// The server adds a connection's reads to its statistics before it forgets the connection.
	read := func() (n int64) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		on(t, url, func(conn *pgx.Conn) error {
			for others := 1; others > 0; {
				if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
					AND backend_type = 'client backend'`).Scan(&others); err != nil {
					return err
				}
			}
			return conn.QueryRow(t.Context(), "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'kind'").Scan(&n)
		})
		s = open(t, url, Options{CallersClock: true})
		return n
	}
	before := read()
	long := store.Keep{Now: at(0).Add(300 * aDay), For: 1000 * aDay, Rules: []store.KeepRule{{Tenant: "other", For: aDay}}}
	short := store.Keep{Now: at(0).Add(300 * aDay), For: 30 * aDay, Rules: []store.KeepRule{{Tenant: "nobody", For: 1000 * aDay}},
		Slack: time.Hour}
	for _, keep := range []store.Keep{long, short} {
		if _, err := s.Purge(t.Context(), keep, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.isOld(t.Context(), today, &short); err != nil {
		t.Fatal(err)
	}
	for _, q := range []store.DeliveryQuery{{Tenant: "acme", Limit: 10}, {Tenant: "acme", Type: "order.*", Limit: 10}} {
		if list, err := s.DeliveryList(t.Context(), store.Everyone(), q); err != nil || len(list) != 3 {
			t.Errorf("%+v: %d deliveries, %v", q, len(list), err)
		}
	}
	for _, eventType := range []string{"type.77", "type.77.*"} {
		if _, err := s.EventList(t.Context(), store.Everyone(), store.EventQuery{Tenant: "other", Type: eventType, Limit: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if n := read() - before; n > others/10 {
		t.Errorf("%d kinds were read", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
