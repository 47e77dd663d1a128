package sqlite3_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// withSmallCache connects to a database so that a transaction of some pages writes to the log
// before it commits.
func withSmallCache(t *testing.T, path string) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.Open(path, sqlite3.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	exec(t, c, "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = 5")
	return c
}

// The same statements run on a connection that gathers its writes to the log and on one that does
// not. After each commit a third connection sees the same in both databases: after rollbacks, after
// pages that do not fit into the cache and are read back from the log within a transaction, and
// however often the log is copied or truncated. The files left by a process that did not close them
// are the same too.
func TestGatheredWritesAreThoseThatWereMade(t *testing.T) {
	type database struct {
		path         string
		writer, look *sqlite3.Conn
	}
	connect := func(path string) *sqlite3.Conn { return withSmallCache(t, path) }
	content := func(c *sqlite3.Conn) string {
		q := prepare(t, c, "SELECT (SELECT count(*) || ' ' || ifnull(sum(k), 0) || ' ' || ifnull(sum(length(v)), 0) || ' ' || ifnull(max(v), '') FROM v), integrity_check FROM pragma_integrity_check")
		if found, err := q.Row(); !found || err != nil {
			t.Fatal(found, err)
		}
		defer q.Reset()
		if q.String(1) != "ok" {
			t.Fatal(q.String(1))
		}
		return q.String(0)
	}
	var both [2]database
	for i := range both {
		path := filepath.Join(t.TempDir(), "test.db")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		both[i] = database{path, connect(path), connect(path)}
		exec(t, both[i].writer, "CREATE TABLE v (k INTEGER PRIMARY KEY, v TEXT); CREATE INDEX v_v ON v (v)")
	}
	if err := both[1].writer.GatherLog(1 << 20); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	next := 0
	for turn := range 60 {
		sql := "BEGIN;"
		for range 1 + random.IntN(4) {
			rows := 1 + random.IntN(60)
			insert := fmt.Sprintf("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO v SELECT %d + i, printf('%%0*d', %d, (%d + i) * 7919 %% 1000) FROM n;",
				rows, next, 1+random.IntN(1500), next)
			next += rows
			switch random.IntN(5) {
			case 0:
				sql += "SAVEPOINT s;" + insert + "UPDATE v SET v = v || 'x' WHERE k % 3 = 0; ROLLBACK TO s; RELEASE s;"
			case 1:
				sql += insert + fmt.Sprintf("UPDATE v SET v = substr(v, 2) WHERE k %% 5 = %d;", random.IntN(5))
			case 2:
				sql += insert + fmt.Sprintf("DELETE FROM v WHERE k < %d;", next-300)
			default:
				sql += insert
			}
		}
		if random.IntN(5) == 0 {
			sql += "ROLLBACK"
		} else {
			sql += "COMMIT"
		}
		after := random.IntN(12)
		var saw [2]string
		for i, d := range both {
			exec(t, d.writer, sql)
			saw[i] = content(d.look)
			var err error
			switch after {
			case 0:
				_, _, err = d.writer.Checkpoint()
			case 1:
				_, _, err = d.look.Checkpoint()
			case 2:
				err = d.writer.Truncate()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if saw[0] != saw[1] {
			t.Fatalf("turn %d: %.200s was written and %.200s is there", turn, saw[0], saw[1])
		}
	}
	var left [2]string
	for i, d := range both {
		path := filepath.Join(t.TempDir(), "left.db")
		for _, part := range []string{"", "-wal"} {
			bytes, err := os.ReadFile(d.path + part)
			if err == nil {
				err = os.WriteFile(path+part, bytes, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		left[i] = content(connect(path))
	}
	if left[0] != left[1] {
		t.Errorf("%.200s was left and %.200s is there", left[0], left[1])
	}
}

// TestGatheredFramesOfARollbackAreForgotten rolls back a transaction that does not fit into the
// cache, in each possible way, and then lets another connection commit. The commit stays: for
// readers, and in the files that a crash leaves.
func TestGatheredFramesOfARollbackAreForgotten(t *testing.T) {
	const many = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100) INSERT INTO v SELECT i, printf('%0900d', i) FROM n;"
	for _, c := range []struct{ name, sql string }{
		{"ROLLBACK", "BEGIN IMMEDIATE;" + many + "ROLLBACK"},
		{"a statement that rolls back", "BEGIN IMMEDIATE;" + many + "INSERT OR ROLLBACK INTO v VALUES (1, '')"},
		{"a statement without a transaction", "INSERT INTO v SELECT i % 100, printf('%0900d', i) FROM (WITH RECURSIVE n(i) AS " +
			"(VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 101) SELECT i FROM n)"},
		{"a savepoint", "SAVEPOINT s;" + many + "ROLLBACK TO s; RELEASE s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			ours, others := withSmallCache(t, path), withSmallCache(t, path)
			exec(t, ours, "CREATE TABLE v (k INTEGER PRIMARY KEY, v TEXT); CREATE TABLE w (k INTEGER PRIMARY KEY, v TEXT)")
			if err := ours.GatherLog(1 << 20); err != nil {
				t.Fatal(err)
			}
			// The log begins anew, so a rollback finds no page in it that it would have to read
			// again.
			if _, _, err := others.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			_ = ours.Exec(c.sql) // some of them fail
			if ours.InTransaction() || ours.Gathered() != 0 {
				t.Errorf("in a transaction: %v; %d bytes are gathered after it", ours.InTransaction(), ours.Gathered())
			}
			exec(t, others, "INSERT INTO w VALUES (1, 'x'); INSERT INTO w VALUES (2, 'y')")
			exec(t, ours, "INSERT INTO v VALUES (1000, 'z')")
			rows := func(path string) string {
				q := prepare(t, withSmallCache(t, path), `SELECT (SELECT group_concat(k || v) FROM w) || (SELECT group_concat(k || v) FROM v)
					|| integrity_check FROM pragma_integrity_check`)
				if found, err := q.Row(); !found || err != nil {
					t.Fatal(found, err)
				}
				defer q.Reset()
				return q.String(0)
			}
			const want = "1x,2y1000zok"
			if got := rows(path); got != want {
				t.Errorf("a reader sees %.100q, want %q", got, want)
			}
			left := filepath.Join(t.TempDir(), "left.db")
			for _, part := range []string{"", "-wal"} {
				bytes, err := os.ReadFile(path + part)
				if err == nil {
					err = os.WriteFile(left+part, bytes, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := rows(left); got != want {
				t.Errorf("a crash leaves %.100q, want %q", got, want)
			}
		})
	}
}

// TestGatherLogNeedsFullSync asks for it where a commit would be seen before it is in the file.
func TestGatherLogNeedsFullSync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := withSmallCache(t, path)
	for setting, works := range map[string]bool{"OFF": false, "NORMAL": false, "FULL": true} {
		exec(t, c, "PRAGMA synchronous = "+setting+"; CREATE TABLE IF NOT EXISTS v (k)")
		err := c.GatherLog(1 << 20)
		if (err == nil) != works || !works && !strings.Contains(err.Error(), "needs synchronous = FULL") {
			t.Errorf("with synchronous = %s: %v", setting, err)
		}
	}
}
