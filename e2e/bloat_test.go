//go:build linux && prove

package e2e

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// table is the state of one table of the database.
type table struct {
	name       string
	live, dead int64
	died       int64 // rows changed or deleted, in total
	bytes      int64
}

// Under a steady load the space that PostgreSQL has to clean up stays bounded, although one
// endpoint fails until its deliveries expire. Tables with short-lived rows do not grow once the
// load is steady. The long form takes an hour.
func TestTablesStayLean(t *testing.T) {
	beside(t, heavy)
	length, window, settings := 20*time.Second, 2*time.Second, map[string]string{"autovacuum_naptime": "1s"}
	if soak() {
		length, window, settings = time.Hour, time.Minute, nil
	}
	db := pgtest.For(t, pgtest.Options{Settings: settings})
	url, err := db.Create(t.Context(), "grapnel")
	if err != nil {
		t.Fatal(err)
	}
	c := newChild(t, program{flag: []string{"--store", url}}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	b := newBeat(t, c, "127.0.14", 4, 200)
	broken := newSite()
	broken.turn(way{status: http.StatusServiceUnavailable})
	c.endpoint("http://"+newDoor(t, "127.0.14.9", broken).addr+"/", map[string]any{"event_types": []string{"beat0.*"}, "ordering": "none",
		"policy": map[string]any{"breaker": false, "max_age": "10s", "jitter": 0,
			"schedule": map[string]any{"delays": []string{"0s", "1s", "2s"}, "tail": "repeat"}}})

	// These tables retain finished work and grow with the number of deliveries. All others have
	// short-lived rows.
	kept := []string{"finished", "attempt", "event", "event_name", "audit", "lane", "answer"}
	var first, last map[string]table
	// Dead at once; died in one window, which lasts at least as long as the pause between two
	// cleanings.
	most, busiest := map[string]int64{}, map[string]int64{}
	for began := time.Now(); time.Since(began) < length && !t.Failed(); {
		b.window(window, b.sites)
		before := last
		last = tables(t, url)
		for name, is := range last {
			most[name] = max(most[name], is.dead)
			busiest[name] = max(busiest[name], is.died-before[name].died)
		}
		if first == nil && time.Since(began) >= length/4 {
			first = last
		}
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		is := last[name]
		if is.live+is.dead+most[name] > 1000 {
			t.Logf("%-17s %7d live, %6d dead, at most %6d dead, %6d died in a window; %8d KiB, a quarter of the way through %8d KiB", name, is.live,
				is.dead,
				most[name], busiest[name], is.bytes>>10, first[name].bytes>>10)
		}
		// Cleaning keeps up: rows that died in one round are removed in the next. Below the threshold
		// PostgreSQL does not clean.
		if most[name] > 2*busiest[name]+4000 {
			t.Errorf("%s had %d dead rows, and no more than %d die between two rounds", name, most[name], busiest[name])
		}
		if !slices.Contains(kept, ofDay.ReplaceAllString(name, "")) && is.bytes > 2*first[name].bytes+1<<20 {
			t.Errorf("%s has grown from %d to %d bytes under a steady load", name, first[name].bytes, is.bytes)
		}
	}
	t.Logf("%d events in %v", b.published, length)
}

// ofDay matches the end of the name of a table with the rows of one day.
var ofDay = regexp.MustCompile(`_(first|\d{8})$`)

// tables reads the state of every table from the database.
func tables(t *testing.T, url string) map[string]table {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), "SELECT relname, n_live_tup, n_dead_tup, n_tup_upd + n_tup_del, pg_total_relation_size(relid) FROM pg_stat_user_tables")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]table{}
	var one table
	if _, err := pgx.ForEachRow(rows, []any{&one.name, &one.live, &one.dead, &one.died, &one.bytes}, func() error {
		all[one.name] = one
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
