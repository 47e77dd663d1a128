//go:build prove

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/outbox"
)

// shop is a producer with its own database, and the receiver of its events.
type shop struct {
	t   *testing.T
	dsn string
	db  *pgxpool.Pool

	mu        sync.Mutex
	committed map[string]time.Time // start of the commit, by key and number
	arrived   map[string][]arrival // by key
}

type arrival struct {
	n  int
	at time.Time
}

func newShop(t *testing.T) *shop {
	t.Helper()
	// The data are on a disk, so that commits take their real time.
	server := pgtest.For(t, pgtest.Options{Parent: os.TempDir()})
	s := &shop{t: t, committed: map[string]time.Time{}, arrived: map[string][]arrival{}}
	var err error
	if s.dsn, err = server.Create(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if _, err := relay.Install(t.Context(), s.dsn, relay.Rights{}); err != nil {
		t.Fatal(err)
	}
	if s.db, err = pgxpool.New(t.Context(), s.dsn+"&pool_max_conns=20"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.db.Close)
	if _, err := s.db.Exec(t.Context(), `CREATE TABLE counted AS SELECT 'k' || k AS key, 0 AS n FROM generate_series(0, 9) AS k`); err != nil {
		t.Fatal(err)
	}
	return s
}

// sell increments a key's counter and publishes the new value, in one transaction.
func (s *shop) sell(ctx context.Context, key string) error {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var n int
	if err := tx.QueryRow(ctx, `UPDATE counted SET n = n + 1 WHERE key = $1 RETURNING n`, key).Scan(&n); err != nil {
		return err
	}
	if err := outbox.PublishPgx(
		ctx,
		tx,
		outbox.Event{Type: "shop.sold", Key: key, Data: fmt.Appendf(nil, `{"key":%q,"n":%d}`, key, n)},
	); err != nil {
		return err
	}
	s.mu.Lock()
	s.committed[fmt.Sprint(key, " ", n)] = time.Now()
	s.mu.Unlock()
	return tx.Commit(ctx)
}

// ServeHTTP receives deliveries.
func (s *shop) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	now := time.Now()
	raw, _ := io.ReadAll(r.Body)
	var got struct {
		Data struct {
			Key string
			N   int
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		s.t.Errorf("%v in %s", err, raw)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived[got.Data.Key] = append(s.arrived[got.Data.Key], arrival{got.Data.N, now})
}

func (s *shop) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.arrived {
		n += len(of)
	}
	return n
}

// TestOutbox: sixteen producers publish two hundred events per second, in their own transactions,
// over ten keys. They arrive at a receiver in the order of the commits, once, and soon. Events
// committed while no server runs arrive when one is started.
func TestOutbox(t *testing.T) {
	const perSecond, producers, seconds = 200, 16, 6
	s := newShop(t)
	receiver := httptest.NewServer(s)
	defer receiver.Close()
	o := options(t.TempDir())
	o.AdminKey = testKey
	first := start(t, o)
	c := first.consumer(t)
	c.must(201, "POST", "/v1/endpoints", fmt.Sprintf(`{"url":%q,"event_types":["shop.*"]}`, receiver.URL))
	body, err := json.Marshal(map[string]any{"name": "shop", "outbox": map[string]any{"dsn": s.dsn}})
	if err != nil {
		t.Fatal(err)
	}
	source := c.must(201, "POST", "/v1/sources", string(body))["id"].(string)
	relayed := func() map[string]any { return c.must(200, "GET", "/v1/sources/"+source, "")["outbox"].(map[string]any) }
	poll(t, "it is relayed", func() bool { return relayed()["state"] == "relaying" })

	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			// Each producer starts a little later than the one before, so that the load is steady.
			tick := time.NewTicker(producers * time.Second / perSecond)
			defer tick.Stop()
			for i := range perSecond * seconds / producers {
				<-tick.C
				if err := s.sell(t.Context(), fmt.Sprint("k", (p*7+i)%10)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	total := perSecond * seconds
	poll(t, "all arrive", func() bool { return s.count() >= total })
	took := s.latencies(10)
	p50, p95 := took[len(took)/2], took[len(took)*95/100]
	t.Logf(
		"commit to arrival of %d events at %d in a second: p50 %v, p95 %v, p99 %v, longest %v",
		len(took),
		perSecond,
		p50,
		p95,
		took[len(took)*99/100],
		took[len(took)-1],
	)
	// The promise is about an idle machine. Elsewhere neighbours and the race detector take time, so
	// only the long form asserts it.
	if os.Getenv("GRAPNEL_SOAK") != "" && (p50 > 50*time.Millisecond || p95 > 500*time.Millisecond) {
		t.Errorf("p50 %v, p95 %v", p50, p95)
	}
	poll(t, "it is seen that all is relayed", func() bool {
		o := relayed()
		return o["state"] == "relaying" && o["lag"] == "0s" && o["events"] == float64(total) && o["set_aside"] == 0.0
	})
	_, _, metrics := c.ask("GET", "/metrics", "")
	for _, want := range []string{fmt.Sprintf(`grapnel_outbox_events_total{outcome="accepted"} %d`, total),
		`grapnel_outbox_up{source="` + source + `"} 1`,
		`grapnel_outbox_lag_seconds{source="` + source + `"} 0`} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics do not say %s", want)
		}
	}
	if status, _, _ := c.ask("POST", "/in/"+source, "{}"); status != 404 {
		t.Errorf("sending to an outbox is answered %d", status)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if err := s.sell(t.Context(), fmt.Sprint("k", i%10)); err != nil {
			t.Fatal(err)
		}
	}
	start(t, o)
	poll(t, "the others arrive", func() bool { return s.count() >= total+40 })
	s.inOrder()
}

// latencies are the sorted latencies of all arrivals but the first few.
func (s *shop) latencies(without int) (took []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, of := range s.arrived {
		for i, a := range of {
			if i >= without/len(s.arrived) {
				took = append(took, a.at.Sub(s.committed[fmt.Sprint(key, " ", a.n)]))
			}
		}
	}
	slices.Sort(took)
	return took
}

// inOrder checks that each key's numbers arrived as 1, 2, 3 ….
func (s *shop) inOrder() {
	s.t.Helper()
	rows, err := s.db.Query(s.t.Context(), `SELECT key, n FROM counted`)
	if err != nil {
		s.t.Fatal(err)
	}
	var key string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&key, &n}, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, a := range s.arrived[key] {
			if a.n != i+1 {
				return fmt.Errorf("of %s came %d where %d was due", key, a.n, i+1)
			}
		}
		if len(s.arrived[key]) != n {
			return fmt.Errorf("of %s came %d, not %d", key, len(s.arrived[key]), n)
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}
