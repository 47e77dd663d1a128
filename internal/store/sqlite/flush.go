package sqlite

import (
	"errors"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

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

// widen gives the writer's connection memory for more pages, or for as many as usually.
func (y *unflushed) widen(conn *sqlite3.Conn, b *Bounds, wide bool) {
	if wide == y.wide {
		return
	}
	size := b.WriterCache
	if wide {
		size = b.WideCache
	}
	if conn.Exec(cacheSize(size>>10)) == nil {
		y.wide = wide
	}
}

// enough says whether so much is unflushed that it is flushed.
func (y *unflushed) enough(b *Bounds) bool {
	return y.count >= min(y.most, b.Unflushed) || int64(len(y.frames)) >= b.UnflushedBytes
}

// flush commits all that is unflushed to the tables. Light operations that came meanwhile are
// unflushed after it; if there were any, a transaction is open. If the disk is full it uses the
// reserved space.
func (w *writer) flush() error {
	err := w.tryFlush(true)
	if full(err) && !w.headroom.full {
		w.lack(err)
		err = w.tryFlush(false)
	}
	w.stuck = full(err)
	return err
}

// tryFlush is one attempt. Without meanwhile nothing is unflushed after it, and no transaction
// open.
func (w *writer) tryFlush(duringFlush bool) error {
	if err := w.failed(); err != nil {
		return err
	}
	if !w.tx.conn.InTransaction() && len(w.unflushed.ends) == 0 {
		return nil
	}
	if err := w.resume(); err != nil {
		return w.undo(err)
	}
	if duringFlush && w.mayKeep() {
		return w.commitAside()
	}
	if err := w.tx.commit(w.unflushed.number, w.tx.needed); err != nil {
		return w.undo(err)
	}
	w.flushed(w.all())
	return nil
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
