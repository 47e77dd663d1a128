package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Backup copies the database at path to a new file, which is complete by itself. A server may have
// the database open: the copy has every write that had returned when it began.
//
// It copies the journal first and the tables later. So the frames that these tables lack are all in
// the copied journal, one after the other: between two frames that are not in the tables no
// transaction can be missing.
//
// The schema stays as it is. whole is false if the tables need a journal that is not there. Then
// the copy has the tables alone.
func Backup(ctx context.Context, path, to string) (whole bool, err error) {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return false, grapnel.Errorf(grapnel.CodeConflict, "%s exists already; a backup goes to a new file", to)
	}
	if _, err := os.Stat(path); err != nil {
		return false, grapnel.Errorf(grapnel.CodeNotFound, "no database is at %s", path)
	}
	part := to + ".part"
	remove := func() {
		for _, suffix := range []string{"", "-wal", "-shm", ".journal", ".lock"} {
			_ = os.Remove(part + suffix)
		}
	}
	remove() // of a backup that was interrupted
	defer remove()
	err = journal.Copy(path+".journal", part+".journal")
	journaled := err == nil
	if journaled || errors.Is(err, fs.ErrNotExist) {
		err = copyTables(ctx, path, part)
	}
	if err == nil {
		whole, err = complete(ctx, part, journaled)
	}
	if err != nil {
		return false, fmt.Errorf("copying %s: %w", path, err)
	}
	return whole, errors.Join(syncFile(part), os.Rename(part, to), syncFile(filepath.Dir(to)))
}

// copyTables writes the tables as they are at one moment.
func copyTables(ctx context.Context, path, to string) (err error) {
	if err := create(to); err != nil {
		return err
	}
	conn, err := connect(path, sqlite3.ReadOnly, 2048)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	stop := context.AfterFunc(ctx, conn.Interrupt)
	defer stop()
	q := conn.Query("VACUUM INTO ?")
	return errors.Join(q.Text(to).Run(), ctx.Err())
}

// complete makes copied tables need no journal.
func complete(ctx context.Context, path string, journaled bool) (whole bool, err error) {
	conn, err := connect(path, sqlite3.ReadWrite, 64)
	if err != nil {
		return false, err
	}
	status, err := missing(conn, migrations)
	needed := int64(0)
	if err == nil && status.Has >= journalStep {
		needed, err = one(conn, "SELECT needed FROM journal")
	}
	if err == nil && needed == 1 && !journaled {
		err = conn.Exec("UPDATE journal SET needed = 0")
	}
	switch err := errors.Join(err, conn.Close()); {
	case err != nil || needed == 0:
		return true, err
	case !journaled:
		return false, nil
	case len(status.Steps) > 0:
		return false, grapnel.Errorf(grapnel.CodeConflict, "its server was not stopped properly and is older than this program: "+
			"start and stop that server once, then repeat the backup")
	}
	s, err := Open(ctx, path, Options{Ballast: -1}) // applies the frames that the tables lack
	if err != nil {
		return false, err
	}
	return true, s.Close()
}

// journalStep is the schema from which on a database has a journal.
const journalStep = 14

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(journal.Sync(f), f.Close())
}
