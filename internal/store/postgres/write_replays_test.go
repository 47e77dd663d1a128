package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestReplaysMeet: the last copies of two originals finish, made by two replays, while one of the
// replays delivers the other's original once more. Neither transaction meets a deadlock.
func TestReplaysMeet(t *testing.T) {
	t.Parallel()
	url := blank(t)
	s := nodesAt(t, url, 1)[0]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p, _ := policy.Preset("standard")
	_, err := s.PutEndpoint(t.Context(), store.Everyone(), grapnel.Endpoint{ID: "ep_a", Tenant: "acme", URL: "https://example.com",
		PolicyName: "standard", Policy: p, Ordering: grapnel.OrderByKey, Status: grapnel.EndpointEnabled, CreatedAt: at(0), UpdatedAt: at(0)},
		store.With{})
	must(err)
	a, b := lone(t, s, "a"), lone(t, s, "b")
	_, err = s.Record(t.Context(), []store.Change{finish(a), finish(b)})
	must(err)
	replay := func(id string, from, of int64) store.Head {
		t.Helper()
		done, err := s.Advance(t.Context(), store.ReplayStep{Replay: id, From: from, To: of, At: at(9), Items: []store.Redelivery{{Of: of}}})
		must(err)
		return *done[0].Head
	}
	for _, id := range []string{"rpl_1", "rpl_2"} {
		_, err := s.PutReplay(t.Context(), store.Everyone(), grapnel.Replay{ID: id, Tenant: "acme", Endpoint: "ep_a",
			Status: grapnel.ReplayRunning, CreatedAt: at(8)}, store.With{})
		must(err)
	}
	ofA, ofB := replay("rpl_2", 0, a.Delivery), replay("rpl_1", 0, b.Delivery)
	waiting := func(n int) {
		t.Helper()
		for waits := 0; waits < n; time.Sleep(time.Millisecond) {
			must(s.chores.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits))
		}
	}
	done := make(chan error, 2)
	on(t, url, func(conn *pgx.Conn) error {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), "SELECT FROM mark WHERE delivery = $1 FOR UPDATE", b.Delivery); err != nil {
			return err
		}
		go func() {
			_, err := s.Record(t.Context(), []store.Change{finish(ofA), finish(ofB)})
			done <- err
		}()
		waiting(1)
		go func() {
			_, err := s.Advance(t.Context(), store.ReplayStep{Replay: "rpl_2", From: a.Delivery, To: b.Delivery, At: at(10),
				Items: []store.Redelivery{{Of: b.Delivery}}})
			done <- err
		}()
		waiting(2)
		return tx.Commit(t.Context())
	})
	for range cap(done) {
		must(<-done)
	}
	if n := s.Stats().Spoiled; n != 0 {
		t.Errorf("%d transactions were made again", n)
	}
}
