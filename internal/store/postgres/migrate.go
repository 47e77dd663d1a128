package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
	"github.com/grapnelhq/grapnel/internal/store/schema"
)

// The schema is a row of steps forward, one file each, numbered from 1. A database knows which of
// them it has taken (grapnel_schema).
//
//go:embed migrations/*.sql
var migrations embed.FS

// Inspect returns the schema version of the database at url. It changes nothing.
func Inspect(ctx context.Context, url string, password Password) (schema.Status, error) {
	return alone(ctx, url, password, missing)
}

// Migrate applies the missing steps, and returns the earlier version.
func Migrate(ctx context.Context, url string, password Password) (schema.Status, error) {
	return alone(ctx, url, password, func(ctx context.Context, db rows.Queries, steps fs.FS) (schema.Status, error) {
		before, err := missing(ctx, db, steps)
		if err == nil {
			err = migrate(ctx, db, steps)
		}
		return before, err
	})
}

// alone runs a function with a connection of its own.
func alone(ctx context.Context, url string, password Password,
	do func(context.Context, rows.Queries, fs.FS) (schema.Status, error)) (schema.Status, error) {
	if err := Check(url); err != nil {
		return schema.Status{}, err
	}
	pool, err := pgxpool.ParseConfig(url) // it also accepts the settings of pools
	if err != nil {
		return schema.Status{}, err
	}
	config := pool.ConnConfig
	place := fmt.Sprintf("%s:%d %s", config.Host, config.Port, config.Database)
	limitConnecting(config, bounds.Fill(Conns{}).Patience)
	if !Unprepared(config) { // a pooler may be in between, and each statement is used once
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if err := (&passwords{from: password, bounds: bounds.Fill(PasswordBounds{})}).give(ctx, config); err != nil {
		return schema.Status{Place: place}, grapnel.Errorf(grapnel.CodeUnavailable, "the database cannot be used: %v", err)
	}
	var found schema.Status
	conn, err := pgx.ConnectConfig(ctx, config)
	if err == nil {
		found, err = do(ctx, conn, migrations)
		_ = conn.Close(context.WithoutCancel(ctx))
	}
	found.Place = place
	switch {
	case err == nil, decided(err), ctx.Err() != nil:
		return found, err
	case gone(err):
		return found, grapnel.Errorf(grapnel.CodeUnavailable, "the database cannot be used: %v", err)
	}
	return found, fmt.Errorf("%s: %w", place, err)
}

// missing returns how far a database is, and refuses one whose schema this program does not know.
func missing(ctx context.Context, db rows.Queries, files fs.FS) (schema.Status, error) {
	taken, err := stepsTaken(ctx, db)
	if err != nil {
		return schema.Status{}, err
	}
	return schema.Missing("", taken, files)
}

// migrate brings a database to the schema of this program. All steps commit together. If several
// nodes start at once, one of them applies the steps.
func migrate(ctx context.Context, db rows.Queries, files fs.FS) error {
	plan, err := missing(ctx, db, files)
	if err != nil || len(plan.Steps) == 0 {
		return err
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, $2)", lockClass, lockMigration); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, stepsTable); err != nil {
			return err
		}
		if plan, err = missing(ctx, tx, files); err != nil { // another node may have been faster
			return err
		}
		for _, step := range plan.Steps {
			if _, err := tx.Exec(ctx, step.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("step %d (%s): %w", step.Number, step.Name, err)
			}
			if _, err := tx.Exec(ctx, recordStep, step.Number, step.Name, step.Sum); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	stepsTable = "CREATE TABLE IF NOT EXISTS grapnel_schema (step integer PRIMARY KEY, name text NOT NULL, sum text NOT NULL)"
	recordStep = "INSERT INTO grapnel_schema (step, name, sum) VALUES ($1, $2, $3)"
	// takenQuery is good for any columns: unreleased builds stored neither name nor sum.
	takenQuery = `SELECT step, coalesce(j ->> 'name', ''), coalesce(j ->> 'sum', '') FROM grapnel_schema g CROSS JOIN to_jsonb(g) j ORDER BY step`
)

// stepsTaken are the steps that the database has taken. It refuses a database with tables that are
// not Grapnel's.
func stepsTaken(ctx context.Context, db rows.Queries) (all []schema.Taken, err error) {
	var there, others bool
	err = db.QueryRow(ctx, `SELECT to_regclass('grapnel_schema') IS NOT NULL,
		EXISTS (SELECT FROM pg_tables WHERE schemaname = current_schema())`).Scan(&there, &others)
	switch {
	case err != nil:
		return nil, err
	case there:
		var t schema.Taken
		err = rows.Ask(ctx, db, takenQuery).Each([]any{&t.Number, &t.Name, &t.Sum}, func() { all = append(all, t) })
		return all, err
	case others:
		return nil, grapnel.Errorf(grapnel.CodeConflict, "the database has tables of another program; Grapnel needs one of its own")
	}
	return nil, nil
}
