package sqlite

import "github.com/grapnelhq/grapnel/internal/store/codec"

// Behind a long backlog a flush takes SQLite tens of milliseconds to commit, and its connection can
// do nothing else until then. Meanwhile the writer does the operations that are light: those that
// need nothing from the tables, as an event without a key whose endpoints are known. They change
// the writer's memory, their rows are deferred, and their frame has a higher number than the
// flush. So a process that reads the journal later applies them after the flush, as this one does.

// commitAside commits a flush, and does light requests meanwhile.
func (w *writer) commitAside() error {
	f := w.all()
	if err := w.tx.combine(f.number, w.tx.needed); err != nil {
		return w.undo(err)
	}
	committed, end := w.tx.q.commit.Aside()
	w.reach("a flush is being committed")
	lost := w.doLight(committed)
	if err := end(); err != nil {
		return w.undo(err)
	}
	w.tx.committedWith(f.number, w.tx.needed)
	w.flushed(f)
	if lost == nil && w.unflushed.count > 0 {
		lost = w.tx.begin() // for the rows that they owe
	}
	if lost != nil {
		_ = w.undo(lost) // the flush was made, and resume applies those that were answered again
	}
	return w.failed()
}

// doLight does light requests until the flush is committed. If some cannot be done they become part
// of the next batch, and the writer's memory has to be rolled back.
func (w *writer) doLight(committed <-chan struct{}) error {
	w.line.wakeEach(true)
	defer w.line.wakeEach(false)
	for done := false; !done; {
		w.gather(w.drainLight)
		if len(w.light) == 0 {
			select {
			case <-committed:
				done = true
			case <-w.line.wake:
			}
			continue
		}
		started := w.now()
		_, err := w.apply(w.light, true)
		if err == nil {
			w.stats.committed(len(w.light), w.now().Sub(started))
			answer(w.light, nil)
		} else {
			w.batch = append(w.batch, w.light...)
		}
		clear(w.light)
		if w.light = w.light[:0]; err != nil {
			return err
		}
		select {
		case <-committed:
			done = true
		default:
		}
	}
	return nil
}

// drainLight moves light requests from the line to those that are done next.
func (w *writer) drainLight() int {
	if w.mayKeep() {
		w.light = w.line.takeLight(w.light, w.bounds.Batch, w.tx.light)
	}
	return len(w.light)
}

// mayKeep says whether the journal takes another frame as it is.
func (w *writer) mayKeep() bool {
	y := &w.unflushed
	return y.journal != nil && w.tx.needed && y.loose && !y.large && !w.headroom.full && y.room(w.bounds.Half)
}

// light says whether an operation needs nothing from the tables. If one that does is taken for
// light, its first statement fails with sqlite3.ErrAside.
func (t *tx) light(o operation) bool {
	a, is := o.(*appending)
	if !is || a.once != nil {
		return false
	}
	for i := range a.batch.events {
		if !lightEvent(t, &a.batch.events[i], t.events.last+int64(i)+1) {
			return false
		}
	}
	return true
}

func lightEvent(t *tx, e *incoming, seq int64) bool {
	tenant := t.names.tenants[e.Tenant]
	if tenant == 0 || t.names.kinds[kind{e.Tenant, e.Type, e.Source}] == 0 || e.known != nil || e.Source != "" ||
		t.knownIDs.mayHave(e.Tenant, e.ID) || seq > t.hours[codec.HourOf(codec.Micros(e.AcceptedAt))] {
		return false
	}
	for i := range e.targets {
		at := &e.targets[i]
		target := t.names.targets[at.Endpoint]
		if target == 0 || t.accounts.known[accountOf{target, tenant}] == nil || at.Ordered && e.Key != "" || at.Drop != "" {
			return false
		}
	}
	return true
}
