package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/proof/torture"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// probing are the flags of a probe.
type probing struct {
	url, dsn, command string
	queries           []string
}

// open makes the probe that the flags ask for; nil: none. end closes it.
func (p *probing) open(ctx context.Context, w *cli.World) (probe torture.Probe, end func(), err error) {
	end = func() {}
	switch {
	case p.url != "":
		return torture.HTTPProbe{URL: p.url}, end, nil
	case p.command != "":
		return commandProbe(p.command), end, nil
	case len(p.queries) == 0:
		return nil, end, nil
	}
	if p.dsn == "" {
		if p.dsn, err = w.SecretVariable("GRAPNEL_TORTURE_DSN"); err != nil {
			return nil, nil, err
		}
	}
	q := &queryProbe{}
	for _, query := range p.queries {
		if strings.Contains(query, "{key}") {
			q.byKey = query
		} else {
			q.byEvent = query
		}
	}
	switch {
	case p.dsn == "":
		return nil, nil, cli.Usagef("--probe-sql needs a database: give --dsn, or set GRAPNEL_TORTURE_DSN")
	case q.byEvent == "":
		return nil, nil, cli.Usagef("--probe-sql: one query must be for {event}")
	case strings.HasPrefix(p.dsn, "postgres://"), strings.HasPrefix(p.dsn, "postgresql://"):
		config, err := pgx.ParseConfig(p.dsn)
		if err != nil {
			return nil, nil, cli.Usagef("--dsn is not a PostgreSQL URL")
		}
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return nil, nil, fmt.Errorf("--dsn: %w", err)
		}
		q.row = postgresRow(conn)
		return q, func() { _ = conn.Close(context.WithoutCancel(ctx)) }, nil
	}
	file := &sqliteFile{path: strings.TrimPrefix(p.dsn, "sqlite:")}
	q.row = file.row
	return q, file.close, nil
}

// commandProbe is a shell command that prints effects.
type commandProbe string

// Keys implements torture.Probe.
func (p commandProbe) Keys() bool { return strings.Contains(string(p), "{key}") }

// Read implements torture.Probe. Ids and keys have no character that a shell treats specially.
func (p commandProbe) Read(ctx context.Context, event, key string) (torture.Reading, error) {
	text := strings.NewReplacer("{event}", event, "{id}", event, "{key}", key).Replace(string(p))
	out, err := exec.CommandContext(ctx, "sh", "-c", text).Output() //nolint:gosec // the user's own command
	if err != nil {
		return torture.Reading{}, err
	}
	return torture.ParseReading(out)
}

// queryProbe reads one row: effects, and if there are more columns, version, state and amount.
type queryProbe struct {
	byEvent, byKey string
	mu             sync.Mutex // one query at a time
	row            func(ctx context.Context, query, value string) ([]string, error)
}

// Keys implements torture.Probe.
func (p *queryProbe) Keys() bool { return p.byKey != "" }

// Read implements torture.Probe.
func (p *queryProbe) Read(ctx context.Context, event, key string) (torture.Reading, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	query, value := p.byEvent, event
	if key != "" {
		query, value = p.byKey, key
	}
	values, err := p.row(ctx, strings.NewReplacer("{event}", "$1", "{id}", "$1", "{key}", "$1").Replace(query), value)
	if err != nil {
		return torture.Reading{}, err
	}
	if len(values) == 0 { // no row: no effect
		return torture.Reading{}, nil
	}
	values = append(values, "", "", "")
	effects, err := strconv.Atoi(values[0])
	if err != nil {
		return torture.Reading{}, fmt.Errorf("the first column is %q, and not the number of effects", values[0])
	}
	return torture.Reading{Effects: effects, Version: values[1], State: values[2], Amount: values[3]}, nil
}

// postgresRow runs queries with the values as text.
func postgresRow(conn *pgx.Conn) func(ctx context.Context, query, value string) ([]string, error) {
	return func(ctx context.Context, query, value string) ([]string, error) {
		rows, err := conn.Query(ctx, query, pgx.QueryExecModeSimpleProtocol, value) // columns come as text
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var values []string
		if rows.Next() {
			for _, raw := range rows.RawValues() {
				values = append(values, string(raw))
			}
		}
		rows.Close()
		return values, rows.Err()
	}
}

// sqliteFile is an SQLite file that is opened at the first query: the receiver may create it.
type sqliteFile struct {
	path string
	conn *sqlite3.Conn
}

const columns = 4 // that a query may have

func (f *sqliteFile) row(_ context.Context, query, value string) (values []string, err error) {
	if f.conn == nil {
		if f.conn, err = sqlite3.Open(f.path, sqlite3.ReadOnly); err != nil {
			return nil, err
		}
	}
	q, err := f.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	found, err := q.Text(value).Next()
	if err != nil || !found {
		return nil, err
	}
	defer q.Reset()
	for i := range columns {
		values = append(values, q.String(i)) // empty beyond the last one
	}
	return values, nil
}

func (f *sqliteFile) close() {
	if f.conn != nil {
		_ = f.conn.Close()
	}
}
