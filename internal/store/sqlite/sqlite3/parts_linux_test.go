package sqlite3_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// A checkpoint writes each part of the database that it has changed to the device once, in order,
// before it syncs. Another connection reads the same rows as ever.
func TestASyncIsMadeInParts(t *testing.T) {
	const size = 64 << 10
	c, path := logged(t)
	var parts []int64
	if err := c.SyncInParts(size, func(fd int, at, n int64) error {
		if n != size || at%size != 0 {
			t.Errorf("a part of %d bytes at %d", n, at)
		}
		// The descriptor is the database's, and the checkpoint has written its pages.
		var header [16]byte
		if _, err := syscall.Pread(fd, header[:], 0); err != nil || !bytes.HasPrefix(header[:], []byte("SQLite format 3")) {
			t.Errorf("the descriptor has %q: %v", header[:], err)
		}
		parts = append(parts, at/size)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	exec(t, c, "CREATE TABLE v (n INTEGER PRIMARY KEY, b)")
	insert := prepare(t, c, "INSERT INTO v VALUES (?, ?)")
	for n := range 100 {
		if err := insert.Int(int64(n)).Blob(bytes.Repeat([]byte{byte(n)}, 10_000)).Run(); err != nil {
			t.Fatal(err)
		}
	}
	if len(parts) > 0 {
		t.Fatalf("parts %v were written before the checkpoint", parts)
	}
	copied(t, c)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []int64
	for at := int64(0); at < info.Size(); at += size {
		all = append(all, at/size)
	}
	if len(all) < 10 || !slices.Equal(parts, all) {
		t.Errorf("a database of %d bytes was written in the parts %v", info.Size(), parts)
	}

	parts = nil
	exec(t, c, "UPDATE v SET b = zeroblob(10000) WHERE n = 50")
	copied(t, c)
	if len(parts) == 0 || len(parts) > 3 || slices.Max(parts)-slices.Min(parts) > 8 {
		t.Errorf("after a change of one row the parts %v were written", parts)
	}

	other, err := sqlite3.Open(path, sqlite3.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	q := prepare(t, other, "SELECT count(*), sum(length(b)) FROM v")
	if found, err := q.Row(); !found || q.Integer(0) != 100 || q.Integer(1) != 1_000_000 {
		t.Errorf("another connection finds %d rows: %v", q.Integer(0), err)
	}
	q.Reset()
}

// The database is still written and synced. The second call has the file's methods of the first, so
// the parts of the first are written only if the second passes writes and syncs on.
func TestWritesAndSyncsArePassedOn(t *testing.T) {
	c, _ := logged(t)
	var parts [2][]int64
	for i := range parts {
		if err := c.SyncInParts(4096, func(_ int, at, _ int64) error { parts[i] = append(parts[i], at); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, c, "CREATE TABLE v (n); INSERT INTO v VALUES (1)")
	copied(t, c)
	if len(parts[0]) < 2 || !slices.Equal(parts[0], parts[1]) {
		t.Errorf("the parts at %v were written, and those at %v passed on", parts[1], parts[0])
	}
}

// The device reports an error once for each descriptor. After a part got the error the sync would
// get none, and SQLite would begin its log anew although the database lacks pages of it.
func TestAPartThatFailsFailsTheSync(t *testing.T) {
	c, _ := logged(t)
	var failing error
	parts := 0
	if err := c.SyncInParts(1000, func(int, int64, int64) error { parts++; return failing }); err != nil {
		t.Fatal(err)
	}
	exec(t, c, "CREATE TABLE v (n); INSERT INTO v VALUES (1)")
	failing = os.NewSyscallError("sync_file_range", syscall.EIO)
	_, _, err := c.Checkpoint()
	var e *sqlite3.Error
	if !errors.As(err, &e) || !e.Broken() || e.Errno != syscall.EIO || parts != 1 {
		t.Fatalf("after %d parts the checkpoint: %v", parts, err)
	}
	failing, parts = os.NewSyscallError("sync_file_range", syscall.ENOSPC), 0
	if _, _, err = c.Checkpoint(); !errors.As(err, &e) || !e.Broken() || e.Full() || parts != 1 {
		t.Fatalf("a sync without space: %v", err)
	}
	failing, parts = nil, 0
	copied(t, c)
	if parts < 2*4096/1000 { // of two pages, each in several parts
		t.Errorf("the next checkpoint writes %d parts", parts)
	}
}

// A checkpoint that fails is made again, on a full disk for hours. A part that it has written each
// time is remembered once.
func TestAPartIsRememberedOnce(t *testing.T) {
	c, _ := logged(t)
	var failing error = os.NewSyscallError("sync_file_range", syscall.ENOSPC)
	var parts []int64
	if err := c.SyncInParts(4096, func(_ int, at, _ int64) error { parts = append(parts, at); return failing }); err != nil {
		t.Fatal(err)
	}
	exec(t, c, "CREATE TABLE v (n); INSERT INTO v VALUES (zeroblob(40000))")
	for range 10 {
		if _, _, err := c.Checkpoint(); err == nil {
			t.Fatal("a checkpoint whose sync fails did not")
		}
	}
	failing, parts = nil, nil
	copied(t, c)
	slices.Sort(parts)
	if once := slices.Compact(slices.Clone(parts)); len(once) < 10 || !slices.Equal(parts, once) {
		t.Errorf("it wrote the parts at %v", parts)
	}
}

// logged opens a database that has a write-ahead log, which only Checkpoint copies.
func logged(t *testing.T) (*sqlite3.Conn, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	c := openAt(t, path)
	exec(t, c, "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0")
	return c, path
}

func copied(t *testing.T, c *sqlite3.Conn) {
	t.Helper()
	if log, copied, err := c.Checkpoint(); err != nil || log == 0 || log != copied {
		t.Fatalf("%d of %d pages were copied: %v", copied, log, err)
	}
}
