package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// lone appends an event without key for an endpoint, and returns its delivery.
func lone(t *testing.T, s *Store, id string) store.Head {
	t.Helper()
	done, err := s.Append(t.Context(), store.Batch{Config: version(t, s), Events: []store.Incoming{incomingTo(id, "", "ep_a")}})
	if err != nil {
		t.Fatal(err)
	}
	return done.Heads[0]
}

// finish is the change that delivers h, with its identity.
func finish(h store.Head) store.Change {
	c := deliver(h)
	c.Identity = h.Identity()
	return c
}

// TestLoneOutcomes: outcomes of deliveries without lane are recorded at the first try, and together
// with others. A change that does not apply leaves its delivery as it was.
func TestLoneOutcomes(t *testing.T) {
	t.Parallel()
	s := nodes(t, 1)[0]
	record := func(again int64, changes ...store.Change) []store.Changed {
		t.Helper()
		before := s.Stats().Spoiled
		done, err := s.Record(t.Context(), changes)
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Stats().Spoiled - before; n != again {
			t.Errorf("the transaction was made again %d times, not %d", n, again)
		}
		return done
	}
	a, b, c := lone(t, s, "a"), lone(t, s, "b"), lone(t, s, "c")
	retry := finish(b)
	retry.Status, retry.Due = grapnel.Pending, at(9)
	for i, is := range record(0, finish(a), retry) {
		if !is.Applied {
			t.Errorf("change %d was not applied: %+v", i, is)
		}
	}
	record(0, finish(c))
	wrong := finish(b) // which expects the attempt that has been recorded
	if is := record(1, wrong)[0]; is.Applied || is.Status != grapnel.Pending || is.Next == nil || is.Next.Attempts != 1 {
		t.Errorf("an outcome of another attempt: %+v", is)
	}
	if is := record(1, finish(a))[0]; is.Applied || is.Status != grapnel.Delivered {
		t.Errorf("an outcome that is recorded already: %+v", is)
	}
	foreign := finish(b)
	foreign.Identity.Event++
	if is := record(1, foreign)[0]; !is.Foreign {
		t.Errorf("an outcome of another delivery: %+v", is)
	}
	shard := s.ShardOf("ep_a")
	fenced := finish(b)
	fenced.Expect, fenced.Epoch = 1, acquire(t, s, "a", -time.Second, shard)[shard]
	acquire(t, s, "b", time.Minute, shard)
	if is := record(1, fenced)[0]; !is.Fenced {
		t.Errorf("an outcome of an earlier epoch: %+v", is)
	}
	ordered, err := s.Append(t.Context(), store.Batch{Config: version(t, s), Events: []store.Incoming{
		incomingTo("k1", "k", "ep_a"), incomingTo("k2", "k", "ep_a")}})
	if err != nil {
		t.Fatal(err)
	}
	unordered := finish(ordered.Heads[0])
	unordered.Lone = true
	if is := record(1, unordered, finish(lone(t, s, "d"))); !is[0].Applied || is[0].Next == nil || is[0].Next.Position != 2 || !is[1].Applied {
		t.Errorf("an outcome of a delivery that has a lane: %+v", is)
	}
	// Another change of the transaction reads the delivery with its lane.
	second := store.Change{Delivery: ordered.Heads[0].Delivery + 1, Expect: store.AnyAttempts, Status: grapnel.Skipped, At: at(6), Lone: true}
	other := second
	other.Expect, other.Lone = 9, false
	if is := record(1, other, second); is[0].Applied || !is[1].Applied {
		t.Errorf("two changes of a delivery that has a lane: %+v", is)
	}
	if head, _, err := s.Head(t.Context(), second.Delivery); err != nil || head != nil {
		t.Errorf("a finished delivery is still pending: %+v, %v", head, err)
	}
	if head, first, err := s.Head(t.Context(), b.Delivery); err != nil || !first || head.Attempts != 1 {
		t.Errorf("after outcomes that did not apply the delivery is %+v, head %v, %v", head, first, err)
	}
}

// TestLoneOutcomeMeetsLease: a consumer leases a delivery while the transaction that finishes it
// waits for its row. The lease ends with the delivery.
func TestLoneOutcomeMeetsLease(t *testing.T) {
	t.Parallel()
	url := blank(t)
	s := nodesAt(t, url, 1)[0]
	h := lone(t, s, "a")
	done := make(chan error, 1)
	on(t, url, func(conn *pgx.Conn) error {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			return err
		}
		for _, sql := range []string{
			"UPDATE pending SET due = due + 1 WHERE seq = $1",
			"INSERT INTO lease (delivery, token, target, consumer, scheduled, granted) SELECT seq, 'token', target, 'c', 0, 0 FROM pending WHERE seq = $1",
		} {
			if _, err := tx.Exec(t.Context(), sql, h.Delivery); err != nil {
				return err
			}
		}
		go func() {
			is, err := s.Record(t.Context(), []store.Change{finish(h)})
			if err == nil && !is[0].Applied {
				t.Errorf("not applied: %+v", is[0])
			}
			done <- err
		}()
		for waits := false; !waits; time.Sleep(time.Millisecond) {
			if err := s.chores.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits); err != nil {
				return err
			}
		}
		return tx.Commit(t.Context())
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if list, err := s.LeaseList(t.Context(), "ep_a", 10); err != nil || len(list) != 0 {
		t.Errorf("leases after the end: %+v, %v", list, err)
	}
	var rows int
	if err := s.chores.QueryRow(t.Context(), "SELECT count(*) FROM lease").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows of leases after the end, %v", rows, err)
	}
}
