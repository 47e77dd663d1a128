//go:build prove

package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// TestNoTableHasASecretInClear looks into the files of a PostgreSQL cluster, its log included.
// Without a master key the same search finds every canary. Two nodes with one master key understand
// each other, also about a tenant that only one of them has sealed for.
func TestNoTableHasASecretInClear(t *testing.T) {
	t.Chdir(t.TempDir()) // admin keys are written here
	all := slices.Sorted(maps.Keys(canaries()))
	master, path := masterFile(t, "a")
	for _, sealed := range []bool{false, true} {
		o := ofTwoNodes()
		if sealed {
			o.MasterKey = master
		}
		s, look := searched(t, &o)
		plant(t, s.client(t, testKey), "acme")
		if !sealed {
			look("without a master key", canaries(), all)
			continue
		}
		other := start(t, o)
		plant(t, other.client(t, testKey), "other")
		poll(t, "both nodes have all endpoints", func() bool {
			for _, node := range []running{s, other} {
				page, err := node.client(t, testKey).Endpoints(t.Context(), client.EndpointFilter{})
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Data) != 6 { // three of each tenant
					return false
				}
			}
			return true
		})
		look("sealed", canaries(), nil)
		lines(t, path, "b", "a")
		if k, err := other.client(t, testKey).RotateMasterKey(t.Context()); err != nil || k.Wrapped != 4 { // two tenants, the operator, and the database itself
			t.Errorf("%+v, %v", k, err)
		}
		plant(t, s.client(t, testKey), "late")
		for _, node := range []running{s, other} {
			if err := node.stop(); err != nil {
				t.Fatal(err)
			}
		}
		o.MasterKey = seal.Source{}
		if _, err := Open(t.Context(), o); err == nil {
			t.Error("a start without the master key was not refused")
		}
		o.MasterKey = master
		lines(t, path, "b")
		start(t, o)
	}
}

// ofTwoNodes are options that two nodes can share.
func ofTwoNodes() Options {
	o := options("")
	o.AdminKey, o.SessionKey, o.Lease = testKey, "a session key that two nodes share, and more", 3*time.Second
	return o
}

// searched starts a node on a PostgreSQL of its own, which becomes the options' store. look searches
// the files of that for texts.
func searched(t *testing.T, o *Options) (s running, look func(when string, texts map[string]string, want []string)) {
	t.Helper()
	db := pgtest.For(t, pgtest.Options{})
	var err error
	if o.Store, err = db.Create(t.Context(), "sealed"); err != nil {
		t.Fatal(err)
	}
	s = start(t, *o)
	uncompressed(t, o.Store)
	return s, func(when string, texts map[string]string, want []string) {
		t.Helper()
		if err := db.Exec(t.Context(), "CHECKPOINT"); err != nil {
			t.Fatal(err)
		}
		dir, err := db.Ask(t.Context(), "SELECT current_setting('data_directory')")
		if err != nil {
			t.Fatal(err)
		}
		if got, files := seen(t, dir, texts); !slices.Equal(got, want) || files < 100 {
			t.Errorf("%s: in %d files these are in clear: %q; want %q", when, files, got, want)
		}
	}
}

// uncompressed has a database keep every value as it is. The search finds no canary in a compressed
// one.
func uncompressed(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(t.Context(), `SELECT format('ALTER TABLE %s ALTER %I SET STORAGE EXTERNAL', attrelid::regclass, attname)
		FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
		WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND attnum > 0 AND attstorage = 'x'`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(all) < 20 {
		t.Fatal(len(all), err)
	}
	if _, err := conn.Exec(t.Context(), strings.Join(all, ";\n")); err != nil {
		t.Fatal(err)
	}
}

// TestADatabaseInClearIsSealed: no row is left in clear, and the server goes on.
func TestADatabaseInClearIsSealed(t *testing.T) {
	t.Chdir(t.TempDir()) // admin keys are written here
	o := options("")
	o.Store, o.AdminKey = databases(t, "clear").URL("clear"), testKey
	s := start(t, o)
	plant(t, s.client(t, testKey), "acme")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	o.MasterKey, _ = masterFile(t, "a")
	s = start(t, o)
	conn, err := pgx.Connect(t.Context(), o.Store)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, table := range []string{"endpoint", "source", "document", "api_key", "access_record", "policy", "event_type"} {
		var clear, all int
		query := "SELECT count(*) FILTER (WHERE substr(body, 1, 1) <> '\\xe5'), count(*) FROM " + table
		if err := conn.QueryRow(t.Context(), query).Scan(&clear, &all); err != nil || clear > 0 {
			t.Errorf("%d of %d rows of %s are in clear, %v", clear, all, table, err)
		}
	}
	var secret string
	if err := conn.QueryRow(t.Context(), "SELECT secret FROM peer").Scan(&secret); err != nil || !strings.HasPrefix(secret, "sealed:") {
		t.Errorf("the nodes' secret is in clear, %v", err)
	}
	if _, err := s.client(t, testKey).Publish(t.Context(), client.NewEvent{Tenant: "acme", Type: "a.b", Data: []byte(`{}`)}); err != nil {
		t.Error(err)
	}
}

// TestNoTableHasAPayloadInClear looks into the files of a PostgreSQL cluster, as
// TestNoTableHasASecretInClear does. A second node without the setting shows what the first has
// sealed.
func TestNoTableHasAPayloadInClear(t *testing.T) {
	t.Chdir(t.TempDir()) // admin keys are written here
	master, _ := masterFile(t, "a")
	for _, seals := range []bool{false, true} {
		o := ofTwoNodes()
		o.MasterKey, o.SealPayloads = master, seals
		s, look := searched(t, &o)
		is := plantPayloads(t, s, "acme")
		var want []string
		if !seals {
			want = slices.Sorted(maps.Keys(payloads()))
		}
		look(fmt.Sprintf("sealed %v", seals), payloads(), want)
		o.SealPayloads = !seals
		other := start(t, o)
		showsPayloads(t, other, "acme", is)
		for _, node := range []running{other, s} {
			if err := node.stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
