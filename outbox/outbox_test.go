package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/outbox"
)

// url is that of a database with an outbox, which the tests of this package share.
var url string

func TestMain(m *testing.M) {
	code, err := with(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func with(m *testing.M) (code int, err error) {
	ctx := context.Background()
	server, err := pgtest.Start(ctx, pgtest.Options{})
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopped := server.Stop(); err == nil {
			err = stopped
		}
	}()
	if url, err = server.Create(ctx, "producer"); err != nil {
		return 1, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 1, err
	}
	defer func() { _ = conn.Close(ctx) }()
	for range 2 { // it can be repeated
		if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, outbox.InstallSQL(), pgx.QueryExecModeSimpleProtocol)
			return err
		}); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

func connect(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// kept is an event's row in the outbox.
func kept(t *testing.T, db *sql.DB, id string) (e outbox.Event, there bool) {
	t.Helper()
	var metadata sql.NullString
	err := db.QueryRowContext(t.Context(), `SELECT type, coalesce(key, ''), data, event_id, occurred_at, metadata FROM grapnel.outbox_event WHERE event_id = $1`, id).
		Scan(&e.Type, &e.Key, &e.Data, &e.ID, &e.OccurredAt, &metadata)
	if err == sql.ErrNoRows { //nolint:errorlint // it is returned as it is
		return e, false
	}
	if err != nil {
		t.Fatal(err)
	}
	if metadata.Valid {
		e.Metadata = map[string]string{"": metadata.String}
	}
	return e, true
}

// TestBytesStayAsTheyAre: order of members, space, digits, escapes and repeated members are
// unchanged.
func TestBytesStayAsTheyAre(t *testing.T) {
	db := connect(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	for i, data := range []string{`{"b": 1.0,  "a":1e5,"b":2}`, `"\u00e9é\\\/\u0000"`, "\n[1,\t2]\n", `null`, strings.Repeat(" ",
		100_000) + `"large"`} {
		id := fmt.Sprint("evt_bytes_", i)
		if err := outbox.Publish(t.Context(), db, outbox.Event{Type: "a.b", Key: "ключ", Data: []byte(data), ID: id, OccurredAt: at,
			Metadata: map[string]string{"k": "v"}}); err != nil {
			t.Fatal(err)
		}
		e, there := kept(t, db, id)
		if !there || string(e.Data) != data || e.Type != "a.b" || e.Key != "ключ" || !e.OccurredAt.Equal(at) || e.Metadata[""] != `{"k":"v"}` {
			t.Errorf("kept %+v", e)
		}
	}
}

// TestWhatIsRolledBackWasNeverThere: neither a rollback of the transaction nor one to a savepoint
// leaves an event.
func TestWhatIsRolledBackWasNeverThere(t *testing.T) {
	db := connect(t)
	publish := func(tx *sql.Tx, id string) {
		t.Helper()
		if err := outbox.Publish(t.Context(), tx, outbox.Event{Type: "a.b", Key: "k", Data: []byte(`1`), ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	do := func(tx *sql.Tx, statement string) {
		t.Helper()
		if _, err := tx.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	publish(tx, "evt_gone")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if tx, err = db.BeginTx(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	do(tx, `SAVEPOINT s`)
	publish(tx, "evt_gone_too") // the first of its transaction; the others do not depend on it
	do(tx, `ROLLBACK TO SAVEPOINT s`)
	publish(tx, "evt_stays")
	do(tx, `SAVEPOINT s`)
	publish(tx, "evt_gone_as_well")
	do(tx, `ROLLBACK TO SAVEPOINT s`)
	publish(tx, "evt_stays_too")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"evt_gone": false, "evt_gone_too": false, "evt_stays": true, "evt_gone_as_well": false,
		"evt_stays_too": true} {
		if _, there := kept(t, db, id); there != want {
			t.Errorf("%s: %v", id, there)
		}
	}
	var commits int
	if err := db.QueryRowContext(t.Context(),
		`SELECT count(*) FROM grapnel.outbox_commit WHERE batch IN (SELECT batch FROM grapnel.outbox_event WHERE event_id LIKE 'evt_stays%')`,
	).Scan(&commits); err != nil || commits != 1 {
		t.Errorf("%d numbers for one transaction, %v", commits, err)
	}
}

// TestWhatCannotArriveIsRefused: invalid events are refused at once, where the producer sees the
// error.
func TestWhatCannotArriveIsRefused(t *testing.T) {
	db := connect(t)
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprint(i)] = "x"
	}
	fine := outbox.Event{Type: "a.b", Key: "k", Data: []byte(`{}`), ID: "evt_fine",
		Metadata: map[string]string{"k": strings.Repeat("x", 1024)}}
	for name, spoil := range map[string]func(*outbox.Event){
		"no type":           func(e *outbox.Event) { e.Type = "" },
		"type":              func(e *outbox.Event) { e.Type = "a..b" },
		"long type":         func(e *outbox.Event) { e.Type = strings.Repeat("a.", 64) + "a" },
		"no data":           func(e *outbox.Event) { e.Data = nil },
		"data":              func(e *outbox.Event) { e.Data = []byte(`{`) },
		"id":                func(e *outbox.Event) { e.ID = "a.b" },
		"long id":           func(e *outbox.Event) { e.ID = strings.Repeat("x", 65) },
		"long key":          func(e *outbox.Event) { e.Key = strings.Repeat("é", 129) },
		"control character": func(e *outbox.Event) { e.Key = "a\nb" },
		"long metadata":     func(e *outbox.Event) { e.Metadata = map[string]string{"k": strings.Repeat("x", 1025)} },
		"much metadata":     func(e *outbox.Event) { e.Metadata = many },
	} {
		e := fine
		spoil(&e)
		if err := outbox.Publish(t.Context(), db, e); err == nil {
			t.Errorf("%s: published", name)
		}
	}
	if err := outbox.Publish(t.Context(), db, fine); err != nil {
		t.Error(err)
	}
}

// TestLocksAreTakenAtTheCommit: one lock per key, taken at the commit and not before; also if the
// settings that the transaction uses for its keys were reset.
func TestLocksAreTakenAtTheCommit(t *testing.T) {
	db := connect(t)
	for _, between := range []string{`SELECT 1`, `RESET ALL`, `SET LOCAL grapnel.outbox = ''`} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		locks := func() (n int) {
			const locks = `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`
			if err := tx.QueryRowContext(t.Context(), locks).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		for _, key := range []string{"one", "two", "", "one", "three"} {
			if err := outbox.Publish(t.Context(), tx, outbox.Event{Type: "a.b", Key: key, Data: []byte(`1`)}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tx.ExecContext(t.Context(), between); err != nil {
			t.Fatal(err)
		}
		before := locks()
		// Run the deferred work of the commit now.
		if _, err := tx.ExecContext(t.Context(), `SET CONSTRAINTS ALL IMMEDIATE`); err != nil {
			t.Fatal(err)
		}
		if after := locks(); before != 0 || after != 3 {
			t.Errorf("after %s: %d locks before the commit, %d at it", between, before, after)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryLanguage: the SQL function on its own, as programs in other languages and operators call
// it.
func TestEveryLanguage(t *testing.T) {
	db := connect(t)
	for _, call := range []string{
		`SELECT grapnel.grapnel_publish('a.b', '{"a":"x\ny"}')`,
		`SELECT grapnel.grapnel_publish('a.b', '{}', 'k')`,
		`SELECT grapnel.grapnel_publish('a.b', json_build_object('a', 1)::text, key => 'k', metadata => '{"k":"v"}')`,
		`SELECT grapnel.grapnel_publish(type => 'a.b', data => '{}', occurred_at => now() - interval '1 hour')`,
	} {
		var id string
		if err := db.QueryRowContext(t.Context(), call).Scan(&id); err != nil {
			t.Errorf("%s: %v", call, err)
			continue
		}
		if _, there := kept(t, db, id); !there || !strings.HasPrefix(id, "evt_") || len(id) != 36 {
			t.Errorf("%s: published %q", call, id)
		}
	}
}
