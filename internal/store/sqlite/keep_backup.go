package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/lock"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Backup copies the database at path to a new file, which is complete by itself. A server may have
// the database open: the copy has every write that had returned when it began.
//
// It copies the journal first and the tables later. So the frames that these tables lack are all in
// the copied journal, one after the other: between two frames that are not in the tables no
// transaction can be missing.
//
// The data of events that are in a file of their own are put into their rows. Until that is done a
// snapshot of the database is open, so that no purge makes holes in the file.
//
// One backup at a time makes the file at to: two would write to the same part.
//
// The schema stays as it is. whole is false if the tables need a journal, or a file of data, that
// does not exist. Then the copy has the tables alone.
func Backup(ctx context.Context, path, to string) (whole bool, err error) {
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, grapnel.Errorf(grapnel.CodeNotFound, "no database is at %s", path)
	}
	if err := unmixed(file); err != nil {
		return false, fmt.Errorf("copying %s: %w", path, err)
	}
	return backup(ctx, file, to)
}

// Backup is Backup of the open database. It opens and closes the file of the tables by SQLite
// alone: the kernel would give up SQLite's locks when a process closes any other descriptor of the
// file.
func (s *Store) Backup(ctx context.Context, to string) (whole bool, err error) {
	return backup(ctx, s.path, to)
}

func backup(ctx context.Context, path, to string) (whole bool, err error) {
	part := to + ".part"
	alone, err := lock.Own(part + ".busy")
	if grapnel.CodeOf(err) == grapnel.CodeConflict {
		return false, grapnel.Errorf(grapnel.CodeConflict, "another backup to %s is being made", to)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, grapnel.Errorf(grapnel.CodeNotFound, "no directory is at %s; create it before the backup", filepath.Dir(to))
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = errors.Join(os.Remove(part+".busy"), alone.Close()) }()
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return false, grapnel.Errorf(grapnel.CodeConflict, "%s exists already; a backup goes to a new file", to)
	}
	remove := func() {
		for _, suffix := range []string{"", "-wal", "-shm", "-journal", ".journal", ".lock"} {
			_ = os.Remove(part + suffix)
		}
	}
	remove() // of a backup that was interrupted
	defer remove()
	held, err := openSnapshot(path)
	if err != nil {
		return false, fmt.Errorf("copying %s: %w", path, err)
	}
	defer func() { _ = held.Close() }()
	err = journal.Copy(path+".journal", part+".journal")
	journaled := err == nil
	if journaled || errors.Is(err, fs.ErrNotExist) {
		err = copyTables(ctx, path, part)
	}
	if err == nil && !journaled { // a server that has just begun may have made one meanwhile, which has all frames
		if err = journal.Copy(path+".journal", part+".journal"); errors.Is(err, fs.ErrNotExist) {
			err = nil
		} else {
			journaled = err == nil
		}
	}
	if err == nil {
		whole, err = complete(ctx, part, path+".data", journaled)
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

// openSnapshot opens a snapshot of a database. It ends when the connection is closed.
func openSnapshot(path string) (*sqlite3.Conn, error) {
	conn, err := connect(path, sqlite3.ReadOnly, 64)
	if err != nil {
		return nil, err
	}
	if err := conn.Exec("BEGIN; SELECT count(*) FROM sqlite_schema"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// complete makes copied tables need neither a journal nor a file of data.
func complete(ctx context.Context, path, data string, journaled bool) (whole bool, err error) {
	conn, err := connect(path, sqlite3.ReadWrite, 64)
	if err != nil {
		return false, err
	}
	defer func() { err = closeSingle(conn, err) }()
	status, err := missing(conn, migrations)
	if err != nil || status.Has == 0 {
		return true, err
	}
	needed, err := rows.One(conn, "SELECT needed FROM journal")
	switch {
	case err != nil:
		return false, err
	case needed == 1 && !journaled:
		err = conn.Exec("UPDATE journal SET needed = 0")
	case needed == 1 && len(status.Steps) > 0:
		err = grapnel.Errorf(grapnel.CodeConflict, "its server was not stopped properly and is older than this program: "+
			"start and stop that server once, then repeat the backup")
	case needed == 1:
		var s *Store
		if s, err = Open(ctx, path, Options{Ballast: -1, data: data}); err == nil { // applies the frames that the tables lack
			err = s.Close()
		}
	}
	if err != nil {
		return false, err
	}
	lost, err := putBack(ctx, conn, data)
	return (needed == 0 || journaled) && !lost, err
}

const apartQuery = "SELECT seq, packed, data FROM event WHERE packed & 2 AND seq > ? ORDER BY seq LIMIT 64"

// putBack puts the data of all events from a file into their rows. Data of a file that does not
// exist are lost: their events are corrupt then.
func putBack(ctx context.Context, conn *sqlite3.Conn, path string) (lost bool, err error) {
	type row struct {
		seq, packed int64
		data        []byte
	}
	var p position
	q := conn.Query("SELECT key, data FROM journal")
	err = rows.Single(q, func() { p.key, p.data = uint64(q.Integer(0)), q.Integer(1) == 1 })
	d := dataFile{path: path, copied: true}
	if err == nil {
		err = conn.Exec("PRAGMA synchronous = OFF") // the copy is synced before it gets its name
	}
	if err == nil {
		err = d.open(p)
	}
	defer func() { err = errors.Join(err, d.close()) }()
	for last := int64(0); err == nil && p.data; err = ctx.Err() {
		rows, err := rows.Each(conn.Query(apartQuery).Int(last), func(q *sqlite3.Stmt) (r row, err error) {
			r.seq = q.Integer(0)
			if r.data, r.packed, err = d.whole(q.Bytes(2), q.Integer(1)); errors.Is(err, codec.ErrMangled) {
				r.data, r.packed, lost, err = nil, 0, true, nil
			}
			return r, err
		})
		if err != nil {
			return lost, err
		}
		if len(rows) == 0 {
			return lost, conn.Exec("DELETE FROM hole; UPDATE journal SET data = 0")
		}
		if err := conn.Exec("BEGIN IMMEDIATE"); err != nil {
			return lost, err
		}
		for _, r := range rows {
			last = r.seq
			if err := conn.Query("UPDATE event SET packed = ?, data = ? WHERE seq = ?").Int(r.packed).Blob(r.data).Int(r.seq).Run(); err != nil {
				return lost, err
			}
		}
		if err := conn.Exec("COMMIT"); err != nil {
			return lost, err
		}
	}
	return lost, err
}

// closeSingle closes a database that needs no log afterwards: it is a single file then. An earlier
// error is passed on.
func closeSingle(conn *sqlite3.Conn, err error) error {
	if err == nil {
		err = conn.Truncate() // Close copies the log, too, but a full disk is no error to it
	}
	if err == nil {
		err = conn.Exec("PRAGMA journal_mode = DELETE") // see unmixed
	}
	return errors.Join(err, conn.Close())
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(journal.Sync(f), f.Close())
}
