package sqlite3

import (
	"os"
	"path/filepath"
	"testing"

	"modernc.org/sqlite/lib"
)

// Different values do not cause a statement to be compiled again.
func TestStatementsAreCompiledOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path, ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := c.Exec("CREATE TABLE v (i INTEGER PRIMARY KEY, s); CREATE INDEX few ON v (s) WHERE s > 'm'; INSERT INTO v VALUES (1, 'a'), (2, 'x')"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"SELECT i FROM v WHERE i > ? ORDER BY i LIMIT ?", "SELECT i FROM v WHERE s > ? AND i < ?"} {
		s, err := c.Prepare(sql)
		if err != nil {
			t.Fatal(err)
		}
		for n := range int64(4) {
			for more, err := s.Int(n).Int(n + 1).Next(); more; more, err = s.Next() {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if again := sqlite3.Xsqlite3_stmt_status(c.tls, s.handle, sqlite3.SQLITE_STMTSTATUS_REPREPARE, 0); again != 0 {
			t.Errorf("%s was compiled %d times more", sql, again)
		}
	}
}
