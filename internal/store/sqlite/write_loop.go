package sqlite

import (
	"bytes"
	"errors"
	"slices"
)

func (w *writer) run() {
	defer close(w.stopped)
	defer func() { answer(w.line.close(), w.gone()) }()
	for w.next() {
		w.commit()
		clear(w.batch)
		w.batch = w.batch[:0]
		w.settle()
		w.rest.Reset(w.bounds.Rest)
	}
}

// shrink frees the pages that unused connections have in memory, as the operating system has them
// too, and the memory for frames.
func (w *writer) shrink() {
	const free = "PRAGMA shrink_memory"
	if w.headroom.full || w.tryFlush(false) != nil || w.tx.conn.Exec(free) != nil {
		return
	}
	w.unflushed.widen(w.tx.conn, &w.bounds, false)
	w.unflushed.frames = nil
	for range w.bounds.Readers {
		select {
		case conn := <-w.readers:
			_ = conn.Exec(free) // a connection that fails at this fails at its next read too
			w.readers <- conn
		default:
		}
	}
}

// settle flushes the tables between two batches if it is time, and copies the log if that was
// asked. If that fails the journal has what the tables lack, and a later flush tries again.
func (w *writer) settle() {
	c := w.checkpoints
	if w.stuck {
		w.answerReaders(errFull(nil))
		c.reply(func() error { return errFull(nil) })
		return
	}
	if !w.unflushed.enough(&w.bounds) && len(w.flushing) == 0 && w.unflushed.owes.Load() && !c.waits() {
		if !w.tx.deferred.enough() {
			return
		}
		if err := w.tx.writeDeferred(); err != nil {
			_ = w.undo(err) // SQLite may have rolled back by itself: what the writer remembers goes too
			_ = w.flush()   // it uses the reserved space if it has to
		}
		return
	}
	err := w.flush()
	w.answerReaders(err)
	if c.waits() {
		if err == nil {
			err = w.tryFlush(false) // for light operations that came during the flush
		}
		if err != nil {
			c.reply(func() error { return err })
			return
		}
		c.rest(w.tx.conn, w.cut)
	}
	if w.headroom.full && err == nil {
		c.spare(w.tx.conn)
	}
}

// answerReaders answers those who waited for a flush.
func (w *writer) answerReaders(err error) {
	if full(err) {
		err = errFull(err)
	}
	answer(w.flushing, err)
	clear(w.flushing)
	w.flushing = w.flushing[:0]
}

// next flushes the batch: it waits for the first request, then takes the other queued ones. After
// quit it takes the rest.
func (w *writer) next() bool {
	w.share = share{most: w.bounds.Events, least: w.bounds.Share, weigh: weigh}
	select { // even if the line is never empty
	case <-w.unflushed.timer.C:
		w.age()
	case <-w.retry.C:
		w.regain()
	default:
	}
	for w.drain() == 0 {
		select {
		case <-w.line.wake:
		case <-w.unflushed.timer.C:
			w.age()
		case <-w.retry.C:
			w.regain()
		case <-w.rest.C:
			w.shrink()
		case <-w.quit:
			w.drain()
			return len(w.batch) > 0
		}
	}
	w.gather(w.drain)
	return true
}

// age flushes the tables when the oldest unflushed operation is FlushEvery old. Little is written
// then, so the memory for frames goes back.
func (w *writer) age() {
	if w.stuck {
		w.unflushed.timer.Reset(w.bounds.Retry)
		return
	}
	if err := w.flush(); err != nil {
		w.unflushed.timer.Reset(w.bounds.Retry)
		return
	}
	w.unflushed.frames = bytes.Clone(w.unflushed.frames)
}

// drain moves requests from the line to the batch, and returns how many are in it.
func (w *writer) drain() int {
	w.batch = w.line.take(w.batch, w.bounds.Batch-len(w.batch), &w.share)
	return len(w.batch)
}

// commit does the batch in one transaction. If the disk has no space for it, operations that grow
// the database are refused, and the others are done with the reserved space. An operation that
// fails by its own decision is left out and does not fail the others.
func (w *writer) commit() {
	batch, lacked := w.batch, false
	w.unflushed.large = false
	if w.headroom.full {
		batch = w.refuse(batch)
	}
	for len(batch) > 0 {
		culprit, err := w.try(batch)
		switch {
		case full(err) && !lacked:
			w.lack(err)
			batch, lacked = w.refuse(batch), true
		case full(err), errors.Is(err, errStuck):
			answer(batch, errFull(err))
			return
		case errors.Is(err, errLarge):
			w.unflushed.large = true
		case culprit >= 0 && !broken(err):
			answer(batch[culprit:culprit+1], err)
			batch = slices.Delete(batch, culprit, culprit+1)
		default:
			w.done(batch, err)
			return
		}
	}
}

// done answers a batch that was done, or failed. Those that want to read wait for a flush: see
// settle.
func (w *writer) done(batch []*request, err error) {
	for i, r := range batch {
		if _, reads := r.operation.(flushing); reads && err == nil {
			w.flushing = append(w.flushing, r)
		} else {
			answer(batch[i:i+1], err)
		}
	}
}

// try makes one attempt to do a batch. It returns which request it failed at, or -1.
func (w *writer) try(batch []*request) (culprit int, err error) {
	if err := w.failed(); err != nil {
		return -1, err
	}
	started := w.now()
	if culprit, err = w.transact(batch); errors.Is(err, errStuck) {
		return culprit, err
	} else if err != nil {
		if err := w.undo(err); w.failed() != nil {
			return -1, err
		}
		return culprit, err
	}
	w.stats.committed(len(batch), w.now().Sub(started))
	return -1, nil
}

// refuse answers the requests that have to wait for space, and returns the others. While a flush
// fails, those that the journal cannot hold wait too: they need one first.
func (w *writer) refuse(batch []*request) []*request {
	kept := batch[:0:0]
	for _, r := range batch {
		if !r.grows() && (!w.stuck || keeps(r.operation)) {
			kept = append(kept, r)
			continue
		}
		r.err = errFull(nil)
		r.answer()
	}
	return kept
}

// cut is called by the writer when it is in no transaction and nothing is unflushed. After it
// neither log nor journal has a byte.
func (w *writer) cut() error {
	c := w.checkpoints
	err := w.tx.conn.Truncate()
	if err == nil {
		c.pages.Store(0)
		c.length.Store(0)
		w.unflushed.synced.Store(w.unflushed.number)
		w.unflushed.alone.Store(w.unflushed.number)
		c.reach("the log was cut off")
		if w.unflushed.journal != nil {
			err = w.unflushed.journal.Empty(w.unflushed.number)
		}
	}
	if broken(err) {
		err = c.fail(err)
	}
	c.stats.checkpointed()
	return err
}
