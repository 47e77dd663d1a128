package sqlite

import (
	"errors"
	"fmt"

	"github.com/grapnelhq/grapnel/internal/store/journal"
)

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
