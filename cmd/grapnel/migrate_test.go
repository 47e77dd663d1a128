//go:build prove

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// TestMigrate goes with both stores from nothing to a database that a server uses, and to one that
// a newer program has written.
func TestMigrate(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(t *testing.T) (store string, newer func())
	}{{"sqlite", inFile}, {"postgres", inPostgres}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(t.TempDir()) // where the admin key goes with PostgreSQL
			at, newer := tc.make(t)
			config := filepath.Join(t.TempDir(), "grapnel.yaml")
			if err := os.WriteFile(config, []byte("store: "+strconv.Quote(at)+"\nretention: 24h\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			step := func(code int, says string, args ...string) result {
				t.Helper()
				r := invoke(t, map[string]string{"GRAPNEL_STORE": at}, "", append([]string{"migrate"}, args...)...)
				if r.code != code || !strings.Contains(r.out+r.errs, says) {
					t.Errorf("grapnel migrate %s: exit %d, %s%s", strings.Join(args, " "), r.code, r.out, r.errs)
				}
				return r
			}
			if got := invoke(t, nil, "", "migrate", "status", "--config", config, "--jq", ".schema"); got.code != 0 || got.out != "0\n" {
				t.Errorf("with a config file: %+v", got)
			}
			step(0, "empty", "status")
			step(0, "schema", "plan")
			step(0, "schema\n", "plan", "-o", "name")
			step(0, "empty", "status") // nothing has changed
			step(0, "brought from schema 0 to", "up")
			step(0, "up to date", "up")
			step(0, `"steps": []`, "plan", "-o", "json")
			if got := step(0, "up to date", "status", "--store", at); got.errs != "" {
				t.Errorf("it says %s", got.errs)
			}

			p := launch(t, map[string]string{"GRAPNEL_ADMIN_KEY": adminKey}, "serve", "--listen", "127.0.0.1:0", "--store", at)
			step(0, "up to date", "status")
			if tc.name == "sqlite" {
				step(5, "in use by another process", "up")
			} else {
				step(0, "up to date", "up")
			}
			if got := p.stop(); got.code != 0 {
				t.Fatalf("%+v", got)
			}

			newer()
			for _, args := range [][]string{{"status"}, {"plan"}, {"up"}} {
				step(5, "written by a newer Grapnel: its schema is number 99", args...)
			}
			if got := step(5, `"code":"conflict"`, "status", "-o", "json"); got.out != "" {
				t.Errorf("it prints %s", got.out)
			}
			if got := invoke(t, nil, "", "serve", "--listen", "127.0.0.1:0", "--store", at); got.code != 5 || !strings.Contains(got.errs, "newer Grapnel") {
				t.Errorf("serve: %+v", got)
			}
		})
	}
}

func TestMigrateRefuses(t *testing.T) {
	for args, want := range map[string]int{
		"migrate up --store mysql://x":                                    2,
		"migrate status --store postgres://u:hunter2@127.0.0.1:1/grapnel": 6,
		"migrate up --store postgres://u:hunter2@127.0.0.1:1/grapnel":     6,
		"migrate sideways": 2,
	} {
		if got := invoke(t, nil, "", strings.Fields(args)...); got.code != want || strings.Contains(got.out+got.errs, "hunter2") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// laterStep lets a database have taken a step that this program does not know.
const laterStep = "INSERT INTO grapnel_schema VALUES (99, 'later', '')"

func inFile(t *testing.T) (string, func()) {
	path := filepath.Join(t.TempDir(), "data", "grapnel.db")
	return "sqlite:" + path, func() {
		conn, err := sqlite3.Open(path, sqlite3.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(conn.Exec(laterStep), conn.Close()); err != nil {
			t.Error(err)
		}
	}
}

func inPostgres(t *testing.T) (string, func()) {
	server := postgres(t)
	url, err := server.Create(t.Context(), "grapnel")
	if err != nil {
		t.Fatal(err)
	}
	return url, func() {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), laterStep); err != nil {
			t.Error(err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// postgres starts one of this test's own.
func postgres(t *testing.T) *pgtest.Server {
	t.Helper()
	server := pgtest.For(t, pgtest.Options{})
	return server
}
