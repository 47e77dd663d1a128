package sqlite3_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

func open(t *testing.T) *sqlite3.Conn {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "test.db"))
}

// openAt creates a database and opens it until the test ends.
func openAt(t *testing.T, path string) *sqlite3.Conn {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite3.Open(path, sqlite3.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func prepare(t *testing.T, c *sqlite3.Conn, sql string) *sqlite3.Stmt {
	t.Helper()
	s, err := c.Prepare(sql)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exec(t *testing.T, c *sqlite3.Conn, sql string) {
	t.Helper()
	if err := c.Exec(sql); err != nil {
		t.Fatal(err)
	}
}

func TestValuesComeBackAsTheyWent(t *testing.T) {
	c := open(t)
	exec(t, c, "CREATE TABLE v (i, b, s, x, n)")
	insert := prepare(t, c, "INSERT INTO v VALUES (?, ?, ?, ?, ?)")
	query := prepare(t, c, "SELECT i, b, s, x, n FROM v WHERE i = ?")
	texts := []string{"", "plain", "with \x00 inside", "ключ", strings.Repeat("long ", 50_000)}
	for i, text := range texts {
		blob := []byte(text)
		if err := insert.Int(int64(i)).Bool(i%2 == 1).Text(text).Blob(blob).Null().Run(); err != nil {
			t.Fatal(err)
		}
		clear(blob) // the statement must have its own
		if c.Changed() != 1 {
			t.Fatalf("changed %d rows", c.Changed())
		}
	}
	for i, text := range texts {
		found, err := query.Int(int64(i)).Row()
		if err != nil || !found {
			t.Fatal(found, err)
		}
		if query.Integer(0) != int64(i) || query.Integer(1) != int64(i%2) || query.String(2) != text ||
			!bytes.Equal(query.Bytes(3), []byte(text)) || !query.IsNull(4) || query.Bytes(4) != nil || !query.IsText(2) || query.IsText(3) {
			t.Errorf("row %d came back changed", i)
		}
		query.Reset()
	}
}

// Several statements of one connection may be in the middle of their rows. The values bound to one
// must survive the others.
func TestStatementsDoNotShareValues(t *testing.T) {
	c := open(t)
	exec(t, c, "CREATE TABLE v (s)")
	insert := prepare(t, c, "INSERT INTO v VALUES (?)")
	for _, s := range []string{"a", "b", "c", "d"} {
		if err := insert.Text(s).Run(); err != nil {
			t.Fatal(err)
		}
	}
	outer := prepare(t, c, "SELECT s FROM v WHERE s <> ? ORDER BY s")
	inner := prepare(t, c, "SELECT count(*) FROM v WHERE s <> ?")
	outer.Text("b")
	var seen string
	for {
		more, err := outer.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		seen += outer.String(0)
		found, err := inner.Text(strings.Repeat("b", 5000)).Row()
		if err != nil || !found || inner.Integer(0) != 4 {
			t.Fatal(found, err)
		}
		inner.Reset()
	}
	if seen != "acd" {
		t.Errorf("saw %q", seen)
	}
}

func TestPrepareOnce(t *testing.T) {
	c := open(t)
	if prepare(t, c, "SELECT 1") != prepare(t, c, "SELECT "+"1") {
		t.Error("the same text was prepared twice")
	}
}

func TestErrorsSayWhatHappened(t *testing.T) {
	c := open(t)
	exec(t, c, "CREATE TABLE v (s UNIQUE); INSERT INTO v VALUES ('secret')")
	insert := prepare(t, c, "INSERT INTO v VALUES (?)")
	err := insert.Text("secret").Run()
	var e *sqlite3.Error
	if !errors.As(err, &e) || e.Full() || e.Broken() || e.Interrupted() || e.Busy() {
		t.Fatalf("got %#v", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the message shows a value: %v", err)
	}
	if err := insert.Text("other").Run(); err != nil {
		t.Errorf("the statement is of no use after an error: %v", err)
	}
	if _, err := c.Prepare("SELECT FROM"); err == nil {
		t.Error("nonsense was prepared")
	}
	if _, err := sqlite3.Open(filepath.Join(t.TempDir(), "absent"), sqlite3.ReadWrite); err == nil {
		t.Error("a file that is absent was opened")
	}
	exec(t, c, "PRAGMA max_page_count = 3")
	if err := insert.Text(strings.Repeat("x", 100_000)).Run(); !errors.As(err, &e) || !e.Full() || e.Broken() {
		t.Errorf("got %v, want full", err)
	}
}

func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite3.Open(path, sqlite3.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec("CREATE TABLE v (i)"); err == nil {
		t.Error("a connection for reading wrote")
	}
}

func TestInterrupt(t *testing.T) {
	c := open(t)
	endless := prepare(t, c, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
	done := make(chan error)
	go func() { done <- endless.Run() }()
	for {
		c.Interrupt() // an interruption before the statement begins has no effect
		select {
		case err := <-done:
			var e *sqlite3.Error
			if !errors.As(err, &e) || !e.Interrupted() {
				t.Fatalf("got %v", err)
			}
			if err := prepare(t, c, "SELECT 1").Run(); err != nil {
				t.Errorf("the connection is of no use afterwards: %v", err)
			}
			return
		default:
		}
	}
}

func TestTransactionsAndPages(t *testing.T) {
	c := open(t)
	exec(t, c, "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE v (s)")
	c.PagesWritten()
	exec(t, c, "BEGIN; INSERT INTO v VALUES ('x')")
	if !c.InTransaction() {
		t.Error("no transaction is open")
	}
	exec(t, c, "COMMIT")
	if c.InTransaction() {
		t.Error("a transaction is open")
	}
	if n := c.PagesWritten(); n != 1 {
		t.Errorf("%d pages written", n)
	}
	if n := c.PagesWritten(); n != 0 {
		t.Errorf("%d pages written by nobody", n)
	}
	log, copied, err := c.Checkpoint()
	if err != nil || log == 0 || copied != log {
		t.Errorf("copied %d of %d: %v", copied, log, err)
	}
}

// TestQuerySaysWhenItRuns binds values to a statement that could not be prepared. Each execution
// returns why.
func TestQuerySaysWhenItRuns(t *testing.T) {
	c := open(t)
	_, why := c.Prepare("SELECT nothing FROM nowhere")
	if why == nil {
		t.Fatal("the statement was prepared")
	}
	q := c.Query("SELECT nothing FROM nowhere")
	for range 2 {
		if found, err := q.Int(1).Text("text").Blob([]byte("blob")).Null().Bool(true).Row(); found || err == nil || err.Error() != why.Error() {
			t.Errorf("%t, %v, want %v", found, err, why)
		}
		q.Reset()
	}
	var err error
	for q.More(&err) {
		t.Error("it has a row")
	}
	if err == nil {
		t.Error("the loop ended without its error")
	}
	if err := c.Query("SELECT 1").Run(); err != nil {
		t.Error(err)
	}
}

// TestAside: while a statement runs aside the others of its connection do nothing and say so. They
// forget the values that they were given meanwhile.
func TestAside(t *testing.T) {
	c := open(t)
	exec(t, c, "PRAGMA journal_mode = WAL; CREATE TABLE v (i, s)")
	insert, commit := prepare(t, c, "INSERT INTO v VALUES (?, ?)"), prepare(t, c, "COMMIT")
	exec(t, c, "BEGIN")
	if err := insert.Int(1).Text("one").Run(); err != nil {
		t.Fatal(err)
	}
	done, end := commit.Aside()
	_, unprepared := c.Prepare("SELECT 2")
	for what, err := range map[string]error{
		"a statement": insert.Int(2).Text("two").Run(), "without values": insert.Null().Blob([]byte("two")).Run(),
		"Exec": c.Exec("DELETE FROM v"), "Prepare": unprepared, "Query": c.Query("DELETE FROM v").Run(),
	} {
		if !errors.Is(err, sqlite3.ErrAside) {
			t.Errorf("%s: %v", what, err)
		}
	}
	<-done
	if err := insert.Int(2).Text("two").Run(); !errors.Is(err, sqlite3.ErrAside) {
		t.Errorf("before its end: %v", err)
	}
	if err := end(); err != nil || c.InTransaction() {
		t.Errorf("the commit ended with %v; a transaction is open: %t", err, c.InTransaction())
	}
	if err := insert.Int(3).Text("three").Run(); err != nil {
		t.Error(err)
	}
	q := prepare(t, c, "SELECT group_concat(i || s) FROM v")
	if found, err := q.Row(); !found || err != nil || q.String(0) != "1one,3three" {
		t.Errorf("the rows are %q: %v", q.String(0), err)
	}
	q.Reset()
	_, end = commit.Aside()
	if err := end(); err == nil {
		t.Error("without a transaction there was something to commit")
	}
}
