package sqlite

import "errors"

// upTo is what a fill writes: the operations up to a number.
type upTo struct {
	number             uint64
	count, bytes, ends int   // of them: operations, their frames
	event              int64 // the highest row id of an event
}

// all is all that is young.
func (w *writer) all() upTo {
	y := &w.young
	return upTo{number: y.number, count: y.count, bytes: len(y.frames), ends: len(y.ends), event: w.tx.events.last}
}

// aged is called when the tables have the operations up to a number, which were young.
func (w *writer) aged(f upTo) {
	y := &w.young
	pages := w.tx.conn.PagesWritten()
	// A fill for a read says nothing about larger ones: the more operations it has, the more of them
	// change the same pages.
	if b := &w.store.bounds; f.count >= min(y.most, b.Young) || pages > b.FillPages {
		y.most = max(b.FillLeast, min(b.FillPages*f.count/max(pages, 1), 2*y.most, b.Young))
	}
	if f.count > 0 && int64(pages)*pageSize > w.store.bounds.WriterCache/2 { // fewer pages need no more memory
		w.widen(pages > f.count)
	}
	y.frames = append(y.frames[:0], y.frames[f.bytes:]...)
	y.ends = append(y.ends[:0], y.ends[f.ends:]...)
	for i := range y.ends {
		y.ends[i] -= f.bytes
	}
	y.count -= f.count
	y.filled.Store(f.number)
	y.event.Store(f.event)
	y.owes.Store(y.count > 0)
	y.timer.Stop()
	if y.count > 0 {
		y.timer.Reset(w.store.bounds.FillEvery)
	}
	w.store.stats.filled(pages)
	w.store.checkpoints.grown(pages)
}

// widen gives the writer's connection memory for more pages, or for as many as usually.
func (w *writer) widen(wide bool) {
	if wide == w.young.wide {
		return
	}
	size := w.store.bounds.WriterCache
	if wide {
		size = w.store.bounds.WideCache
	}
	if w.tx.conn.Exec(cacheSize(size>>10)) == nil {
		w.young.wide = wide
	}
}

// enough says whether so much is young that it is filled.
func (w *writer) enough() bool {
	y, b := &w.young, &w.store.bounds
	return y.count >= min(y.most, b.Young) || int64(len(y.frames)) >= b.YoungBytes
}

// fill commits all that is young to the tables. Light operations that came meanwhile are young
// after it; if there were any, a transaction is open. If the disk is full it uses the reserved
// space.
func (w *writer) fill() error {
	err := w.tryFill(true)
	if full(err) && !w.headroom.full {
		w.lack(err)
		err = w.tryFill(false)
	}
	w.stuck = full(err)
	return err
}

// tryFill is one attempt. Without meanwhile nothing is young after it, and no transaction open.
func (w *writer) tryFill(meanwhile bool) error {
	if err := w.store.failed(); err != nil {
		return err
	}
	if !w.tx.conn.InTransaction() && len(w.young.ends) == 0 {
		return nil
	}
	if err := w.resume(); err != nil {
		return w.undo(err)
	}
	if meanwhile && w.mayKeep() {
		return w.commitAside()
	}
	if err := w.tx.commit(w.young.number, w.tx.needed); err != nil {
		return w.undo(err)
	}
	w.filled(w.all())
	return nil
}

// filled is called when SQLite has committed a fill.
func (w *writer) filled(f upTo) {
	w.aged(f)
	w.store.reach("the tables were filled")
}

// undo rolls back after an error, and returns it. The young entries are applied again by resume.
func (w *writer) undo(err error) error {
	// A transaction that cannot be rolled back would be part of the next one.
	if undo := w.tx.rollback(); undo != nil || broken(err) {
		return w.store.fail(errors.Join(err, undo))
	}
	return err
}
