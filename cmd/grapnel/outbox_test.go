//go:build prove

package main

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/inbound/relay/mariadbtest"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/outbox"
)

// TestOutboxCommands: installing, looking and removing, each of them twice.
func TestOutboxCommands(t *testing.T) {
	server := pgtest.For(t, pgtest.Options{})
	dsn, err := server.Create(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Exec(t.Context(), `CREATE ROLE "the app"`); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte(dsn+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	step := func(code int, says string, args ...string) result {
		t.Helper()
		r := invoke(t, map[string]string{"GRAPNEL_OUTBOX_DSN_FILE": file}, "", append([]string{"outbox"}, args...)...)
		if r.code != code || !strings.Contains(r.out+r.errs, says) {
			t.Errorf("grapnel outbox %s: exit %d, %s%s", strings.Join(args, " "), r.code, r.out, r.errs)
		}
		return r
	}
	step(3, "grapnel outbox install creates one", "status")
	step(0, "created the schema grapnel with an outbox, version 1", "install", "--dsn", dsn)
	step(0, "was installed already", "install", "--dsn", "@"+file, "--publisher", "the app", "--relay", "the app")
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if err := outbox.PublishPgx(t.Context(), conn, outbox.Event{Type: "a.b", Data: []byte(`1`)}); err != nil {
		t.Fatal(err)
	}
	var may bool
	if err := conn.QueryRow(t.Context(), `SELECT has_schema_privilege('the app', 'grapnel', 'usage')`).Scan(&may); err != nil || !may {
		t.Errorf("the role has no right: %v", err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	step(0, `"waiting": 1`, "status", "-o", "json")
	step(2, "stdin is not a terminal: Remove the outbox from", "uninstall")
	step(0, "with 1 events that were not relayed", "uninstall", "--yes")
	step(3, "has no outbox", "uninstall", "--yes")
}

// TestOutboxCommandsOfMySQL: the same in MariaDB, whose own client takes the printed SQL.
func TestOutboxCommandsOfMySQL(t *testing.T) {
	server := mariadbtest.For(t)
	dsn, err := server.Create(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Exec(t.Context(), "CREATE USER app", "CREATE DATABASE printed"); err != nil {
		t.Fatal(err)
	}
	step := func(code int, says string, args ...string) result {
		t.Helper()
		r := invoke(t, map[string]string{"GRAPNEL_OUTBOX_DSN": dsn}, "", append([]string{"outbox"}, args...)...)
		if r.code != code || !strings.Contains(r.out+r.errs, says) || strings.Contains(r.out+r.errs, mariadbtest.Password) {
			t.Errorf("grapnel outbox %s: exit %d, %s%s", strings.Join(args, " "), r.code, r.out, r.errs)
		}
		return r
	}
	step(3, "grapnel outbox install creates one", "status")
	step(0, "orders: created an outbox, version 1", "install")
	step(0, "was installed already, version 1; may publish: app", "install", "--publisher", "app", "--relay", "app@%")
	db, err := sql.Open("mysql", server.Driver("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := outbox.PublishMySQL(t.Context(), db, outbox.Event{Type: "a.b", Data: []byte(`1`)}); err != nil {
		t.Fatal(err)
	}
	step(0, `"waiting": 1`, "status", "-o", "json")
	step(0, "removed the outbox, with 1 events that were not relayed", "uninstall", "--yes")
	step(3, "has no outbox", "status")
	step(2, "--print", "install", "--mysql")

	printed := step(0, "GRANT EXECUTE ON PROCEDURE grapnel_publish TO `app`@`%`;", "install", "--print", "--mysql", "--publisher", "app")
	client := exec.CommandContext(t.Context(), "mariadb", "--no-defaults", "--socket="+server.Socket(), "-uroot", "printed")
	client.Stdin = strings.NewReader(printed.out + "CALL grapnel_publish('a.b', '1', 'k', NULL, NULL, NULL);\nSELECT count(*) FROM grapnel_outbox;\n")
	if said, err := client.CombinedOutput(); err != nil || !strings.Contains(string(said), "count(*)\n1\n") {
		t.Errorf("%v: %s", err, said)
	}
}

// TestOutboxCommandsWithoutADatabase: what they print and what they refuse.
func TestOutboxCommandsWithoutADatabase(t *testing.T) {
	printed := invoke(t, nil, "", "outbox", "install", "--print", "--publisher", `a"b`)
	if printed.code != 0 || !strings.HasPrefix(printed.out, outbox.InstallSQL()) || !strings.Contains(printed.out, `GRANT USAGE ON SCHEMA grapnel TO "a""b";`) {
		t.Errorf("printed %d %s", printed.code, printed.errs)
	}
	for args, says := range map[string]string{
		"outbox status": "give --dsn, or set GRAPNEL_OUTBOX_DSN",
		"outbox status --dsn postgres://u:hunter2@db:x/orders": "postgres://user:password@host",
		"outbox status --dsn mysql://u:hunter2@db":             "mysql://user:password@host",
	} {
		r := invoke(t, nil, "", strings.Fields(args)...)
		if r.code != 2 || !strings.Contains(r.errs, says) || strings.Contains(r.out+r.errs, "hunter2") {
			t.Errorf("%s: exit %d, %s%s", args, r.code, r.out, r.errs)
		}
	}
	if r := invoke(t, nil, "", "outbox", "status", "--dsn", "postgres://u:hunter2@127.0.0.1:1/orders"); r.code != 6 || strings.Contains(r.out+r.errs, "hunter2") {
		t.Errorf("where nobody listens: exit %d, %s", r.code, r.errs)
	}
}

// TestSourcesCreateWithOutbox: the DSN goes to the server, and how the relay is doing comes back.
func TestSourcesCreateWithOutbox(t *testing.T) {
	f := newFake(t, always(201, `{"id":"src_1","name":"orders","tenant":"default","status":"enabled","ingest_url":null,"outbox":{"place":"db:5432 orders","state":"away","since":null,`+
		`"detail":"the database is starting up","lag":"3s","seen_at":null,"last_event_at":null,"events":0,"set_aside":0},"created_at":"2026-01-02T03:04:05Z"}`))
	r := invoke(t, f.env(), "postgres://u:p@db/orders\n", "sources", "create", "orders", "--outbox", "-")
	if len(f.seen) != 1 || f.seen[0].Body != `{"name":"orders","outbox":{"dsn":"postgres://u:p@db/orders"}}` {
		t.Errorf("asked %+v", f.seen)
	}
	for _, says := range []string{"db:5432 orders", "away", "the database is starting up", "3s"} {
		if r.code != 0 || !strings.Contains(r.out, says) {
			t.Errorf("it does not say %q: %d %s%s", says, r.code, r.out, r.errs)
		}
	}
	if r := invoke(t, f.env(), "", "sources", "create", "orders"); r.code != 2 || !strings.Contains(r.errs, "--scheme or --outbox") {
		t.Errorf("without either: exit %d, %s", r.code, r.errs)
	}
}
