package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/outbox"
)

// Script is the SQL that makes an outbox, or brings an older one up to date, and gives rights.
func Script(r Rights) string {
	var b strings.Builder
	b.WriteString(outbox.InstallSQL())
	for _, role := range r.Publishers {
		fmt.Fprintf(&b, "\nGRANT USAGE ON SCHEMA grapnel TO %s; -- every role that may use the schema may publish\n",
			pgx.Identifier{role}.Sanitize())
	}
	for _, role := range r.Relays {
		fmt.Fprintf(
			&b,
			"\nGRANT USAGE ON SCHEMA grapnel TO %[1]s;\nGRANT SELECT, DELETE ON grapnel.outbox_event, grapnel.outbox_commit TO %[1]s;\n"+
				"GRANT SELECT ON grapnel.outbox_installation, grapnel.outbox_commit_number TO %[1]s;\nGRANT SELECT, UPDATE ON grapnel.outbox_sleeper TO %[1]s;\n",
			pgx.Identifier{role}.Sanitize(),
		)
	}
	return b.String()
}

// Inspect describes the outbox in a database.
func Inspect(ctx context.Context, dsn string) (Installation, error) {
	if KindOf(dsn) == MySQL {
		return withinMySQL(ctx, dsn, inspectMySQL)
	}
	return within(ctx, dsn, inspect)
}

// Install creates an outbox, or upgrades an older one, and returns the earlier state.
func Install(ctx context.Context, dsn string, r Rights) (Installation, error) {
	if KindOf(dsn) == MySQL {
		return installMySQL(ctx, dsn, r)
	}
	return within(ctx, dsn, func(ctx context.Context, tx pgx.Tx) (Installation, error) {
		before, err := inspect(ctx, tx)
		if err != nil {
			return before, err
		}
		if before.Version > outbox.Version {
			return before, errNewer(before.Version)
		}
		_, err = tx.Exec(ctx, Script(r), pgx.QueryExecModeSimpleProtocol)
		return before, err
	})
}

// Prepare creates the outbox that a DSN names, or brings an older one up to date. file is the path
// of an SQLite database; empty: it is in another one.
func Prepare(ctx context.Context, dsn string) (file string, err error) {
	if KindOf(dsn) != SQLite {
		_, err = Install(ctx, dsn, Rights{})
		return "", err
	}
	file = filePath(dsn)
	if err := checkFile(file); err != nil {
		return "", grapnel.Errorf(grapnel.CodeInvalid, "%v", err)
	}
	b, err := openFile(file, Bounds{})
	if err != nil {
		return "", err
	}
	return file, b.Close()
}

// Uninstall removes an outbox and returns the earlier state. If it holds more events than the
// caller expects, nothing is removed.
func Uninstall(ctx context.Context, dsn string, expect int64) (Installation, error) {
	if KindOf(dsn) == MySQL {
		return uninstallMySQL(ctx, dsn, expect)
	}
	return within(ctx, dsn, func(ctx context.Context, tx pgx.Tx) (Installation, error) {
		before, err := inspect(ctx, tx)
		if err != nil || before.Version == 0 {
			return before, err
		}
		const lock = "SET LOCAL lock_timeout = '10s'; LOCK TABLE grapnel.outbox_event, grapnel.outbox_commit"
		if _, err := tx.Exec(ctx, lock, pgx.QueryExecModeSimpleProtocol); err != nil {
			return before, err
		}
		if before, err = inspect(ctx, tx); err != nil {
			return before, err
		}
		if before.Waiting > expect {
			return before, errMore(before.Waiting)
		}
		_, err = tx.Exec(ctx, outbox.UninstallSQL(), pgx.QueryExecModeSimpleProtocol)
		return before, err
	})
}

// within connects and does something in one transaction.
func within(ctx context.Context, dsn string, do func(context.Context, pgx.Tx) (Installation, error)) (found Installation, err error) {
	config, err := parse(dsn)
	if err != nil {
		return found, grapnel.Errorf(grapnel.CodeInvalid, "%v", err)
	}
	if !postgres.Unprepared(config) { // a pooler may stand between, and each statement is used once
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return found, grapnel.Errorf(grapnel.CodeUnavailable, "using the database failed: %v", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
		found, err = do(ctx, tx)
		return err
	})
	found.Place = Place(dsn)
	return found, err
}

func inspect(ctx context.Context, tx pgx.Tx) (i Installation, err error) {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass('grapnel.outbox_installation') IS NOT NULL`).Scan(&there); err != nil || !there {
		return i, err
	}
	const look = `SELECT version, installed_at, (SELECT count(*) FROM grapnel.outbox_event),
  coalesce((SELECT extract(epoch FROM clock_timestamp() - min(committed_at)) FROM grapnel.outbox_commit), 0)::float8,
  (SELECT last_value FROM grapnel.outbox_sleeper) > extract(epoch FROM clock_timestamp()) * 1000
FROM grapnel.outbox_installation`
	var oldest float64
	err = tx.QueryRow(ctx, look).Scan(&i.Version, &i.InstalledAt, &i.Waiting, &oldest, &i.Asleep)
	i.Oldest = time.Duration(oldest * float64(time.Second))
	return i, err
}
