package sqlite

import (
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// place is a pending delivery, or nil.
func (t *tx) place(delivery int64) (*place, error) {
	if d := t.pending.rows[delivery]; d != nil {
		return d, nil
	}
	return t.readPlace(t.q.pending.Int(delivery))
}

// readPlace reads the pending delivery that a query finds, or returns nil.
func (t *tx) readPlace(q *sqlite3.Stmt) (*place, error) {
	return rows.First(q, nil, func(q *sqlite3.Stmt) (d *place, err error) {
		d = new(place)
		pendingRead.Read(q, d)
		d.Endpoint, err = t.endpoint(d.target)
		return d, err
	})
}

// find returns a delivery, finished or pending; then it has no status. nil: there is none.
func (t *tx) find(delivery int64) (*ended, error) {
	if d, err := t.place(delivery); err != nil {
		return nil, err
	} else if d != nil {
		return &ended{place: *d}, nil
	}
	return t.over(delivery)
}

// over reads a finished delivery, or returns nil.
func (t *tx) over(delivery int64) (*ended, error) {
	return rows.First(t.q.finished.Int(delivery), nil, func(q *sqlite3.Stmt) (f *ended, err error) {
		f = &ended{place: place{Pending: decide.Pending{Seq: delivery}}}
		finishedRead.Read(q, f)
		f.Endpoint, err = t.endpoint(f.target)
		return f, err
	})
}

// lane is a lane, which the table may not have yet.
func (t *tx) lane(of laneOf) (*lane, error) {
	if l := t.pending.lanes[of]; l != nil {
		return l, nil
	}
	last, err := rows.Integer(t.q.lane.Int(of.target).Text(of.key))
	stored := last != 0 // a row of lane has a position
	if !stored && err == nil {
		last, err = rows.Integer(t.q.lane.Int(of.target).Text(forgotten))
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
	last, err := rows.Integer(t.q.dropLane.Int(of.target).Text(of.key).Int(position).Bool(long))
	if last == 0 || err != nil {
		return err
	}
	return t.q.raiseLane.Int(of.target).Text(forgotten).Int(last).Run()
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
