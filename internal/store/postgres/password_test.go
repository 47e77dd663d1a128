package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
)

// as is the URL of a database for another role.
func as(url, role string) string { return strings.Replace(url, "user=postgres", "user="+role, 1) }

// TestPasswordChanges: the role gets another password while writers write, and all connections are
// replaced. Calls may fail only until the new password is where the store reads it.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	pg := pgtest.For(t, pgtest.Options{})
	do := func(sql string) {
		t.Helper()
		if err := pg.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE ROLE rotating LOGIN SUPERUSER")
	do("COPY (SELECT unnest(ARRAY['local all rotating scram-sha-256', 'local all all trust'])) TO '" + setting(t, pg, "hba_file") + "'")
	do("SELECT pg_reload_conf()")
	file := filepath.Join(t.TempDir(), "password")
	change := func(to string) {
		t.Helper()
		do("ALTER ROLE rotating PASSWORD '" + to + "'")
		if err := os.WriteFile(file+".new", []byte(to+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range map[string]Password{"file": {File: file}, "command": {Command: "cat " + file}} {
		t.Run(name, func(t *testing.T) {
			change("first")
			url, err := pg.Create(t.Context(), "by_"+name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), as(url, "rotating"), Options{}); err == nil {
				t.Fatal("the server takes the role without a password")
			}
			s := open(t, as(url, "rotating"), Options{Password: from})
			defer func() { _ = s.Close() }()
			var moments sync.RWMutex // held for reading by a call, so that moment changes between calls
			moment, succeeded, failed := 0, new(atomic.Int64), new(atomic.Int64)
			stop := make(chan struct{})
			var writers sync.WaitGroup
			for w := range 4 {
				writers.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
						}
						moments.RLock()
						began := moment
						moments.RUnlock()
						err := bringIn(t.Context(), s, fmt.Sprintf("e%d-%d", w, n))
						moments.RLock()
						switch {
						case err == nil && began == moment:
							succeeded.Add(1)
						case err != nil && began == moment && moment%2 == 0:
							t.Errorf("a call failed although no password was changed: %v", err)
						case err != nil:
							failed.Add(1)
						}
						moments.RUnlock()
					}
				})
			}
			next := func() {
				moments.Lock()
				defer moments.Unlock()
				moment++
				succeeded.Store(0)
			}
			work := func(what string) {
				t.Helper()
				for until := time.Now().Add(time.Minute); succeeded.Load() < 20; time.Sleep(time.Millisecond) {
					if time.Now().After(until) {
						t.Fatalf("nothing is written %s", what)
					}
				}
			}
			work("at first")
			for n := range 3 {
				next() // calls may fail
				change(fmt.Sprint("password", n))
				s.reset() // each call needs a new connection
				work("with a new password")
				next() // no more
				work("afterwards")
			}
			close(stop)
			writers.Wait()
			t.Logf("%d calls failed while passwords were changed", failed.Load())
			do("ALTER ROLE rotating PASSWORD 'no one knows'")
			s.reset()
			if err := bringIn(t.Context(), s, "refused"); grapnel.CodeOf(err) != grapnel.CodeUnavailable {
				t.Errorf("with the wrong password: %v", err)
			}
			change("last")
			if err := bringIn(t.Context(), s, "accepted"); err != nil {
				t.Errorf("after a wrong password: %v", err)
			}
			if found, err := Inspect(t.Context(), as(url, "rotating"), from); err != nil || found.Has == 0 {
				t.Errorf("inspecting with the password: %+v, %v", found, err)
			}
		})
	}
}

// setting is a setting of a server.
func setting(t *testing.T, pg *pgtest.Server, name string) string {
	t.Helper()
	value, err := pg.Ask(t.Context(), "SELECT current_setting('"+name+"')")
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestPasswordIsMissing: the error says where the password should have been, and shows nothing that
// a command printed.
func TestPasswordIsMissing(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, from := range map[string]Password{
		"no such file":   {File: "/nonexistent"},
		"it is empty":    {File: empty},
		"exit status":    {Command: "cat /nonexistent/hunter2"},
		"not found":      {Command: "grapnel-no-such-program"},
		"command is emp": {Command: " "},
	} {
		_, err := Open(t.Context(), blank(t), Options{Password: from})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", from, err)
		}
		if _, err := Inspect(t.Context(), blank(t), from); grapnel.CodeOf(err) != grapnel.CodeUnavailable {
			t.Errorf("inspecting with %+v: %v", from, err)
		}
	}
}

// TestLeastRights runs the short suite, sealed, with exactly the rights that docs/postgres.md gives
// to a role. PGTEST_BIN is the directory of the server's programs: `make prove` runs it on the oldest
// and the newest version.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sql, _ := strings.Cut(string(page), "```sql\n")
	sql, _, found := strings.Cut(sql, "```")
	role, rest, once := strings.Cut(sql, ";\n")
	above, inside, connects := strings.Cut(rest, "\\connect grapnel\n")
	if !found || !once || !connects || !strings.HasPrefix(role, "CREATE ROLE grapnel ") {
		t.Fatalf("the page has other statements than this test knows: %s", sql)
	}
	pg := pgtest.For(t, pgtest.Options{})
	if err := pg.Exec(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	fresh := func(t *testing.T) string {
		t.Helper()
		name := fmt.Sprintf("least%d", databases.Add(1))
		url := pg.URL(name)
		for statement := range strings.SplitSeq(strings.TrimSpace(above), ";\n") {
			if err := pg.Exec(t.Context(), strings.Replace(statement, "DATABASE grapnel", "DATABASE "+name, 1)); err != nil {
				t.Fatal(statement, err)
			}
		}
		on(t, url, func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), inside)
			return err
		})
		return as(url, "grapnel")
	}
	storetest.Short(t, harness(1, sealed(t), fresh))
	url := fresh(t)
	if is, err := Examine(t.Context(), url, Password{}); err != nil || !is.MayCreate {
		t.Errorf("doctor finds fault: %+v, %v", is, err)
	}
	on(t, url, func(conn *pgx.Conn) error {
		var super bool
		err := conn.QueryRow(t.Context(), `SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles
			WHERE rolname = current_user`).Scan(&super)
		if super {
			t.Error("the role has more rights than it should")
		}
		return err
	})
}
