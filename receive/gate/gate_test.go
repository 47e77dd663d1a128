package gate

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/receive"
)

// server is shared by the tests of this package.
var server *pgtest.Server

func TestMain(m *testing.M) {
	var err error
	if server, err = pgtest.Start(context.Background(), pgtest.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const table = "create table item(id text primary key, version bigint, time_ns bigint, event text, status text, value text)"

var databases atomic.Int64

// opened is an empty database with a table.
func opened(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.ExecContext(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	return db
}

func postgresURL(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	if _, err := server.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return server.URL(name)
}

func sqlite(t testing.TB) *sql.DB { return opened(t, "sqlite", "file:"+t.TempDir()+"/items.db") }

// kinds are the databases of gates.
var kinds = map[string]func(t testing.TB) DB{
	"SQLite":     func(t testing.TB) DB { return SQLite(sqlite(t)) },
	"PostgreSQL": func(t testing.TB) DB { return PostgreSQL(opened(t, "pgx", postgresURL(t))) },
	"pgx": func(t testing.TB) DB {
		url := postgresURL(t)
		opened(t, "pgx", url)
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return PGX(pool)
	},
}

// conforming is a case of sdk/conformance/gates.json.
type conforming struct {
	Name  string
	Given struct {
		Gate     string
		Now      string
		Skew     int64 `json:"skew_ms"`
		MaxWait  int64 `json:"max_wait_ms"`
		Edges    map[string][]string
		Terminal []string
		Unknown  Unknown
		Events   []struct {
			Version, Time, Event, State, Value any
			At                                 int64 `json:"at_ms"`
			First                              int64 `json:"first_ms"`
		}
	}
	Want struct {
		Error   bool
		Results []Result
		Row     map[string]any
	}
}

// whole is an integer of a case, which beyond 2^53 is a text.
func whole(t *testing.T, v any) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSuffix(fmt.Sprintf("%v", v), ".0"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestGatesOfTheKits: the results and the row at the end are those of every kit, in each database.
func TestGatesOfTheKits(t *testing.T) {
	raw, err := os.ReadFile("../../sdk/conformance/gates.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []conforming }
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&all); err != nil || len(all.Cases) < 40 {
		t.Fatalf("%d cases, %v", len(all.Cases), err)
	}
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			db := open(t)
			for i, c := range all.Cases {
				t.Run(c.Name, func(t *testing.T) { c.run(t, db, fmt.Sprint("item", i)) })
			}
		})
	}
}

func (c *conforming) run(t *testing.T, db DB, id string) {
	g := c.Given
	m, err := NewStateMachine(StateMachine{Table: "item", Edges: g.Edges, Terminal: g.Terminal, Unknown: g.Unknown})
	if (err != nil) != c.Want.Error {
		t.Fatalf("the constructor says %v", err)
	}
	if c.Want.Error {
		return
	}
	for i, e := range g.Events {
		set, got := Set{"value": e.Value}, Result("")
		switch g.Gate {
		case "version":
			got, err = Version{Table: "item"}.Apply(t.Context(), db, id, whole(t, e.Version), set)
		case "timestamp":
			now, _ := time.Parse(time.RFC3339, g.Now)
			when, wrong := time.Parse(time.RFC3339, e.Time.(string))
			if wrong != nil {
				t.Fatal(wrong)
			}
			skew := time.Duration(g.Skew) * time.Millisecond
			gate := Timestamp{Table: "item", Skew: skew, Now: func() time.Time { return now }}
			got, err = gate.Apply(t.Context(), db, id, when, e.Event.(string), set)
		case "state":
			got, err = m.Apply(t.Context(), db, id, e.State.(string), set)
		case "gap":
			wait, now := time.Duration(g.MaxWait)*time.Millisecond, time.UnixMilli(e.At)
			gate := Gap{Table: "item", MaxWait: wait, Now: func() time.Time { return now }}
			got, err = gate.Apply(t.Context(), db, id, whole(t, e.Version), time.UnixMilli(e.First), set)
		default:
			t.Fatalf("the gate %s is unknown", g.Gate)
		}
		if err != nil || got != c.Want.Results[i] {
			t.Errorf("event %d: %s, %v; want %s", i+1, got, err, c.Want.Results[i])
		}
	}
	var version, ns sql.NullInt64
	var event, status, value sql.NullString
	p := place{db: db, table: "item", key: "id", values: []any{id}}
	there, err := p.stored(t.Context(), "version, time_ns, event, status, value", &version, &ns, &event, &status, &value)
	if err != nil || there != (c.Want.Row != nil) {
		t.Fatalf("there is a row: %v, %v", there, err)
	}
	got := map[string]string{"version": fmt.Sprint(version.Int64), "time_ns": fmt.Sprint(ns.Int64),
		"event": event.String, "state": status.String, "value": value.String}
	for column, want := range c.Want.Row {
		if got[column] != fmt.Sprint(want) {
			t.Errorf("%s is %s at the end, want %v", column, got[column], want)
		}
	}
}

// TestAnyOrderEndsInTheNewest: of the events of one row, in whatever order and however often they
// arrive, the newest is in the row at the end. The states of a machine come from a walk along its
// edges.
func TestAnyOrderEndsInTheNewest(t *testing.T) {
	db := SQLite(sqlite(t))
	edges := map[string][]string{"draft": {"open"}, "open": {"sent", "void"}, "sent": {"paid", "void"}, "paid": {"refunded"}}
	machine, err := NewStateMachine(StateMachine{Table: "item", Edges: edges, Terminal: []string{"refunded", "void"}})
	if err != nil {
		t.Fatal(err)
	}
	instants := []time.Time{time.Unix(1790000000, 0), time.Unix(1790000000, 1), time.Unix(1790000001, 0)}
	runs := 0
	rapidtest.Check(t, func(r *rapid.T) {
		runs++
		id, ctx := fmt.Sprint("item", runs), context.Background()
		kind := rapid.SampledFrom([]string{"version", "timestamp", "state"}).Draw(r, "kind")
		n := rapid.IntRange(1, 6).Draw(r, "events")
		order := make([]int, 0, 2*n)
		for i := range n {
			order = append(order, i)
		}
		order = append(order, rapid.SliceOfN(rapid.IntRange(0, n-1), 0, n).Draw(r, "copies")...)
		order = rapid.Permutation(order).Draw(r, "order")
		walk := []string{rapid.SampledFrom([]string{"draft", "open", "sent"}).Draw(r, "first")}
		for len(walk) < n && len(edges[walk[len(walk)-1]]) > 0 {
			walk = append(walk, rapid.SampledFrom(edges[walk[len(walk)-1]]).Draw(r, "next"))
		}
		when := rapid.SliceOfN(rapid.IntRange(0, 2), n, n).Draw(r, "instants")
		newest := 0 // by the model
		for _, i := range order {
			value := strconv.Itoa(i)
			var got Result
			var err error
			switch kind {
			case "version":
				newest = max(newest, i)
				got, err = Version{Table: "item"}.Apply(ctx, db, id, int64(i), Set{"value": value})
			case "timestamp":
				if when[i] > when[newest] || when[i] == when[newest] && i > newest || len(order) == 1 {
					newest = i
				}
				got, err = Timestamp{Table: "item", Now: func() time.Time { return instants[0] }}.Apply(ctx, db, id, instants[when[i]], value,
					Set{"value": value})
			case "state":
				i = min(i, len(walk)-1)
				value = strconv.Itoa(i)
				newest = max(newest, i)
				got, err = machine.Apply(ctx, db, id, walk[i], Set{"value": value})
			}
			if err != nil || got.Err() != nil && !errors.Is(got.Err(), receive.ErrStale) {
				r.Fatalf("%s %d: %s, %v", kind, i, got, err)
			}
			var value1 string
			p := place{db: db, table: "item", key: "id", values: []any{id}}
			if _, err := p.stored(ctx, "value", &value1); err != nil || got == Applied && value1 != value {
				r.Fatalf("%s %d is %s, and the row has %s, %v", kind, i, got, value1, err)
			}
		}
		var last string
		p := place{db: db, table: "item", key: "id", values: []any{id}}
		if _, err := p.stored(ctx, "value", &last); err != nil || last != strconv.Itoa(newest) {
			r.Fatalf("%s in the order %v (instants %v) ends in %s, want %d (%v)", kind, order, when, last, newest, err)
		}
	})
}

// TestEventsAtOnce: events that arrive at the same moment end like events that arrive one after
// another, and each version applies once.
func TestEventsAtOnce(t *testing.T) {
	db := kinds["PostgreSQL"](t)
	const events, copies = 20, 3
	var arrivals []int64
	for range copies {
		for v := range int64(events) {
			arrivals = append(arrivals, v+1)
		}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(arrivals), func(i, j int) { arrivals[i], arrivals[j] = arrivals[j], arrivals[i] })
	var mu sync.Mutex
	applied := map[int64]int{}
	var wg sync.WaitGroup
	for part := range slices.Chunk(arrivals, 10) {
		wg.Go(func() {
			for _, v := range part {
				got, err := Version{Table: "item"}.Apply(context.Background(), db, "one", v, Set{"value": fmt.Sprint(v)})
				if err != nil {
					t.Error(err)
				}
				if got == Applied {
					mu.Lock()
					applied[v]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	var value string
	p := place{db: db, table: "item", key: "id", values: []any{"one"}}
	if _, err := p.stored(t.Context(), "value", &value); err != nil || value != fmt.Sprint(events) {
		t.Errorf("the row ends with %s, %v", value, err)
	}
	for v, n := range applied {
		if n != 1 {
			t.Errorf("version %d was applied %d times", v, n)
		}
	}
	if applied[events] != 1 {
		t.Error("the newest version was not applied")
	}
}

// TestARowFromBeforeTheGate: a row that has no version, time or state yet gives way.
func TestARowFromBeforeTheGate(t *testing.T) {
	for kind, open := range kinds {
		db, ctx := open(t), t.Context()
		var one int
		for _, id := range []string{"a", "b", "c", "d"} {
			if err := db.row(ctx, "insert into item(id) values($1) returning 1", id).Scan(&one); err != nil {
				t.Fatal(err)
			}
		}
		m, _ := NewStateMachine(StateMachine{Table: "item", Edges: map[string][]string{"open": {"paid"}}})
		first, err1 := Version{Table: "item"}.Apply(ctx, db, "a", -5, nil)
		second, err2 := Timestamp{Table: "item"}.Apply(ctx, db, "b", time.Unix(0, 0), "e", nil)
		third, err3 := m.Apply(ctx, db, "c", "open", nil)
		fourth, err4 := Gap{Table: "item"}.Apply(ctx, db, "d", 1, time.Now(), nil)
		got := []Result{first, second, third, fourth}
		if err := errors.Join(err1, err2, err3, err4); err != nil || !slices.Equal(got, []Result{Applied, Applied, Applied, Applied}) {
			t.Errorf("%s: %v, %v", kind, got, err)
		}
	}
}

// TestWrongNames: what could change the statement, or write a column twice, is an error that names
// it.
func TestWrongNames(t *testing.T) {
	db := SQLite(sqlite(t))
	for name, apply := range map[string]func() (Result, error){
		"item; drop table item": func() (Result, error) {
			return Version{Table: "item; drop table item"}.Apply(t.Context(), db, "a", 1, nil)
		},
		"value = 1 --": func() (Result, error) {
			return Version{Table: "item"}.Apply(t.Context(), db, "a", 1, Set{"value = 1 --": 1})
		},
		"version": func() (Result, error) {
			return Version{Table: "item"}.Apply(t.Context(), db, "a", 1, Set{"version": 2})
		},
		"2400": func() (Result, error) {
			return Timestamp{Table: "item"}.Apply(t.Context(), db, "a", time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC), "e", nil)
		},
	} {
		if got, err := apply(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// TestWhatAHandlerReturns: each result is an outcome of the kit.
func TestWhatAHandlerReturns(t *testing.T) {
	for result, want := range map[Result]receive.Outcome{Applied: receive.Processed, Equal: receive.Processed, Fetch: receive.Processed,
		Stale: receive.Stale, Parked: receive.Failed, Refused: receive.Rejected, Rejected: receive.Rejected, DeadLetter: receive.Rejected} {
		if got := receive.Classify(result.Err()); got != want {
			t.Errorf("%s is %s, want %s", result, got, want)
		}
	}
}
