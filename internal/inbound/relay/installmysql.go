package relay

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/outbox"
)

// grantsMySQL are the statements that give rights. A user without a host is one of any host.
func grantsMySQL(r Rights) (all []string) {
	name := func(user string) string {
		user, host, is := strings.Cut(user, "@")
		if !is {
			host = "%"
		}
		quote := func(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }
		return quote(user) + "@" + quote(host)
	}
	for _, user := range r.Publishers {
		all = append(all, "GRANT EXECUTE ON PROCEDURE grapnel_publish TO "+name(user))
	}
	for _, user := range r.Relays {
		all = append(all, "GRANT SELECT, DELETE ON grapnel_outbox TO "+name(user))
	}
	return all
}

// ScriptMySQL is the SQL that makes an outbox in MySQL or MariaDB, and gives rights, for the client
// that is called mysql or mariadb.
func ScriptMySQL(r Rights) string {
	var b strings.Builder
	b.WriteString(outbox.InstallMySQLScript())
	for _, statement := range grantsMySQL(r) {
		fmt.Fprintf(&b, "\n%s;\n", statement)
	}
	return b.String()
}

// withinMySQL connects and does something. Statements that change a schema are transactions of
// their own there.
func withinMySQL(
	ctx context.Context, dsn string, do func(context.Context, *sql.Conn) (Installation, error),
) (found Installation, err error) {
	db, err := dialMySQL(dsn, new(net.Dialer).DialContext)
	if err != nil {
		return found, grapnel.Errorf(grapnel.CodeInvalid, "%v", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return found, grapnel.Errorf(grapnel.CodeUnavailable, "using the database failed: %v", err)
	}
	found, err = do(ctx, conn)
	found.Place = Place(dsn)
	return found, errors.Join(err, conn.Close())
}

func inspectMySQL(ctx context.Context, conn *sql.Conn) (i Installation, err error) {
	const there = `SELECT count(*) FROM information_schema.tables
  WHERE table_schema = database() AND table_name = 'grapnel_outbox_installation'`
	var tables int
	if err := conn.QueryRowContext(ctx, there).Scan(&tables); err != nil || tables == 0 {
		return i, err
	}
	const look = `SELECT version, installed_at, (SELECT count(*) FROM grapnel_outbox),
  coalesce((SELECT timestampdiff(MICROSECOND, min(published_at), utc_timestamp(6)) FROM grapnel_outbox), 0)
FROM grapnel_outbox_installation`
	var oldest int64
	err = conn.QueryRowContext(ctx, look).Scan(&i.Version, &i.InstalledAt, &i.Waiting, &oldest)
	i.Oldest = time.Duration(oldest) * time.Microsecond
	return i, err
}

// installMySQL creates missing parts. It changes no existing ones: a procedure that is created
// again loses the rights that were given to it.
func installMySQL(ctx context.Context, dsn string, r Rights) (Installation, error) {
	return withinMySQL(ctx, dsn, func(ctx context.Context, conn *sql.Conn) (Installation, error) {
		before, err := inspectMySQL(ctx, conn)
		if err != nil {
			return before, err
		}
		if before.Version > outbox.Version {
			return before, errNewer(before.Version)
		}
		statements := grantsMySQL(r)
		if before.Version == 0 {
			statements = append(outbox.InstallMySQL(), statements...)
		}
		return before, each(ctx, conn, statements)
	})
}

func uninstallMySQL(ctx context.Context, dsn string, expect int64) (Installation, error) {
	return withinMySQL(ctx, dsn, func(ctx context.Context, conn *sql.Conn) (before Installation, err error) {
		if before, err = inspectMySQL(ctx, conn); err != nil || before.Version == 0 {
			return before, err
		}
		// The connection ends with the function, and its locks with it.
		const lock = "LOCK TABLES grapnel_outbox WRITE, grapnel_outbox_place WRITE, grapnel_outbox_installation WRITE"
		if err := each(ctx, conn, []string{"SET SESSION lock_wait_timeout = 10", lock}); err != nil {
			return before, err
		}
		if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM grapnel_outbox").Scan(&before.Waiting); err != nil {
			return before, err
		}
		if before.Waiting > expect {
			return before, errMore(before.Waiting)
		}
		statements := outbox.UninstallMySQL()
		return before, each(ctx, conn, append([]string{statements[0], "UNLOCK TABLES"}, statements[1:]...))
	})
}

func each(ctx context.Context, conn *sql.Conn, statements []string) error {
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
