package sqlite

import (
	"cmp"
	"maps"
	"slices"
)

// pendingCache has the pending deliveries that have no row yet. Most deliveries are delivered
// within the second, before the transaction that accepted them is committed: they never get a row
// of pending.
//
// Operations that read pending by its indexes call store first: all but Append and Record. So does
// the commit. laneHead and place look here and in the table.
type pendingCache struct {
	rows  map[int64]*place
	lanes map[laneOf]*lane

	// Rows that ended: gone while the operation that ended them may look at them, then spare for new
	// ones.
	gone, spare []*place
}

// laneOf identifies a lane.
type laneOf struct {
	target int64
	key    string
}

// lane is what the writer knows of one.
type lane struct {
	last   int64    // position given last
	stored int64    // that in the table
	table  bool     // the table may have rows of it
	rows   []*place // those without a row, by position; all come after those in the table
}

func (w *pendingCache) forget() { w.rows, w.lanes = make(map[int64]*place), make(map[laneOf]*lane) }

// lane is a lane, which the table may not have yet.
func (t *tx) lane(of laneOf) (*lane, error) {
	if l := t.pending.lanes[of]; l != nil {
		return l, nil
	}
	last, err := integer(t.q.lane.Int(of.target).Text(of.key))
	stored := last != 0 // a row of lane has a position
	if !stored && err == nil {
		last, err = integer(t.q.lane.Int(of.target).Text(forgotten))
	}
	if err != nil {
		return nil, err
	}
	l := &lane{last: last, stored: last, table: stored}
	t.pending.lanes[of] = l
	return l, nil
}

// forgotten is the key of the row with the highest position of an endpoint's forgotten lanes. A
// lane that begins goes on above it, so the positions of a key never go back.
const forgotten = ""

// forgetLane removes the row of a lane, if nothing waits in it and the purged delivery had its last
// position, or was pending for long: for the shortest retention, so that the delivery with the last
// position may have been purged meanwhile. Otherwise each key that was ever used would have a row
// for ever.
func forgetLane(t *tx, of laneOf, position int64, long bool) error {
	if position == 0 {
		return nil
	}
	last, err := integer(t.q.dropLane.Int(of.target).Text(of.key).Int(position).Bool(long))
	if last == 0 || err != nil {
		return err
	}
	return t.q.raiseLane.Int(of.target).Text(forgotten).Int(last).Run()
}

// add adds a new pending delivery.
func (w *pendingCache) add(d *place) {
	var row *place
	if last := len(w.spare) - 1; last >= 0 {
		row, w.spare = w.spare[last], w.spare[:last]
	} else {
		row = new(place)
	}
	*row = *d
	w.rows[d.Seq] = row
	if d.Position != 0 {
		l := w.lanes[laneOf{d.target, d.Key}]
		l.rows = append(l.rows, row)
	}
}

// drop removes a pending delivery that ends. false: it is in the table.
func (w *pendingCache) drop(d *place) bool {
	row := w.rows[d.Seq]
	if row == nil {
		return false
	}
	delete(w.rows, d.Seq)
	w.gone = append(w.gone, row)
	if d.Position != 0 {
		l := w.lanes[laneOf{d.target, d.Key}]
		l.rows = slices.DeleteFunc(l.rows, func(row *place) bool { return row.Seq == d.Seq })
	}
	return true
}

// reuse makes the rows that earlier operations have ended spare ones, at most this many.
func (w *pendingCache) reuse(most int) {
	w.spare = append(w.spare, w.gone[:min(len(w.gone), most-len(w.spare))]...)
	clear(w.gone)
	w.gone = w.gone[:0]
}

// laneHead is the pending delivery with the lowest position in a lane.
func (t *tx) laneHead(target int64, key string) (*place, error) {
	l := t.pending.lanes[laneOf{target, key}]
	if l == nil || l.table {
		head, err := t.readPlace(t.q.laneHead.Int(target).Text(key))
		if head != nil || err != nil || l == nil {
			return head, err
		}
		l.table = false
	}
	if len(l.rows) == 0 {
		return nil, nil
	}
	return l.rows[0], nil
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
		return planned.bind(t.q.plan, d).Int(d.Seq).Run()
	}
	return marked.bind(t.q.mark, d).Int(d.Seq).Run()
}
