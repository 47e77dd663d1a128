package sqlite

import (
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
