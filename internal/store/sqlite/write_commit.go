package sqlite

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// commit writes the combined changes of all operations, and commits. number is that of the last
// batch. needed says whether the journal may get frames with higher numbers before the next commit.
func (t *tx) commit(number uint64, needed bool) error {
	err := t.combine(number, needed)
	if err == nil {
		err = t.q.commit.Run()
	}
	if err == nil {
		t.committedWith(number, needed)
	}
	return err
}

// combine writes the combined changes of all operations. A commit follows, at once or later.
func (t *tx) combine(number uint64, needed bool) error {
	t.unflushed.begun.Add(1)
	if err := t.store(); err != nil {
		return err
	}
	for at, change := range t.tallies {
		if change == 0 {
			continue
		}
		if err := t.q.addTally.Int(at.target).Int(at.tenant).Int(at.status).Int(change).Run(); err != nil {
			return err
		}
	}
	if err := errors.Join(writeAccounts(t), writeTypes(t)); err != nil {
		return err
	}
	if l := t.ledger; l != (ledger{}) {
		if err := t.q.addLedger.Int(l.purged).Int(l.event).Int(l.delivery).Run(); err != nil {
			return err
		}
	}
	if t.version != t.committed {
		if err := t.q.setVersion.Int(t.version).Run(); err != nil {
			return err
		}
	}
	if number != t.number || needed != t.needed || t.data.used != t.data.noted {
		y, frame := t.unflushed, uint64(0)
		if y.journal != nil {
			frame = y.journal.Last()
		}
		q := t.q.setJournal.Int(int64(number | widened)).Bool(needed).Bool(t.data.used).Int(int64(y.generation))
		err := q.Int(int64(frame | widened)).Int(int64(y.alone.Load() | widened)).Int(t.data.until | widened).Run()
		if err != nil {
			return err
		}
	}
	clear(t.tallies)
	t.ledger = ledger{}
	return nil
}

// committedWith notes that the transaction is committed.
func (t *tx) committedWith(number uint64, needed bool) {
	t.committed, t.number, t.needed, t.data.noted = t.version, number, needed, t.data.used
	t.unflushed.ended.Store(t.unflushed.begun.Load())
	t.unflushed.replayed.Store(false)
	t.dedupe.committed()
}

// store writes the rows that are deferred, those of pending deliveries, and how far the positions
// of lanes have come.
func (t *tx) store() error {
	if err := t.writeDeferred(); err != nil {
		return err
	}
	w := &t.pending
	for of, l := range w.lanes {
		if l.last != l.stored {
			if err := t.q.setLane.Int(of.target).Text(of.key).Int(l.last).Run(); err != nil {
				return err
			}
		}
		l.stored, l.table, l.rows = l.last, l.table || len(l.rows) > 0, nil
	}
	rows := slices.SortedFunc(maps.Values(w.rows), func(a, b *place) int { return cmp.Compare(a.Seq, b.Seq) })
	if err := addRows(pendingAdded, t.q.addPending, len(rows), func(i int) *place { return rows[i] }); err != nil {
		return err
	}
	for _, d := range rows {
		if d.changed {
			if err := storeChange(t, d); err != nil {
				return err
			}
		}
	}
	clear(w.rows)
	if len(w.lanes) > t.bounds.Names {
		clear(w.lanes)
	}
	return nil
}

// storeChange writes the columns of a row that an attempt has changed.
func storeChange(t *tx, d *place) error {
	if d.Head {
		return planned.Bind(t.q.plan, d).Int(d.Seq).Run()
	}
	return marked.Bind(t.q.mark, d).Int(d.Seq).Run()
}

// writeDeferred writes all rows that are deferred.
func (t *tx) writeDeferred() error {
	o := &t.deferred
	if o.rows() == 0 {
		return nil
	}
	err := addRows(eventAdded, t.q.addEvents, len(o.events), func(i int) *eventRow { return &o.events[i] })
	if err == nil {
		err = addRows(knownAdded, t.q.addKnown, len(o.known), func(i int) *knownRow { return &o.known[i] })
	}
	if err == nil {
		err = addRows(finishedAdded, t.q.addFinished, len(o.finished), func(i int) *ended { return &o.finished[i] })
	}
	if err == nil {
		o.forget()
	}
	return err
}

// addRows adds n rows to a table.
func addRows[R any](c rows.Columns[R], a adding, n int, row func(i int) *R) error {
	for i := 0; i < n; {
		s, end := a.one, i+1
		if n-i >= a.rows {
			s, end = a.many, i+a.rows
		}
		for ; i < end; i++ {
			c.Bind(s, row(i))
		}
		if err := s.Run(); err != nil {
			return err
		}
	}
	return nil
}
