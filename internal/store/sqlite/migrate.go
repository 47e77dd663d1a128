package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/grapnelhq/grapnel/internal/store/schema"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/lock"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Inspect returns the schema version of the database at path. It changes nothing, and may be called
// while a process has the database open.
func Inspect(_ context.Context, path string) (schema.Status, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return schema.Missing(path, nil, migrations)
	}
	conn, err := connect(path, sqlite3.ReadOnly, 64)
	if err != nil {
		return schema.Status{Place: path}, fmt.Errorf("opening the database %s: %w", path, err)
	}
	found, err := missing(conn, migrations)
	found.Place = path
	return found, errors.Join(err, conn.Close())
}

// Migrate applies the missing steps, and returns the earlier version. It creates the database if it
// does not exist; the directory must exist. It is refused while another process has the database
// open.
func Migrate(_ context.Context, path string) (before schema.Status, err error) {
	before.Place = path
	file, err := locate(path)
	if err != nil {
		return before, err
	}
	held, err := lock.Both(file)
	if err != nil {
		return before, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if err := fits(file); err != nil {
		return before, fmt.Errorf("opening the database %s: %w", path, err)
	}
	conn, err := connect(path, sqlite3.ReadWrite, 16<<10)
	if err != nil {
		return before, fmt.Errorf("opening the database %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if before, err = missing(conn, migrations); err == nil {
		err = migrateAt(file, conn)
	}
	before.Place = path
	return before, err
}
