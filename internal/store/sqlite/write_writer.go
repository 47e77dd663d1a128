package sqlite

import (
	"errors"
	"runtime"
	"time"
)

// writer owns the connection that writes. All operations go through its goroutine, which collects
// the queued ones, applies them in one transaction and commits once.
type writer struct {
	*database
	checkpoints *checkpoints
	tx          *tx
	quit        chan struct{} // closed to stop

	batch    []*request
	share    share      // of new events in it
	light    []*request // that are done while a flush is committed
	flushing []*request // that wait for a flush, to read
	headroom *headroom
	stuck    bool        // a flush has failed on the full disk; until the next retry the journal has all
	retry    *time.Timer // while the disk is full: when to try again
	rest     *time.Timer // since the last batch: when to give memory back
}

// gather takes the requests in the line; take returns how many were taken. If they are few it lets
// other goroutines run first, as long as that brings more: on an idle machine no other goroutine is
// ready and it costs nothing; on a busy one those that are about to queue a request do so before
// the transaction instead of after it. It uses no timer: while no goroutine is ready, waiting would
// bring nothing.
func (w *writer) gather(take func() int) {
	n := take()
	for began := w.now(); n < w.bounds.Enough; {
		before := n
		runtime.Gosched()
		if n = take(); n == before || w.now().Sub(began) > w.bounds.Yield {
			return
		}
	}
}

// answer sends requests back. Without an error of the transaction each has its own decision.
func answer(batch []*request, err error) {
	for _, r := range batch {
		if err != nil {
			r.err = err
		}
		r.answer()
	}
}

// lack is called when the disk had no space for a transaction.
func (w *writer) lack(cause error) {
	if !w.headroom.full {
		w.log.Error("disk full; new events refused, outcomes still recorded", "err", cause)
	}
	w.headroom.full = true
	if w.unflushed.journal != nil {
		w.unflushed.journal.Confine(true) // it has blocks of its own
	}
	w.stats.full.Store(true)
	if err := w.headroom.give(); err != nil {
		w.log.Error("freeing the reserved disk space failed", "err", err)
	}
	w.reach("the reserved space is free")
	if w.tx != nil {
		w.checkpoints.copy(w.tx.conn) // so that the log can be written from its beginning and need not grow
	}
	w.spill(false)
	w.retryLater()
}

// retryLater sets the time at which a full disk is tried again. After a flush that
// fails all unflushed operations are applied again: a tenth of the time at most goes into that.
func (w *writer) retryLater() {
	w.retry.Reset(max(w.bounds.Retry, 10*w.unflushed.again))
}

// spill says whether SQLite writes changed pages to its log before a commit if they do not fit into
// its memory. On a full disk that would fail, so all of them stay in memory: as many as the
// operations in the journal change.
func (w *writer) spill(allowed bool) {
	if w.tx == nil {
		return // it is being opened
	}
	setting := "PRAGMA cache_spill = ON"
	if !allowed {
		setting = "PRAGMA cache_spill = OFF"
	}
	if err := w.tx.conn.Exec(setting); err != nil {
		w.log.Warn("setting SQLite's memory failed", "err", err)
	}
}

// regain tries whether the disk has space again.
func (w *writer) regain() {
	w.stuck = false
	if err := w.headroom.again(); err != nil {
		w.retryLater()
		return
	}
	w.headroom.full = false
	w.spill(true)
	if w.unflushed.journal != nil {
		w.unflushed.journal.Confine(false)
		w.unflushed.journal.Reserve()
	}
	w.reach("the disk has space again")
	w.stats.full.Store(false)
	w.log.Info("disk has space again; events accepted")
}

// upTo is what a flush writes: the operations up to a number.
type upTo struct {
	number             uint64
	count, bytes, ends int   // of them: operations, their frames
	event              int64 // the highest row id of an event
}

// all is all that is unflushed.
func (w *writer) all() upTo {
	y := &w.unflushed
	return upTo{number: y.number, count: y.count, bytes: len(y.frames), ends: len(y.ends), event: w.tx.events.last}
}

// aged is called when the tables have the operations up to a number, which were unflushed.
func (w *writer) aged(f upTo) {
	y := &w.unflushed
	pages := w.tx.conn.PagesWritten()
	// A flush for a read says nothing about larger ones: the more operations it has, the more of them
	// change the same pages.
	if b := &w.bounds; f.count >= min(y.most, b.Unflushed) || pages > b.FlushPages {
		y.most = max(b.FlushLeast, min(b.FlushPages*f.count/max(pages, 1), 2*y.most, b.Unflushed))
	}
	if f.count > 0 && int64(pages)*pageSize > w.bounds.WriterCache/2 { // fewer pages need no more memory
		y.widen(w.tx.conn, &w.bounds, pages > f.count)
	}
	y.frames = append(y.frames[:0], y.frames[f.bytes:]...)
	y.ends = append(y.ends[:0], y.ends[f.ends:]...)
	for i := range y.ends {
		y.ends[i] -= f.bytes
	}
	y.count -= f.count
	y.flushed.Store(f.number)
	y.event.Store(f.event)
	y.owes.Store(y.count > 0)
	y.timer.Stop()
	if y.count > 0 {
		y.timer.Reset(w.bounds.FlushEvery)
	}
	w.stats.flushed(pages)
	w.checkpoints.grown(pages)
}

// flushed is called when SQLite has committed a flush.
func (w *writer) flushed(f upTo) {
	w.aged(f)
	w.reach("the tables were flushed")
}

// undo rolls back after an error, and returns it. The unflushed entries are applied again by
// resume.
func (w *writer) undo(err error) error {
	// A transaction that cannot be rolled back would be part of the next one.
	if undo := w.tx.rollback(); undo != nil || broken(err) {
		return w.fail(errors.Join(err, undo))
	}
	return err
}
