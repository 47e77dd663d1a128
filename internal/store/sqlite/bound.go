package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// A database is up to four files: that of the tables, SQLite's log, the journal, and the file of
// data. The tables say what the others must have, each flush rewrites that, and a start compares:
// if a file is of another moment, cut off or of another database, the start is refused. Otherwise
// acknowledged events would be missing without a word.

// locate creates the file unless it exists, and returns its path without symbolic links. Lock,
// journal and ballast are beside the file itself, so they are the same by each of its names. An
// empty file beside a log, a journal or a file of data is refused: SQLite deletes such a log,
// catchUp the journal, and the data would be overwritten.
func locate(path string) (string, error) {
	if err := create(path); err != nil {
		return "", err
	}
	file, err := filepath.EvalSymlinks(path)
	if info, failed := os.Stat(file); err != nil || failed != nil || info.Size() > 0 {
		return file, cmp.Or(err, failed, unmixed(file))
	}
	return file, cmp.Or(interrupted(file), alone(file, "-wal", ".journal", ".data"))
}

// fits fails if SQLite's log does not belong to the file of the tables as it is. SQLite itself
// takes any log that is whole, and lays its pages over the file's. Nothing may be written before
// that is known.
func fits(path string) error {
	log := path + "-wal"
	if info, err := os.Stat(log); err != nil || info.Size() == 0 {
		return nil
	}
	p, err := readLogged(path)
	if err != nil {
		return fmt.Errorf("%s with %s: %w; %s", path, log, err, wayOut)
	}
	key, number, err := readAlone(path)
	switch {
	case p.key == 0 || err != nil && p.alone == 0: // there are no tables yet, or all of them are still in the log
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w; %s", path, err, wayOut)
	case key != p.key:
		return fmt.Errorf("%s belongs to another database than %s: put the right one of them back, or restore a backup", log, path)
	case p.number < number:
		return fmt.Errorf("%s is older than %s: it ends at number %d, and the database has %d; %s", log, path, p.number, number, wayOut)
	case number < p.alone:
		return fmt.Errorf("%s is older than %s: it ends at number %d, and it had %d already; %s", path, log, number, p.alone, wayOut)
	}
	return nil
}

// readLogged reads the position as SQLite sees it: with its log. Its key is 0 if there are no
// tables yet.
func readLogged(path string) (p position, err error) {
	conn, err := connect(path, sqlite3.ReadOnly, 64)
	if err != nil {
		return p, err
	}
	status, err := missing(conn, migrations)
	if err == nil && status.Has > 0 {
		p, err = readPosition(conn)
	}
	return p, errors.Join(err, conn.Close())
}

// readAlone reads a part of the position from the file of the tables, without SQLite's log.
func readAlone(path string) (key, number uint64, err error) {
	conn, err := sqlite3.OpenAlone(path)
	if err != nil {
		return 0, 0, err
	}
	// A checkpoint that was cut off, also by a full disk, may have made the header's number of
	// pages larger than the file. SQLite reads such a file only with this setting.
	if err := conn.Exec("PRAGMA writable_schema = ON"); err != nil {
		return 0, 0, errors.Join(err, conn.Close())
	}
	q := conn.Query("SELECT key, number FROM journal")
	err = rows.Single(q, func() { key, number = uint64(q.Integer(0)), narrowed(q.Integer(1)) })
	return key, number, errors.Join(err, conn.Close())
}

// unmixed fails if a backup was put beside the log of another database, whose pages SQLite would
// take for the backup's. A backup's header says that it has no log: byte 18 is 1 instead of 2. The
// first opening changes that before it creates a log.
func unmixed(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var version [1]byte
	if _, err := f.ReadAt(version[:], 18); err != nil || version[0] != 1 {
		return nil // SQLite refuses a shorter file itself
	}
	if info, err := os.Stat(file + "-wal"); err != nil || info.Size() == 0 {
		return nil
	}
	return grapnel.Errorf(grapnel.CodeConflict, "the file is a backup, and %s-wal has writes of another database: "+
		"move all other files of that database away, then start again", file)
}

// unfinished ends the name of a restore's file until it is complete. Open refuses to create a
// database beside one, so that a server that is started after an interrupted restore does not begin
// an empty database.
const unfinished = ".restore"

// interrupted fails if a restore to path was interrupted.
func interrupted(path string) error {
	if _, err := os.Lstat(path + unfinished); err == nil {
		return fmt.Errorf("a restore to this place was interrupted: repeat it, or remove %s to begin with an empty database", path+unfinished)
	}
	return nil
}
