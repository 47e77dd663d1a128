package outbox

import (
	"context"
	"database/sql"
	_ "embed" // the SQL
	"fmt"
	"strings"
)

//go:embed install_mysql.sql
var installMySQL string

// InstallMySQL is the SQL that creates the outbox in a MySQL or MariaDB database: statements, each
// for a call of its own. "grapnel outbox install" runs the same. It can be repeated.
func InstallMySQL() []string {
	var all []string
	for _, statement := range strings.Split(installMySQL, "\n//\n") {
		statement = strings.TrimSpace(strings.NewReplacer("DELIMITER //\n", "", "DELIMITER ;\n", "").Replace(statement))
		if statement != "" {
			all = append(all, statement)
		}
	}
	return all
}

// InstallMySQLScript is the SQL of InstallMySQL in one text, with the command DELIMITER of the
// client that is called mysql or mariadb.
func InstallMySQLScript() string { return installMySQL }

// UninstallMySQL removes the outbox with all events that have not been relayed, by statements as
// those of InstallMySQL.
func UninstallMySQL() []string {
	return []string{
		"DROP TABLE grapnel_outbox, grapnel_outbox_place, grapnel_outbox_installation",
		"DROP PROCEDURE IF EXISTS grapnel_publish",
	}
}

const publishMySQL = `CALL grapnel_publish(?, ?, ?, ?, ?, ?)`

// PublishMySQL is Publish for a transaction of MySQL or MariaDB, with any driver. The key is locked
// from the call to the transaction's end: another transaction that publishes to it waits, and two
// that publish to the same keys in different orders are a deadlock, which the database ends by
// rolling one of them back.
func PublishMySQL(ctx context.Context, tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, e Event) error {
	args, err := e.arguments()
	if err != nil {
		return err
	}
	if !e.OccurredAt.IsZero() { // a driver may write a time in the zone of its own
		args[5] = e.OccurredAt.UTC().Format("2006-01-02 15:04:05.000000")
	}
	if _, err := tx.ExecContext(ctx, publishMySQL, args...); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}
