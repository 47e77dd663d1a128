package sqlite

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// place is a row of pending: the state of an unfinished delivery. Its code and reason are only
// written, by plan and mark. Of its lease it has the fields needed to end the lease.
type place struct {
	seq, target, event, tenant int64
	kind                       int64 // of its event; 0: step 13 found the delivery pending
	head, blocked              bool
	due, anchor                time.Time // zero when they are not set
	position                   int64
	attempts                   int
	created                    int64
	replayOf                   int64
	trigger                    grapnel.Trigger
	lane                       string
	wide                       time.Time // zero when it is not set
	outcome                    int64     // of the last attempt
	token, consumer            string    // of its lease; empty: it has none
}

// shown is the part of a place that scheduling needs.
func (d *place) shown(endpoint string) *store.Head {
	return &store.Head{
		Delivery:  d.seq,
		Event:     d.event,
		Endpoint:  endpoint,
		Lane:      d.lane,
		Position:  d.position,
		Due:       d.due,
		Blocked:   d.blocked,
		Attempts:  d.attempts,
		Anchor:    d.anchor,
		Trigger:   d.trigger,
		CreatedAt: codec.Moment(d.created),
	}
}

// readPlace reads the pendingColumns of one row, or returns nil.
func readPlace(q *sqlite3.Stmt) (*place, error) {
	found, err := q.Row()
	if !found {
		return nil, err
	}
	defer q.Reset()
	d := &place{
		seq: q.Integer(0), target: q.Integer(1), event: q.Integer(2), tenant: q.Integer(3),
		head: q.Integer(4) == 1, blocked: q.Integer(5) == 1, due: readTime(q, 6), anchor: readTime(q, 7),
		position: q.Integer(8), attempts: int(q.Integer(9)), created: q.Integer(10), replayOf: q.Integer(11),
		trigger: readWord(q, 12, codec.Triggers), lane: q.String(13), wide: readTime(q, 14), outcome: q.Integer(15),
	}
	if !q.IsNull(16) {
		d.token, d.consumer = q.String(16), q.String(17)
	}
	d.kind = q.Integer(18)
	return d, nil
}

// bindTime writes a time that may be NULL.
func bindTime(s *sqlite3.Stmt, at time.Time, null bool) {
	if null {
		s.Null()
		return
	}
	s.Int(codec.Micros(at))
}

// readTime reads a time that may be NULL.
func readTime(q *sqlite3.Stmt, column int) time.Time {
	if q.IsNull(column) {
		return time.Time{}
	}
	return codec.Moment(q.Integer(column))
}

func (t *tx) place(delivery int64) (*place, error) { return readPlace(t.q.pending.Int(delivery)) }

// laneHead is the pending delivery with the lowest position in a lane.
func (t *tx) laneHead(target int64, lane string) (*place, error) {
	return readPlace(t.q.laneHead.Int(target).Text(lane))
}

// lead makes d the head of its lane and starts its policy's clock, but not before d was created,
// even if the clock that finished its predecessor was behind.
func (t *tx) lead(d *place, at time.Time, delay time.Duration) error {
	d.anchor = codec.Moment(max(codec.Micros(at), d.created))
	d.head, d.due = true, codec.Moment(codec.Micros(d.anchor.Add(delay)))
	return t.q.lead.Int(codec.Micros(d.due)).Int(codec.Micros(d.anchor)).Int(d.seq).Run()
}

// finish makes d final and returns the new head of its lane, if there is one. If d was the head,
// that is the next delivery of the lane, which begins with this delay.
func (t *tx) finish(d *place, e store.Ending, last []byte, delay time.Duration) (*place, error) {
	if d.replayOf != 0 {
		if err := t.repeated(d, e.Status); err != nil {
			return nil, err
		}
	}
	if err := t.q.dropPending.Int(d.seq).Run(); err != nil {
		return nil, err
	}
	t.release(d)
	if err := t.queued(d, -1); err != nil {
		return nil, err
	}
	if err := t.archive(d, e, last); err != nil || d.position == 0 {
		return nil, err
	}
	next, err := t.laneHead(d.target, d.lane)
	if err == nil && next != nil && d.head {
		err = t.lead(next, e.At, delay)
	}
	return next, err
}

// archive writes the row of a finished delivery.
func (t *tx) archive(d *place, e store.Ending, last []byte) error {
	status, known := statuses.Place(e.Status)
	if !known {
		return fmt.Errorf("sqlite: %q is not a status", e.Status)
	}
	t.count(d.target, d.tenant, status, 1)
	if !e.Uncounted {
		if err := t.ended(d, &e); err != nil {
			return err
		}
	}
	insert := t.q.addFinished.Int(d.seq).Int(d.target).Int(d.event).Int(d.tenant).Int(status).Int(d.position).
		Int(int64(d.attempts)).Int(d.created).Int(codec.Micros(e.At)).Int(d.replayOf)
	outcome := withReason(d.outcome, e.ReasonCode)
	if status == statusDelivered {
		if err := t.delivered(d, outcome); err != nil {
			return err
		}
	}
	if err := bindWord(insert, reasonCodes, e.ReasonCode).Text(e.Reason).Blob(last).Int(outcome).Run(); err != nil || status != statusFailed {
		return err
	}
	return t.letter(addLetterQuery, d.target, d.seq)
}

const (
	// addLetterQuery adds none that was repeated with success while it was pending.
	addLetterQuery = `INSERT INTO letter (target, seq) SELECT ?1, ?2
		WHERE NOT EXISTS (SELECT 1 FROM mark WHERE delivery = ?2 AND replay_result = 3)`
	dropLetterQuery = "DELETE FROM letter WHERE target = ? AND seq = ?"
)

// letter adds or removes a dead letter.
func (t *tx) letter(query string, target, seq int64) error {
	q, err := t.conn.Prepare(query)
	if err != nil {
		return err
	}
	return q.Int(target).Int(seq).Run()
}
