package sqlite

import (
	"errors"

	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// transact does a batch. It returns at which request it failed, or -1.
func (w *writer) transact(batch []*request) (culprit int, err error) {
	unflushed, err := w.ready(batch)
	if err != nil {
		return -1, err
	}
	if culprit, err := w.apply(batch, unflushed); unflushed || err != nil {
		return culprit, err
	}
	number := w.unflushed.number
	if w.unflushed.journal != nil {
		number++
	}
	w.data.willBeUsed()
	if err := w.tx.commit(number, w.unflushed.journal != nil); err != nil {
		return -1, err
	}
	w.unflushed.number = number
	w.unflushed.synced.Store(number)
	w.aged(w.all())
	w.reach("SQLite has committed")
	if j := w.unflushed.journal; j != nil {
		_ = j.Committed(number) // the commit is durable, and without that note a start has less to compare
	}
	return -1, nil
}

// ready opens a transaction for a batch, and says whether its changes will be unflushed.
func (w *writer) ready(batch []*request) (unflushed bool, err error) {
	unflushed = !w.unflushed.large && entries(batch)
	y := &w.unflushed
	switch {
	case !unflushed:
	case y.journal == nil:
		// This batch is committed with the note that the journal is needed, before the first frame.
		unflushed = false
		if w.headroom.full {
			break
		}
		if err = w.createJournal(); err != nil {
			return false, err
		}
	case !w.tx.needed:
		unflushed = false
	case w.data.lacks(batch):
		unflushed = false // it is committed with the note that the file is used, before any row refers to it
		if err = w.data.create(y.key); full(err) {
			return false, err
		} else if err != nil {
			w.log.Warn("data of events stay in the database, as they cannot have a file", "err", err)
			w.data.never = true
		}
	case !y.room(w.bounds.Half):
		if unflushed = y.journal.Other() <= y.synced.Load(); unflushed {
			y.journal.Turn()
			y.half = 0
		}
	}
	if !unflushed || !y.loose {
		if w.stuck {
			return false, errStuck
		}
		if err := w.tryFlush(false); err != nil {
			return false, err
		}
		if err := y.sync(w.tx.conn, !unflushed); err != nil {
			return false, err
		}
	}
	return unflushed, w.resume()
}

// beginJournal makes the journal before the first write, so that no other program takes its space.
// A store without a ballast reserves nothing: it makes the journal with its first write.
func (w *writer) beginJournal() error {
	if w.headroom.size == 0 {
		return nil
	}
	err := w.createJournal()
	if err == nil {
		_, err = w.transact(nil) // which notes that it is needed
	}
	if err == nil {
		return nil
	}
	if err = w.undo(err); full(err) {
		return nil // the first write that has space does it
	}
	return err
}

// createJournal makes the journal of this process. The next commit notes its generation.
func (w *writer) createJournal() error {
	y := &w.unflushed
	drawn, err := rows.One(w.tx.conn, "SELECT random()")
	if err != nil {
		return err
	}
	j, err := journal.Create(y.path, y.key, uint64(drawn), y.number, w.bounds.Journal)
	if err != nil {
		return err
	}
	if missing := j.Reserve(); missing > 0 {
		w.log.Warn("journal not reserved whole; fewer outcomes can be recorded if the disk gets full", "missing_bytes", missing)
	}
	j.Confine(w.headroom.full)
	y.journal, y.generation = j, uint64(drawn)
	w.reach("the journal was created")
	return nil
}

// endJournal flushes the tables, and removes the journal before the database is closed. If that
// fails the next process needs the journal, and has it.
func (w *writer) endJournal() error {
	if w.unflushed.journal == nil {
		return nil
	}
	defer func() { _ = w.unflushed.journal.Close() }()
	if w.failed() != nil {
		return nil
	}
	err := w.tryFlush(false)
	if err == nil {
		err = w.data.settle()
	}
	if err == nil {
		err = w.unflushed.sync(w.tx.conn, true)
	}
	if err == nil {
		err = w.tx.begin()
	}
	if err == nil {
		err = w.tx.commit(w.unflushed.number, false)
	}
	if err != nil {
		return errors.Join(err, w.tx.rollback())
	}
	w.reach("the journal is not needed")
	return journal.Remove(w.unflushed.path)
}

// errStuck is the error of a batch that needs a flush while flushes fail. Nothing was done for it.
var errStuck = errors.New("sqlite: a flush failed on the full disk")
