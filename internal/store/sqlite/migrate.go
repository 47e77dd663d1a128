package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// The schema is a row of steps forward, one file each, numbered from 1. A database knows how many of them it has taken
// (user_version) and that it is Grapnel's (application_id).
//
//go:embed migrations/*.sql
var migrations embed.FS

// applicationID is "grpn".
const applicationID = 0x6772706e

// owned says whether a database is Grapnel's or empty. It is asked before anything is set that would change the file.
func owned(conn *sqlite3.Conn) error {
	owner, err := one(conn, "PRAGMA application_id")
	if err != nil || owner == applicationID {
		return err
	}
	tables, err := one(conn, "SELECT count(*) FROM sqlite_schema")
	if err == nil && tables > 0 {
		err = errors.New("the file is a database of another program")
	}
	return err
}

// migrate brings a database to the schema that this program knows. Each step commits together with its number.
func migrate(conn *sqlite3.Conn, steps fs.FS) error {
	files, err := fs.Glob(steps, "migrations/*.sql") // sorted
	if err != nil {
		return err
	}
	version, err := one(conn, "PRAGMA user_version")
	if err != nil {
		return err
	}
	if version > int64(len(files)) {
		return fmt.Errorf("the database was written by a newer Grapnel: its schema is number %d, this program knows %d", version, len(files))
	}
	for i, name := range files[version:] {
		step, err := fs.ReadFile(steps, name)
		if err != nil {
			return err
		}
		err = conn.Exec(fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
			step, applicationID, int(version)+i+1))
		if err != nil {
			if conn.InTransaction() {
				_ = conn.Exec("ROLLBACK")
			}
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
