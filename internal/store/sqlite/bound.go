package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grapnelhq/grapnel/internal/store/journal"
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
	return file, alone(file, "-wal", ".journal", ".data")
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

// position is the row of the table journal.
type position struct {
	key        uint64
	number     uint64 // of the last batch in the tables
	needed     bool   // the journal may have later ones
	generation uint64 // of the journal
	frame      uint64 // of the last batch in the tables that the journal had
	alone      uint64 // the file of the tables has the batches up to here without SQLite's log
	data       bool   // rows may refer to the file of data
	until      int64  // where in the file of data its last write ends
}

const journalQuery = "SELECT key, number, needed, data, generation, frame, alone, until FROM journal"

// widened is added to the numbers in the row, which keeps its size so; see the table journal.
const widened = 1 << 62

func narrowed(n int64) uint64 { return uint64(n &^ widened) }

func readPosition(conn *sqlite3.Conn) (p position, err error) {
	q := conn.Query(journalQuery)
	err = single(q, func() {
		p = position{key: uint64(q.Integer(0)), number: narrowed(q.Integer(1)), needed: q.Integer(2) == 1, data: q.Integer(3) == 1,
			generation: uint64(q.Integer(4)), frame: narrowed(q.Integer(5)), alone: narrowed(q.Integer(6)), until: int64(narrowed(q.Integer(7)))}
	})
	return p, err
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

const wayOut = "put the files of one moment back, or restore a backup"

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
	err = single(q, func() { key, number = uint64(q.Integer(0)), narrowed(q.Integer(1)) })
	return key, number, errors.Join(err, conn.Close())
}

// catchUp brings the tables up to the journal of a process that did not close them. After it no
// journal is needed.
func (w *writer) catchUp() error {
	y := &w.unflushed
	p, err := readPosition(w.tx.conn)
	if err != nil {
		return err
	}
	y.key, y.number, y.generation = p.key, p.number, p.generation
	y.alone.Store(p.alone)
	w.tx.number, w.tx.needed = p.number, p.needed
	if err := w.data.open(p); err != nil {
		return err
	}
	if p.needed {
		err = w.readJournal(p)
	} else {
		err = explain(journal.Needless(y.path, p.key, p.number))
	}
	if err != nil {
		return errors.Join(err, w.tx.rollback())
	}
	y.flushed.Store(y.number)
	y.synced.Store(y.number)
	return journal.Remove(y.path)
}

// readJournal applies the frames that the tables lack, in one transaction.
func (w *writer) readJournal(p position) error {
	if err := w.tx.begin(); err != nil {
		return err
	}
	o := journal.Owner{Key: p.key, Generation: p.generation, Number: p.number, Frame: p.frame}
	if w.data.copied {
		o.Frame = 0 // a backup copies the tables after the journal
	}
	last, err := journal.Read(w.unflushed.path, o, func(frame []byte) error {
		if err := w.tx.replay(frame); err != nil || !w.tx.deferred.enough() {
			return err
		}
		return w.tx.writeDeferred()
	})
	if err == nil {
		err = w.data.settle()
	}
	if err != nil {
		return explain(err)
	}
	if last > w.unflushed.number {
		w.log.Info("the tables have the last writes of the journal now", "transactions", last-w.unflushed.number)
	}
	w.unflushed.number = last
	if err := w.tx.commit(last, false); err != nil {
		return err
	}
	w.reach("the tables have caught up")
	return nil
}

// explain adds the way out to the error of a journal that does not fit.
func explain(err error) error {
	if errors.Is(err, journal.ErrMissing) || errors.Is(err, errReplay) {
		return fmt.Errorf("the process that used the database last did not close it, so its last writes may be in its journal only. "+
			"Put the journal back that was beside this database then, or restore a backup. To go on without these writes, "+
			"move the journal away and make a copy with `grapnel backup`: %w", err)
	}
	return err
}
