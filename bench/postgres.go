//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// tuned are usual settings of a production database; those of durability keep their defaults.
var tuned = map[string]string{"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "5min"}

func startDatabase(ctx context.Context, dir string) (*database, error) {
	// The server does not run as root, and must be able to reach its own directory.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	server, err := pgtest.Start(ctx, pgtest.Options{Parent: dir, Settings: tuned})
	if err != nil {
		return nil, err
	}
	url, err := server.Create(ctx, "grapnel")
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	d := &database{server: server, url: url}
	if d.main, err = d.find(ctx); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return d, nil
}

// find finds the server's main process as the parent of a session's process.
func (d *database) find(ctx context.Context) (main int, err error) {
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var one int
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&one); err != nil {
		return 0, err
	}
	p, err := lookAt(one)
	return p.parent, err
}

// cpu is the processor time that all processes of the server have used, ended ones included.
// Without a database it is 0.
func (d *database) cpu() (sum time.Duration, err error) {
	if d == nil {
		return 0, nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, err := lookAt(pid)
		switch {
		case err != nil: // it has ended meanwhile
		case pid == d.main:
			sum += p.used + p.ended
		case p.parent == d.main:
			sum += p.used
		}
	}
	return sum, nil
}

// used is the processor time of a side, with that of its database.
func (b *bench) used(x *side) (time.Duration, error) {
	used, err := x.cpu()
	if err != nil || x != b.sides[1] {
		return used, err
	}
	more, err := b.database.cpu()
	return used + more, err
}

// effort is the database's work since it was created.
type effort struct {
	wal, commits, rows float64
	delivered          float64
}

// effort asks the database, and the server for the number of deliveries.
func (d *database) effort(ctx context.Context, addr string) (e effort, err error) {
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return e, err
	}
	err = conn.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8, xact_commit::float8,
		(tup_inserted + tup_updated + tup_deleted)::float8 FROM pg_stat_database WHERE datname = current_database()`).Scan(&e.wal, &e.commits, &e.rows)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return e, err
	}
	e.delivered, err = delivered(ctx, addr)
	return e, err
}

// delivered reads the number of finished deliveries from the server.
func delivered(ctx context.Context, addr string) (sum float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "} "); ok && strings.HasPrefix(name, "grapnel_deliveries_total{") {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, lines.Err()
}

// compareEffort prints the database's cost of a delivery.
func (b *bench) compareEffort(before, after effort) {
	n := after.delivered - before.delivered
	b.say("")
	b.say("database  per delivery: %.0f bytes of write-ahead log, %.3f commits, %.2f rows written (over %.0f deliveries)",
		(after.wal-before.wal)/n,
		(after.commits-before.commits)/n, (after.rows-before.rows)/n, n)
}

func (b *bench) postgresSettings() string {
	return fmt.Sprintf("PostgreSQL with shared_buffers %s and max_wal_size %s, else as it comes", tuned["shared_buffers"],
		tuned["max_wal_size"])
}

func (b *bench) say(format string, args ...any) { _, _ = fmt.Fprintf(b.out, format+"\n", args...) }
