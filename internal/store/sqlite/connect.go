package sqlite

import (
	"errors"
	"fmt"
	"os"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const pageSize = 8192

// create creates an empty file that only its owner may read, and makes its name durable. SQLite
// gives the files beside it the same mode.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return err
	}
	return journal.SyncDirectory(path)
}

// connect opens one connection. Checkpoints are made by checkpoints, not by the connection that
// commits the thousandth page. SQLite overwrites all that it deletes, free pages too: those of
// pending deliveries have keys, and no purge comes to them.
func connect(path string, mode sqlite3.Mode, cacheKiB int64) (*sqlite3.Conn, error) {
	conn, err := sqlite3.Open(path, mode)
	if err != nil {
		return nil, err
	}
	settings := fmt.Sprintf(`PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY;
		%s; PRAGMA trusted_schema = OFF;`, cacheSize(cacheKiB))
	if mode == sqlite3.ReadWrite {
		settings += fmt.Sprintf(`PRAGMA page_size = %d; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;
			PRAGMA wal_autocheckpoint = 0;`, pageSize)
	}
	if err = owned(conn); err == nil {
		err = conn.Exec(settings)
	}
	if err == nil && mode == sqlite3.ReadWrite {
		err = verify(conn)
	}
	if err != nil {
		conn.KeepLog()
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// cacheSize is a statement that limits the memory in which a connection keeps pages.
func cacheSize(kib int64) string { return fmt.Sprintf("PRAGMA cache_size = -%d", kib) }

// verify reads back the settings that durability depends on: SQLite ignores an unsupported setting
// silently.
func verify(conn *sqlite3.Conn) error {
	const full = 2
	synchronous, err := rows.One(conn, "PRAGMA synchronous")
	if err == nil && synchronous != full {
		err = fmt.Errorf("synchronous is %d, want FULL (%d): commits would not be durable", synchronous, full)
	}
	if err != nil {
		return err
	}
	wal, err := rows.One(conn, "SELECT journal_mode = 'wal' FROM pragma_journal_mode")
	if err == nil && wal != 1 {
		err = errors.New("the file system does not allow a write-ahead log")
	}
	return err
}

// applicationID is "grpn".
const applicationID = 0x6772706e

// owned says whether a database is Grapnel's or empty. It is called before any setting that would
// change the file.
func owned(conn *sqlite3.Conn) error {
	owner, err := rows.One(conn, "PRAGMA application_id")
	if err != nil || owner == applicationID {
		return err
	}
	tables, err := rows.One(conn, "SELECT count(*) FROM sqlite_schema")
	if err == nil && tables > 0 {
		err = grapnel.Errorf(grapnel.CodeConflict, "the file is a database of another program")
	}
	return err
}

// alone fails if an empty database has one of these files beside it.
func alone(file string, suffixes ...string) error {
	for _, suffix := range suffixes {
		if info, err := os.Stat(file + suffix); err == nil && info.Size() > 0 {
			return fmt.Errorf("the database was moved, deleted or emptied, and writes of it are in %s: "+
				"put the database back, or move that file away too", file+suffix)
		}
	}
	return nil
}
