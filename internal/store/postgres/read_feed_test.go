package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
)

// slots are two nodes whose writers count in rows of their own. So a lock on the rows of one holds
// its transactions open, after they have drawn row ids and before they commit, and no other's.
func slots(t *testing.T, url string) (free, held *Store) {
	t.Helper()
	both := make([]*Store, 2)
	for i, slot := range []int{0, usual.Slots / 2} {
		s := open(t, url, Options{CallersClock: true, Slot: func(int) int { return slot }})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		both[i] = s
	}
	return both[0], both[1]
}

// hold locks the rows in which the second node of slots counts. release lets its transactions
// commit.
func hold(t *testing.T, url string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{fmt.Sprintf("INSERT INTO tally SELECT DISTINCT target, tenant, n, 0, 0, 0, 0, 0, 0, 0 FROM tally, generate_series(%d, %d) n ON CONFLICT DO NOTHING",
		usual.Slots/2, usual.Slots-1), "BEGIN", fmt.Sprintf("SELECT FROM tally WHERE slot >= %d FOR UPDATE", usual.Slots/2)} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return sync.OnceFunc(func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// blocked returns once a transaction waits for a lock.
func blocked(t *testing.T, s *Store) {
	t.Helper()
	for waiting := 0; waiting == 0; {
		if err := s.chores.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}

func append1(t *testing.T, s *Store, config int64, id string) {
	t.Helper()
	if _, err := s.Append(t.Context(), store.Batch{Config: config, Events: []store.Incoming{incomingTo(id, "", "ep_a")}}); err != nil {
		t.Error(err)
	}
}

// TestAFeedWaitsForTransactionsThatAreOpen holds a transaction open between two others. A reader
// that goes on behind the highest row id it has seen would never get the event that is committed
// last.
func TestAFeedWaitsForTransactionsThatAreOpen(t *testing.T) {
	t.Parallel()
	url := blank(t)
	free, held := slots(t, url)
	config := version(t, free)
	append1(t, held, config, "first")
	append1(t, free, config, "second")
	var got []string
	var mark *store.FeedMark
	read := func(want ...string) {
		t.Helper()
		page, err := free.Feed(t.Context(), store.Everyone(), store.FeedQuery{Endpoint: "ep_a", After: mark, Limit: 10})
		if err != nil || page.Gap {
			t.Fatal(page, err)
		}
		mark = &page.Next
		for _, d := range page.Deliveries {
			got = append(got, d.EventID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("read %q, want %q", got, want)
		}
	}
	read("first", "second")
	release := hold(t, url)
	defer release()
	var late sync.WaitGroup
	late.Go(func() { append1(t, held, config, "late") })
	blocked(t, free)
	append1(t, free, config, "early")
	list, err := free.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Endpoint: "ep_a", Limit: 10})
	if err != nil || len(list) != 3 || list[0].EventID != "early" {
		t.Fatal(list, err)
	}
	read("first", "second") // "early" is visible, and has the highest row id
	release()
	late.Wait()
	read("first", "second", "late", "early")
}

// TestAFeedSkipsNothing follows a feed while eight writers commit, and a transaction is held open
// again and again.
func TestAFeedSkipsNothing(t *testing.T) {
	most := int64(4_000)
	if os.Getenv("GRAPNEL_SOAK") != "" {
		most = 1_000_000
	}
	const batch = 50
	url := blank(t)
	free, held := slots(t, url)
	config := version(t, free)
	append1(t, held, config, "first")
	var published atomic.Int64
	published.Add(1)
	var writers, holders sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(11, uint64(w)))
			for i := 0; published.Load() < most; i++ {
				b := store.Batch{Config: config}
				for j := range 1 + random.IntN(batch) {
					key := fmt.Sprint("k", random.IntN(5))
					if random.IntN(2) == 0 {
						key = ""
					}
					b.Events = append(b.Events, incomingTo(fmt.Sprintf("e%d_%d_%d", w, i, j), key, "ep_a"))
				}
				if _, err := []*Store{free, held}[w%2].Append(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
				published.Add(int64(len(b.Events)))
			}
		})
	}
	done := make(chan struct{})
	holders.Go(func() {
		random := rand.New(rand.NewPCG(12, 0))
		for {
			release := hold(t, url)
			select {
			case <-done:
				release()
				return
			case <-time.After(time.Duration(random.IntN(100)) * time.Millisecond):
			}
			release()
		}
	})
	go func() { writers.Wait(); close(done) }()
	last, seen, number, pages, waited := map[string]int64{}, make(map[string]bool, most), int64(0), 0, 0
	var mark *store.FeedMark
	for ended := false; ; {
		page, err := held.Feed(t.Context(), store.Everyone(), store.FeedQuery{Endpoint: "ep_a", After: mark, Limit: 500})
		if err != nil || page.Gap {
			t.Fatal(page.Gap, err)
		}
		mark, pages = &page.Next, pages+1
		for _, d := range page.Deliveries {
			if seen[d.EventID] || d.Seq <= number || d.Key != "" && d.Position != last[d.Key]+1 {
				t.Fatalf("%s has row id %d and position %d; before it: %d and %d; seen before: %v", d.EventID, d.Seq, d.Position, number,
					last[d.Key], seen[d.EventID])
			}
			seen[d.EventID], number = true, d.Seq
			if d.Key != "" {
				last[d.Key] = d.Position
			}
		}
		if len(page.Deliveries) == 0 {
			if waited++; ended {
				break
			}
		}
		select {
		case <-done:
			holders.Wait()
			ended = true
		default:
		}
	}
	if got := int64(len(seen)); got != published.Load() {
		t.Errorf("read %d of %d", got, published.Load())
	}
	t.Logf("%d events in %d pages, %d of them empty", len(seen), pages, waited)
}

// TestLooksOfAHorizon: a row id is settled once all transactions that were open when it was the
// highest have ended, and a look that began earlier does not say so.
func TestLooksOfAHorizon(t *testing.T) {
	var h horizon
	is := func(look, drawn, want int64, open ...string) {
		t.Helper()
		if got := h.end(look, drawn, open); got != want {
			t.Fatalf("settled up to %d, want %d", got, want)
		}
	}
	is(h.begin(), 10, 10)
	is(h.begin(), 20, 10, "1/1", "2/1")
	is(h.begin(), 30, 10, "2/1", "3/1")
	early := h.begin()
	is(h.begin(), 40, 20, "3/1", "4/1") // those of 20 have ended
	is(early, 35, 20, "5/1")            // 3/1 and 4/1 may be younger than this look
	is(h.begin(), 50, 20, "4/1")
	is(h.begin(), 60, 40, "6/1")
	is(h.begin(), 70, 70)
	is(h.begin(), 60, 70, "7/1")
}

// TestAFeedReadsFewDaysAtOnce: the statements of a feed divide the row ids between two of them.
func TestAFeedReadsFewDaysAtOnce(t *testing.T) {
	c := &calendar{current: 29}
	for n := range int64(32) {
		c.days = append(c.days, dayOfTables(n))
	}
	for _, q := range []struct {
		after, upTo int64
		want        []int64
	}{
		{0, begins(29) + 5, []int64{begins(4) - 1, begins(29) + 5}},
		{begins(20) + 7, begins(29) + 5, []int64{begins(24) - 1, begins(29) + 5}},
		{begins(29) + 1, begins(29) + 5, []int64{begins(29) + 5}},
		{begins(40), begins(40) + 5, []int64{begins(40) + 5}},
	} {
		if got := c.ends(q.after, q.upTo, 4); !slices.Equal(got, q.want) {
			t.Errorf("from %d to %d: %d, want %d", q.after, q.upTo, got, q.want)
		}
	}
}
