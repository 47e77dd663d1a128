//go:build linux && prove

package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/outbox"
)

// Producers publish in their own transactions, over a few keys. The relaying server is killed again
// and again, sometimes while it recovers, and their database crashes once. In the end the server
// has exactly the committed events: each once, in the commit order of its key.
func TestOutboxThroughKills(t *testing.T) {
	beside(t, busy)
	kills, producers, keys := 8, 8, 5
	if soak() {
		kills = 200
	}
	dice := newDice(t)
	db := pgtest.For(t, pgtest.Options{})
	dsn, err := db.Create(t.Context(), "producer")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := relay.Install(t.Context(), dsn, relay.Rights{}); err != nil {
		t.Fatal(err)
	}
	p, err := pgxpool.New(t.Context(), dsn+"&pool_max_conns=16")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Exec(t.Context(), `CREATE TABLE counted AS SELECT 'k' || k AS key, 0 AS n FROM generate_series(0, $1::int - 1) AS k`,
		keys); err != nil {
		t.Fatal(err)
	}
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	c.must(http.StatusCreated, http.MethodPost, "/v1/queues", map[string]any{"name": "all"}, nil)
	var source struct{ ID string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/sources", map[string]any{"name": "producer", "outbox": map[string]any{"dsn": dsn}},
		&source)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for range producers {
		all.Go(func() {
			for ctx.Err() == nil {
				// While the database is down producers fail, and do not know whether their last commit
				// succeeded.
				_ = count(t.Context(), p, fmt.Sprint("k", dice.n(keys)))
				pause(ctx, dice.between(5*time.Millisecond, 60*time.Millisecond))
			}
		})
	}
	for kill := range kills {
		pause(t.Context(), dice.between(20*time.Millisecond, 700*time.Millisecond))
		c.kill()
		c.start()
		if dice.percent(30) {
			pause(t.Context(), dice.between(time.Millisecond, 150*time.Millisecond))
			c.kill()
			c.start()
		}
		c.ready(30 * time.Second)
		if kill == kills/2 {
			if err := db.Crash(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	all.Wait()
	eventually(t, time.Minute, "the outbox is empty", func() bool {
		left, err := relay.Inspect(t.Context(), dsn)
		return err == nil && left.Waiting == 0
	})
	var want int
	eventually(t, time.Minute, "what was counted can be read", func() bool {
		return p.QueryRow(t.Context(), `SELECT sum(n) FROM counted`).Scan(&want) == nil
	})
	got := c.published()
	seen := map[string]int{}
	for _, ev := range got {
		seen[ev.Key]++
		if due := fmt.Sprint(ev.Key, "-", seen[ev.Key]); ev.ID != due {
			t.Fatalf("%s came where %s was due", ev.ID, due)
		}
	}
	if len(got) != want || want < 100 {
		t.Errorf("%d events of %d that were committed", len(got), want)
	}
	t.Logf("%d events, %d kills", want, kills)
}

// count increments a key's counter and publishes the new value, in one transaction.
func count(ctx context.Context, p *pgxpool.Pool, key string) error {
	tx, err := p.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var n int
	if err := tx.QueryRow(ctx, `UPDATE counted SET n = n + 1 WHERE key = $1 RETURNING n`, key).Scan(&n); err != nil {
		return err
	}
	// The id contains key and number, so a list of events shows everything the test needs.
	e := outbox.Event{Type: "counted", Key: key, ID: fmt.Sprint(key, "-", n), Data: fmt.Append(nil, n)}
	if err := outbox.PublishPgx(ctx, tx, e); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// publishedEvent is an event in a list.
type publishedEvent struct{ ID, Key string }

// published are all events, oldest first.
func (c *child) published() []publishedEvent {
	all := pages[publishedEvent](c, "/v1/events", url.Values{}, math.MaxInt)
	slices.Reverse(all)
	return all
}
