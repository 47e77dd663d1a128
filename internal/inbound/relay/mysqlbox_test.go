//go:build prove

package relay

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/inbound/relay/mariadbtest"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/outbox"
)

// maria is shared by the tests of this file, except those that crash a server. It ends with this
// process.
var maria = sync.OnceValues(func() (*mariadbtest.Server, error) { return mariadbtest.Start(context.Background()) })

// mariaShop is a producer's database with an outbox.
func mariaShop(t *testing.T, s *mariadbtest.Server) (db *sql.DB, url string) {
	t.Helper()
	if s == nil {
		var err error
		if s, err = maria(); err != nil {
			t.Fatal(err)
		}
	}
	name := fmt.Sprint("shop", databases.Add(1))
	url, err := s.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int{0, 1} { // it can be repeated
		if before, err := Install(t.Context(), url, Rights{}); err != nil || before.Version != version {
			t.Fatalf("%+v, %v", before, err)
		}
	}
	if db, err = sql.Open("mysql", s.Driver(name)); err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(20)
	t.Cleanup(func() { _ = db.Close() })
	return db, url
}

// rowsIn is the number of rows in an outbox; -1: it cannot be read at the moment.
func rowsIn(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM grapnel_outbox").Scan(&n); err != nil {
		return -1
	}
	return n
}

func publishIn(t *testing.T, db *sql.DB, events ...outbox.Event) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	for i := 0; err == nil && i < len(events); i++ {
		err = outbox.PublishMySQL(t.Context(), tx, events[i])
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestMySQLLateCommit: a transaction that drew its id between those of two others, and is still
// open when these are relayed, is not overlooked. It delays neither them nor the removal of their
// rows. Another transaction with its key waits for it, and arrives after it.
func TestMySQLLateCommit(t *testing.T) {
	db, url := mariaShop(t, nil)
	s := newSink(t, url)
	r, _ := relaying(t, Options{Engine: s, Store: s.Store})
	late, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	publishIn(t, db, event("before", `1`))
	if err := outbox.PublishMySQL(t.Context(), late, event("late", `2`)); err != nil {
		t.Fatal(err)
	}
	publishIn(t, db, event("after", `3`))
	until(t, "the others are relayed and removed", func() bool {
		now, _ := r.Status("src_1")
		return len(s.events()) == 2 && rowsIn(t, db) == 0 && now.Moved == 2 && now.Lag == 0
	})
	waits := make(chan error, 1)
	go func() {
		tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
		if err == nil {
			err = errors.Join(outbox.PublishMySQL(t.Context(), tx, event("late", `4`)), tx.Commit())
		}
		waits <- err
	}()
	until(t, "the transaction with the same key waits", func() bool {
		var name string
		var n int
		err := db.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'").Scan(&name, &n)
		return err == nil && n == 1
	})
	if err := outbox.PublishMySQL(t.Context(), late, event("late", `5`)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(late.Commit(), <-waits); err != nil {
		t.Fatal(err)
	}
	until(t, "all are relayed", func() bool { return rowsIn(t, db) == 0 && len(s.events()) == 5 })
	var got []string
	for _, ev := range s.events() {
		got = append(got, string(ev.Data))
	}
	if strings.Join(got, " ") != "1 3 2 5 4" {
		t.Errorf("arrived %s", got)
	}
}

// contest lets producers compete for keys. Each transaction publishes to one or two keys, and only
// then counts in a table of the producer in which order it holds them; the database ends deadlocks
// of two of them. Some are rolled back, or parts of them. over returns the events of each key in
// the order of the commits.
func contest(
	t *testing.T, db *sql.DB, producers, keys, each int, isolation sql.IsolationLevel, lenient bool,
) (fought <-chan struct{}, over func() map[string][]string) {
	t.Helper()
	ctx := t.Context()
	for _, statement := range []string{"CREATE TABLE counted (name varchar(9) PRIMARY KEY, n int NOT NULL) ENGINE = InnoDB",
		"CREATE TABLE said (name varchar(9), n int, event varchar(32), PRIMARY KEY (name, n)) ENGINE = InnoDB"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	for k := range keys {
		if _, err := db.ExecContext(ctx, "INSERT INTO counted VALUES (?, 0)", fmt.Sprint("k", k)); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(p)))
			for i := 0; i < each; i++ {
				err := bid(ctx, db, random, keys, fmt.Sprintf("%d-%d", p, i), isolation)
				said, is := errors.AsType[*mysql.MySQLError](err)
				switch {
				case err == nil, is && said.Number == 1213:
				case lenient: // the server is down; it is not known whether a commit succeeded
					backoff.Wait(ctx.Done(), 20*time.Millisecond)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	end := make(chan struct{})
	go func() {
		all.Wait()
		close(end)
	}()
	return end, func() map[string][]string {
		t.Helper()
		<-end
		in := map[string][]string{}
		until(t, "what was said can be read", func() bool {
			clear(in)
			rows, err := db.QueryContext(ctx, "SELECT name, event FROM said ORDER BY name, n")
			if err != nil {
				return false
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
				var key, event string
				if err := rows.Scan(&key, &event); err != nil {
					return false
				}
				in[key] = append(in[key], event)
			}
			return rows.Err() == nil
		})
		return in
	}
}

func bid(ctx context.Context, db *sql.DB, random *rand.Rand, keys int, name string, isolation sql.IsolationLevel) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	// The transaction's state of the database is from before it waits for a key. A serializable one
	// would lock the rows that it reads.
	var n int
	if isolation != sql.LevelSerializable {
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM said").Scan(&n); err != nil {
			return err
		}
	}
	chosen := random.Perm(keys)[:1+random.IntN(2)]
	for _, k := range chosen {
		key := fmt.Sprint("k", k)
		if random.IntN(4) == 0 {
			_, err := tx.ExecContext(ctx, "SAVEPOINT a")
			err = errors.Join(err, outbox.PublishMySQL(ctx, tx, event(key, `"taken back"`)))
			if _, back := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT a"); err != nil || back != nil {
				return errors.Join(err, back)
			}
		}
		if err := outbox.PublishMySQL(ctx, tx, event(key, fmt.Sprintf("%q", name))); err != nil {
			return err
		}
	}
	time.Sleep(rand.N(500 * time.Microsecond))
	for _, k := range chosen {
		key := fmt.Sprint("k", k)
		// At stricter levels of isolation a read would show the state of the beginning.
		if _, err := tx.ExecContext(ctx, "UPDATE counted SET n = last_insert_id(n + 1) WHERE name = ?", key); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO said VALUES (?, last_insert_id(), ?)", key, fmt.Sprintf("%q", name)); err != nil {
			return err
		}
	}
	if random.IntN(5) == 0 {
		return nil // rolled back
	}
	return tx.Commit()
}

// arrivedAs checks that the events of each key are those that were said, in their order, once.
func (s *sink) arrivedAs(said map[string][]string) {
	s.t.Helper()
	got, total := map[string][]string{}, 0
	for _, ev := range s.events() {
		got[ev.Key] = append(got[ev.Key], string(ev.Data))
	}
	for key, want := range said {
		total += len(want)
		if g, w := strings.Join(got[key], " "), strings.Join(want, " "); g != w {
			s.t.Errorf("of %s came\n%s\nand not\n%s", key, g, w)
		}
	}
	if len(got) > len(said) || total == 0 {
		s.t.Errorf("events of %d keys arrived; %d were committed", len(got), total)
	}
	s.t.Logf("%d events", total)
}

// TestMySQLOrder: at every level of isolation the events of each key arrive in the order of the
// commits, once, whatever came first in the transaction, and no rolled-back event arrives. Two
// relays work on the outbox.
func TestMySQLOrder(t *testing.T) {
	for _, isolation := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(isolation.String(), func(t *testing.T) {
			db, url := mariaShop(t, nil)
			s := newSink(t, url)
			for range 2 {
				relaying(t, Options{Engine: s, Store: s.Store})
			}
			_, over := contest(t, db, 12, 6, 40, isolation, false)
			said := over()
			until(t, "all is relayed", func() bool { return rowsIn(t, db) == 0 })
			s.arrivedAs(said)
		})
	}
}

// TestMySQLThroughFaults: calls of the relay fail before or after their effect, the relay is
// stopped, and the database's server is killed, with usual and with tiny bounds. Each committed
// event arrives, once and in order.
func TestMySQLThroughFaults(t *testing.T) {
	rounds, each := 1, 60
	if os.Getenv("GRAPNEL_SOAK") != "" {
		rounds, each = 20, 400
	}
	own := mariadbtest.For(t)
	for round := range rounds {
		for name, b := range map[string]Bounds{"usual": {Rows: 20}, "tiny": bounds.Tiny[Bounds](uint64(round + 1))} {
			t.Run(fmt.Sprintf("%s %d", name, round), func(t *testing.T) { throughFaults(t, own, bounds.Fill(b), each) })
		}
	}
}

func throughFaults(t *testing.T, own *mariadbtest.Server, within Bounds, each int) {
	db, url := mariaShop(t, own)
	s := newSink(t, url)
	var faults, kills atomic.Int64
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(8, 8))
	strikes := func() bool {
		mu.Lock()
		defer mu.Unlock()
		is := random.IntN(8) == 0
		if is {
			faults.Add(1)
		}
		return is
	}
	s.injure = func([]store.Incoming) (before, after error) {
		switch {
		case strikes():
			return errFault, nil
		case strikes():
			return nil, errFault
		}
		return nil, nil
	}
	o := Options{Bounds: within, Engine: s, Store: s.Store, Random: func() float64 { return 0 },
		open: func(ctx context.Context, dsn string) (box, error) {
			b, err := openMySQL(ctx, dsn, within)
			return faulty{b, strikes}, err
		}}
	_, stop := relaying(t, o)
	fought, over := contest(t, db, 8, 5, each, sql.LevelDefault, true)
	crashes, before := 0, 0
	until(t, "all is relayed", func() bool {
		if n := len(s.events()); n > before+each/4 {
			before = n
			stop()
			_, stop = relaying(t, o)
			if kills.Add(1)%2 == 0 && crashes < 3 {
				crashes++
				if err := own.Crash(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		select {
		case <-fought:
			return rowsIn(t, db) == 0
		default:
			return false
		}
	})
	stop()
	s.arrivedAs(over())
	if faults.Load() < 10 || kills.Load() == 0 || crashes == 0 {
		t.Errorf("%d faults, %d kills, %d crashes: this test shows less than it says", faults.Load(), kills.Load(), crashes)
	}
}

// TestMySQLProcedure: bytes arrive as they are given, over a connection with another character set
// too; invalid values fail the call; and the caller's last_insert_id stays.
func TestMySQLProcedure(t *testing.T) {
	db, url := mariaShop(t, nil)
	s := newSink(t, url)
	relaying(t, Options{Engine: s, Store: s.Store})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.FixedZone("", 3600))
	all := []string{`{"b": 1.0,  "a":1e5,"b":2}`, `"\u00e9é\\\/\u0000"`, "\n[1,\t2]\n", `null`, `"💶"`,
		strings.Repeat(" ", 100_000) + `"large"`}
	if _, err := tx.ExecContext(t.Context(), "DO last_insert_id(4711)"); err != nil {
		t.Fatal(err)
	}
	for i, data := range all {
		e := outbox.Event{Type: "a.b", Key: "ключ", Data: []byte(data), ID: fmt.Sprint("evt_", i), OccurredAt: at, Metadata: map[string]string{"k": "é"}}
		if err := outbox.PublishMySQL(t.Context(), tx, e); err != nil {
			t.Fatal(err)
		}
	}
	var last int
	if err := errors.Join(tx.QueryRowContext(t.Context(), "SELECT last_insert_id()").Scan(&last), tx.Commit()); err != nil || last != 4711 {
		t.Errorf("%d, %v", last, err)
	}
	until(t, "all arrive", func() bool { return len(s.events()) == len(all) })
	for i, ev := range s.events() {
		if string(ev.Data) != all[i] || ev.Key != "ключ" || ev.Metadata["k"] != "é" || !ev.OccurredAt.Equal(at) ||
			ev.ID != fmt.Sprint("evt_", i) {
			t.Errorf("arrived %+v", ev)
		}
	}
	one, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"SET NAMES latin1", "CALL grapnel_publish('a.b', concat('\"', char(233 USING latin1), '\"'), NULL, NULL, NULL, NULL)"} {
		if _, err := one.ExecContext(t.Context(), statement); err != nil {
			t.Error(err)
		}
	}
	_ = one.Raw(func(any) error { return driver.ErrBadConn }) // no other test gets this connection
	_ = one.Close()
	until(t, "it arrives in UTF-8, with an id of its own", func() bool {
		got := s.events()
		return len(got) == len(all)+1 && string(got[len(all)].Data) == `"é"` && grapnel.ValidID(got[len(all)].ID) && len(got[len(all)].ID) == 36
	})
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprint(i)] = ""
	}
	for says, wrong := range map[string]outbox.Event{
		"the type is": {Type: "a b", Data: []byte("1")}, "type is not": {Type: "a..b", Data: []byte("1")}, "not segments": {Type: "a.b\n", Data: []byte("1")},
		"joined by dots": {Type: strings.Repeat("a.", 70) + "a", Data: []byte("1")}, "not JSON": {Type: "a.b", Data: []byte("{")},
		"the id is": {Type: "a.b", Data: []byte("1"), ID: "a/b"}, "the key is": {Type: "a.b", Data: []byte("1"), Key: "a\x01"},
		"256 bytes": {Type: "a.b", Data: []byte("1"), Key: strings.Repeat("é", 129)},
		"metadata":  {Type: "a.b", Data: []byte("1"), Metadata: many},
	} {
		if err := outbox.PublishMySQL(t.Context(), db, wrong); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// TestMySQLRowsThatAreNoEvents: rows that were written without the procedure and are no events are
// set aside, each with its fault, and delay no others.
func TestMySQLRowsThatAreNoEvents(t *testing.T) {
	db, url := mariaShop(t, nil)
	put := func(kind, key, id, data, metadata, at string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), "INSERT INTO grapnel_outbox (type, `key`, event_id, data, metadata, occurred_at, published_at) VALUES (?, ?, ?, ?, ?, ?, now())",
			kind, key, id, data, metadata, at)
		if err != nil {
			t.Fatal(err)
		}
	}
	const at = "2026-11-29 12:00:00"
	put("a..b", "k", "e1", "1", "{}", at)
	put("a.b", "k\x01", "e2", "1", "{}", at)
	put("a.b", "k", "e3", "1", `{"n":1}`, at)
	put("a.b", "k", "e4", "{", "{}", at)
	put("a.b", "k", "e5", `"`+strings.Repeat("x", 600)+`"`, "{}", at)
	put("a.b", "k", "e6", "1", `{"n":"1"}`, at)
	s := newSink(t, url)
	r, _ := relaying(t, Options{Engine: s, Store: s.Store, MaxEvent: 512})
	until(t, "all are gone", func() bool { return rowsIn(t, db) == 0 })
	if all := s.events(); len(all) != 1 || all[0].ID != "e6" || all[0].Metadata["n"] != "1" {
		t.Errorf("%d arrived: %+v", len(all), all)
	}
	until(t, "five are set aside", func() bool {
		now, _ := r.Status("src_1")
		return now.Moved == 6 && now.Aside == 5
	})
}

// TestMySQLPages: a transaction larger than a page, in rows and bytes, arrives whole and in order.
func TestMySQLPages(t *testing.T) {
	db, url := mariaShop(t, nil)
	rows := bounds.Fill(Bounds{}).Rows
	var events []outbox.Event
	for n := range 2*rows + 10 {
		data := fmt.Sprint(n + 1)
		if n > 2*rows-15 {
			data = strings.Repeat(" ", 200<<10) + data
		}
		events = append(events, event("k", data))
	}
	publishIn(t, db, events...)
	s := newSink(t, url)
	relaying(t, Options{Engine: s, Store: s.Store})
	until(t, "all is relayed", func() bool { return rowsIn(t, db) == 0 })
	got := s.events()
	if len(got) != len(events) {
		t.Fatalf("%d of %d arrived", len(got), len(events))
	}
	for i := range got {
		if string(got[i].Data) != string(events[i].Data) {
			t.Fatalf("event %d is another one", i)
		}
	}
}
