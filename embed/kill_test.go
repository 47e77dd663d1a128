//go:build prove && linux

package embed_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the program's own database

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/embed"
	"github.com/grapnelhq/grapnel/internal/inbound/relay/mariadbtest"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// The environment of the program that is killed: the store, the outbox, the driver and its DSN, the
// address of the receiver and the number of the round.
const programKey = "grp_embed-only-on-loopback"

var settings = []string{"EMBED_STORE", "EMBED_OUTBOX", "EMBED_DRIVER", "EMBED_DSN", "EMBED_RECEIVER", "EMBED_ROUND"}

func TestMain(m *testing.M) {
	if os.Getenv(settings[0]) != "" {
		if err := program(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// program publishes in transactions until it is killed; every third one is rolled back. In the round
// "last" it only delivers.
func program(ctx context.Context) error {
	env := map[string]string{}
	for _, name := range settings {
		env[name] = os.Getenv(name)
	}
	g, err := embed.Open(ctx, embed.Options{Store: env["EMBED_STORE"], Outbox: env["EMBED_OUTBOX"], Key: programKey, EgressAllow: loopback})
	if err != nil {
		return err
	}
	round := env["EMBED_ROUND"]
	if round == "0" {
		if _, err := g.Client().CreateEndpoint(ctx, client.NewEndpoint{URL: env["EMBED_RECEIVER"], EventTypes: []string{"order.*"}}); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	if round == "last" {
		<-g.Done()
		return g.Close()
	}
	own, err := sql.Open(env["EMBED_DRIVER"], env["EMBED_DSN"])
	if err != nil {
		return err
	}
	insert := "INSERT INTO orders VALUES ($1)"
	if env["EMBED_DRIVER"] == "mysql" {
		insert = "INSERT INTO orders VALUES (?)"
	}
	for n := 1; ; n++ {
		if err := order(ctx, g, own, insert, round, n); err != nil {
			return err
		}
		fmt.Println("order", n)
	}
}

func order(ctx context.Context, g *embed.Grapnel, own *sql.DB, insert, round string, n int) error {
	id := fmt.Sprintf("%s-%d", round, n)
	if n%3 == 0 {
		id += "-back"
	}
	tx, err := own.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, insert, id); err != nil {
		return err
	}
	if err := g.PublishTx(ctx, tx, embed.Event{Type: "order.paid", Key: "k", Data: fmt.Appendf(nil, "%q", id)}); err != nil {
		return err
	}
	if n%3 == 0 {
		return tx.Rollback()
	}
	return tx.Commit()
}

// TestKilledBetweenCommitAndDelivery: a program that is killed at any moment, again and again,
// delivers every event whose transaction committed, and none of another one.
func TestKilledBetweenCommitAndDelivery(t *testing.T) {
	rounds := 12
	if os.Getenv("GRAPNEL_SOAK") != "" {
		rounds = 1000
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		file := filepath.Join(dir, "shop.db")
		killed(t, rounds, "sqlite:"+filepath.Join(dir, "grapnel.db"), "sqlite:"+file, "sqlite", file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		store, shop := databases(t)
		killed(t, rounds, store, shop, "pgx", shop)
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		own := mariadbtest.For(t)
		shop, err := own.Create(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		killed(t, rounds, "sqlite:"+filepath.Join(t.TempDir(), "grapnel.db"), shop, "mysql", own.Driver("shop"))
	})
}

// databases are one for Grapnel and one of the program.
func databases(t *testing.T) (store, shop string) {
	t.Helper()
	pg, err := pgtest.Start(context.Background(), pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(); err != nil {
			t.Error(err)
		}
	})
	store, err = pg.Create(t.Context(), "store")
	if err == nil {
		shop, err = pg.Create(t.Context(), "shop")
	}
	if err != nil {
		t.Fatal(err)
	}
	return store, shop
}

func killed(t *testing.T, rounds int, store, outbox, driver, dsn string) {
	own, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	if _, err := own.ExecContext(t.Context(), "CREATE TABLE orders (id VARCHAR(64))"); err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t)
	dir := t.TempDir()
	run := func(round string) (lines *bufio.Scanner, kill func()) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		for i, value := range []string{store, outbox, driver, dsn, r.URL, round} {
			cmd.Env = append(cmd.Env, settings[i]+"="+value)
		}
		var words strings.Builder
		cmd.Stderr = &words
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = bufio.NewScanner(out)
		if !lines.Scan() {
			_ = cmd.Wait()
			t.Fatalf("round %s did not begin: %s", round, words.String())
		}
		return lines, func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if words.Len() > 0 {
				t.Errorf("round %s: %s", round, words.String())
			}
		}
	}
	for round := range rounds {
		lines, kill := run(fmt.Sprint(round))
		for range 1 + rand.IntN(6) { // so it dies at another point of its work each time
			lines.Scan()
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // of the relay's and of the delivery's, too
		kill()
	}
	_, kill := run("last")
	defer kill()
	want := committed(t, own)
	until(t, "all that was committed arrives", func() bool {
		got := r.all()
		return len(got) >= len(want)
	})
	if got := r.all(); !slices.Equal(got, want) {
		t.Errorf("%d arrived, %d were committed\n%q\n%q", len(got), len(want), got, want)
	}
	t.Logf("%d kills, %d committed events, all delivered", rounds, len(want))
}

// committed are the data of the events whose transactions committed, sorted.
func committed(t *testing.T, own *sql.DB) (all []string) {
	t.Helper()
	rows, err := own.QueryContext(t.Context(), "SELECT id FROM orders")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%q", id))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// TestTransactionsOfPostgres is TestTransactions with PostgreSQL as the store and the program's own
// database, by database/sql.
func TestTransactionsOfPostgres(t *testing.T) {
	store, shop := databases(t)
	own, err := sql.Open("pgx", shop)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	if _, err := own.ExecContext(t.Context(), "CREATE TABLE orders (id VARCHAR(64))"); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // the session key is written beside it
	transactions(t, embed.Options{Store: store, Outbox: shop, Key: programKey}, own, "$1")
}
