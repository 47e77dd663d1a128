package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The schema is a row of steps forward, one file each, numbered from 1. A database knows how many of them it has taken.
//
//go:embed migrations/*.sql
var migrations embed.FS

// Locks that are held for a transaction and have no row: the first number is the same for all of Grapnel's, so that they meet no others.
const (
	lockClass         = 0x6772706e // "grpn"
	lockConfiguration = 1          // shared by what is matched against configuration, alone for who changes it
	lockRemoval       = 2          // shared by what refers to deliveries that are over, alone for who removes them
	lockMigration     = 3
)

// migrate brings a database to the schema that this program knows. All steps commit together, and of several nodes that start at
// once one takes them.
func migrate(ctx context.Context, pool *pgxpool.Pool, steps fs.FS) error {
	files, err := fs.Glob(steps, "migrations/*.sql") // sorted
	if err != nil {
		return err
	}
	version, err := stepsTaken(ctx, pool)
	if err != nil {
		return err
	}
	if version > len(files) {
		return fmt.Errorf("the database was written by a newer Grapnel: its schema is number %d, this program knows %d", version, len(files))
	}
	if version == len(files) {
		return nil
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, $2)", lockClass, lockMigration); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS grapnel_schema (step integer PRIMARY KEY)"); err != nil {
			return err
		}
		if version, err = stepsTaken(ctx, tx); err != nil {
			return err
		}
		for i := version; i < len(files); i++ {
			step, err := fs.ReadFile(steps, files[i])
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(step), pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("%s: %w", files[i], err)
			}
			if _, err := tx.Exec(ctx, "INSERT INTO grapnel_schema VALUES ($1)", i+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// stepsTaken is how many steps the database has taken. Only Grapnel's tables may be in it.
func stepsTaken(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (steps int, err error) {
	var there, others bool
	err = db.QueryRow(ctx, `SELECT to_regclass('grapnel_schema') IS NOT NULL,
		EXISTS (SELECT FROM pg_tables WHERE schemaname = current_schema())`).Scan(&there, &others)
	switch {
	case err != nil:
		return 0, err
	case there:
		err = db.QueryRow(ctx, "SELECT coalesce(max(step), 0) FROM grapnel_schema").Scan(&steps)
		return steps, err
	case others:
		return 0, fmt.Errorf("the database has tables of another program; Grapnel needs one of its own")
	}
	return 0, nil
}
