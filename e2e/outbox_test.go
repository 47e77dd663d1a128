//go:build linux && prove

package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of producers

	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/inbound/relay/mariadbtest"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/outbox"
)

// Producers publish in their own transactions, over a few keys. The relaying server is killed again
// and again, sometimes while it recovers, and their database crashes once. In the end the server
// has exactly the committed events: each once, in the commit order of its key.
func TestOutboxThroughKills(t *testing.T) {
	beside(t, busy)
	t.Run("postgres", func(t *testing.T) {
		db := pgtest.For(t, pgtest.Options{})
		dsn, err := db.Create(t.Context(), "producer")
		if err != nil {
			t.Fatal(err)
		}
		throughKills(t, seller{dsn: dsn, driver: "pgx", at: dsn, crash: func() error { return db.Crash(t.Context()) },
			next: `UPDATE counted SET n = n + 1 WHERE name = $1`, read: `SELECT n FROM counted WHERE name = $1`,
			publish: func(ctx context.Context, tx *sql.Tx, e outbox.Event) error { return outbox.Publish(ctx, tx, e) }})
	})
	t.Run("mariadb", func(t *testing.T) {
		db := mariadbtest.For(t)
		dsn, err := db.Create(t.Context(), "producer")
		if err != nil {
			t.Fatal(err)
		}
		throughKills(t, seller{dsn: dsn, driver: "mysql", at: db.Driver("producer"), crash: func() error { return db.Crash(t.Context()) },
			next: `UPDATE counted SET n = n + 1 WHERE name = ?`, read: `SELECT n FROM counted WHERE name = ?`,
			publish: func(ctx context.Context, tx *sql.Tx, e outbox.Event) error { return outbox.PublishMySQL(ctx, tx, e) }})
	})
}

// seller is a database whose producers publish.
type seller struct {
	dsn, driver, at string // at: the DSN as the driver takes it
	next, read      string // count a key up, and read its count
	publish         func(context.Context, *sql.Tx, outbox.Event) error
	crash           func() error
}

func throughKills(t *testing.T, in seller) {
	kills, producers, keys := 8, 8, 5
	if soak() {
		kills = 200
	}
	dice := newDice(t)
	if _, err := relay.Install(t.Context(), in.dsn, relay.Rights{}); err != nil {
		t.Fatal(err)
	}
	p, err := sql.Open(in.driver, in.at)
	if err != nil {
		t.Fatal(err)
	}
	p.SetMaxIdleConns(producers)
	defer func() { _ = p.Close() }()
	if _, err := p.ExecContext(t.Context(), `CREATE TABLE counted (name varchar(9) PRIMARY KEY, n int NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	for k := range keys {
		if _, err := p.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO counted VALUES ('k%d', 0)`, k)); err != nil {
			t.Fatal(err)
		}
	}
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	c.must(http.StatusCreated, http.MethodPost, "/v1/queues", map[string]any{"name": "all"}, nil)
	var source struct{ ID string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/sources", map[string]any{"name": "producer", "outbox": map[string]any{"dsn": in.dsn}},
		&source)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for range producers {
		all.Go(func() {
			for ctx.Err() == nil {
				// While the database is down producers fail, and do not know whether their last commit
				// succeeded.
				_ = in.count(t.Context(), p, fmt.Sprint("k", dice.n(keys)))
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
			if err := in.crash(); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	all.Wait()
	eventually(t, time.Minute, "the outbox is empty", func() bool {
		left, err := relay.Inspect(t.Context(), in.dsn)
		return err == nil && left.Waiting == 0
	})
	var want int
	eventually(t, time.Minute, "what was counted can be read", func() bool {
		return p.QueryRowContext(t.Context(), `SELECT sum(n) FROM counted`).Scan(&want) == nil
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
func (in seller) count(ctx context.Context, p *sql.DB, key string) error {
	tx, err := p.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, in.next, key); err != nil {
		return err
	}
	var n int
	if err := tx.QueryRowContext(ctx, in.read, key).Scan(&n); err != nil {
		return err
	}
	// The id contains key and number, so a list of events shows everything the test needs.
	e := outbox.Event{Type: "counted", Key: key, ID: fmt.Sprint(key, "-", n), Data: fmt.Append(nil, n)}
	if err := in.publish(ctx, tx, e); err != nil {
		return err
	}
	return tx.Commit()
}

// publishedEvent is an event in a list.
type publishedEvent struct{ ID, Key string }

// published are all events, oldest first.
func (c *child) published() []publishedEvent {
	all := pages[publishedEvent](c, "/v1/events", url.Values{}, math.MaxInt)
	slices.Reverse(all)
	return all
}
