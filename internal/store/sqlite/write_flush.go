package sqlite

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
