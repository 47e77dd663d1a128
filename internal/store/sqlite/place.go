package sqlite

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// place is a row of pending: the state of an unfinished delivery. Its code and reason are only
// written. Of its lease it has the fields needed to end the lease.
type place struct {
	decide.Pending
	target, tenant int64
	kind           int64  // of its event
	outcome        int64  // of the last attempt
	consumer       string // of its lease
	changed        bool   // by an attempt, and it has no row yet
}

// ended is a row of finished.
type ended struct {
	place
	status grapnel.Status
	at     int64
	last   []byte // its last attempt
	ending int64  // where that is in the table ending; 0: it is in the row
}

var (
	pendingColumns = columns[place]{
		number("seq", adds|reads, func(d *place) *int64 { return &d.Seq }),
		number("target", adds|reads, func(d *place) *int64 { return &d.target }),
		number("event", adds|reads, func(d *place) *int64 { return &d.Event }),
		number("tenant", adds|reads, func(d *place) *int64 { return &d.tenant }),
		truth("head", adds|reads|leads, func(d *place) *bool { return &d.Head }),
		truth("blocked", adds|reads|plans|leads, func(d *place) *bool { return &d.Blocked }),
		moment("due", adds|reads|plans|leads, func(d *place) *int64 { return &d.Due }),
		moment("anchor", adds|reads|plans|leads, func(d *place) *int64 { return &d.Anchor }),
		number("position", adds|reads, func(d *place) *int64 { return &d.Position }),
		number("attempts", adds|reads|plans|marks, func(d *place) *int { return &d.Attempts }),
		number("created", adds|reads, func(d *place) *int64 { return &d.Created }),
		number("replay_of", adds|reads, func(d *place) *int64 { return &d.ReplayOf }),
		word(`"trigger"`, adds|reads|plans|marks, codec.Triggers, func(d *place) *grapnel.Trigger { return &d.Trigger }),
		word("code", adds|plans|marks, reasonCodes, func(d *place) *grapnel.ReasonCode { return &d.Code }),
		textual("reason", plans|marks, func(d *place) *string { return &d.Reason }),
		label("lane", adds|reads, func(d *place) *string { return &d.Key }),
		moment("wide", reads|plans, func(d *place) *int64 { return &d.Wide }),
		number("outcome", reads|plans|marks, func(d *place) *int64 { return &d.outcome }),
		label("token", reads|plans, func(d *place) *string { return &d.Token }),
		label("consumer", reads, func(d *place) *string { return &d.consumer }),
		number("kind", adds|reads, func(d *place) *int64 { return &d.kind }),
	}
	finishedColumns = columns[ended]{
		number("seq", adds, func(f *ended) *int64 { return &f.Seq }),
		number("target", adds|reads, func(f *ended) *int64 { return &f.target }),
		number("event", adds|reads, func(f *ended) *int64 { return &f.Event }),
		number("tenant", adds, func(f *ended) *int64 { return &f.tenant }),
		word("status", adds|reads, statuses, func(f *ended) *grapnel.Status { return &f.status }),
		number("position", adds|reads, func(f *ended) *int64 { return &f.Position }),
		number("attempts", adds, func(f *ended) *int { return &f.Attempts }),
		number("created", adds|reads, func(f *ended) *int64 { return &f.Created }),
		number("finished", adds, func(f *ended) *int64 { return &f.at }),
		number("replay_of", adds|reads, func(f *ended) *int64 { return &f.ReplayOf }),
		word("code", adds, reasonCodes, func(f *ended) *grapnel.ReasonCode { return &f.Code }),
		textual("reason", adds, func(f *ended) *string { return &f.Reason }),
		{name: "last", uses: adds, bind: func(s *sqlite3.Stmt, f *ended) {
			if f.ending == 0 {
				s.Blob(f.last)
				return
			}
			s.Int(f.ending)
		}},
		number("outcome", adds, func(f *ended) *int64 { return &f.outcome }),
	}

	pendingAdded, pendingRead = pendingColumns.of(adds), pendingColumns.of(reads)
	planned, marked, led      = pendingColumns.of(plans), pendingColumns.of(marks), pendingColumns.of(leads)
	finishedAdded             = finishedColumns.of(adds)
	finishedRead              = finishedColumns.of(reads)
)

// readTime reads a time that may be NULL.
func readTime(q *sqlite3.Stmt, column int) time.Time {
	if q.IsNull(column) {
		return time.Time{}
	}
	return codec.Moment(q.Integer(column))
}

// place is a pending delivery, or nil.
func (t *tx) place(delivery int64) (*place, error) {
	if d := t.pending.rows[delivery]; d != nil {
		return d, nil
	}
	return t.readPlace(t.q.pending.Int(delivery))
}

// readPlace reads the pending delivery that a query finds, or returns nil.
func (t *tx) readPlace(q *sqlite3.Stmt) (*place, error) {
	return first(q, nil, func(q *sqlite3.Stmt) (d *place, err error) {
		d = new(place)
		pendingRead.read(q, d)
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
	return first(t.q.finished.Int(delivery), nil, func(q *sqlite3.Stmt) (f *ended, err error) {
		f = &ended{place: place{Pending: decide.Pending{Seq: delivery}}}
		finishedRead.read(q, f)
		f.Endpoint, err = t.endpoint(f.target)
		return f, err
	})
}

// finish makes d final and returns the new head of its lane, if there is one. If d was the head,
// that is the next delivery of the lane, which begins with this delay.
func finish(t *tx, d *place, e store.Ending, last []byte, delay time.Duration) (*place, error) {
	if d.ReplayOf != 0 {
		if err := noteRepeated(t, d, e.Status); err != nil {
			return nil, err
		}
	}
	if !t.pending.drop(d) {
		if err := t.q.dropPending.Int(d.Seq).Run(); err != nil {
			return nil, err
		}
	}
	releaseLease(t, d)
	if err := sumQueued(t, d, -1); err != nil {
		return nil, err
	}
	if err := archive(t, d, e, last); err != nil || d.Position == 0 {
		return nil, err
	}
	next, err := t.laneHead(d.target, d.Key)
	if err == nil && next != nil && d.Head {
		if next.Lead(codec.Micros(e.At), delay); t.pending.rows[next.Seq] == nil {
			err = led.bind(t.q.lead, next).Int(next.Seq).Run()
		}
	}
	return next, err
}

// archive writes the row of a finished delivery.
func archive(t *tx, d *place, e store.Ending, last []byte) error {
	status, known := statuses.Place(e.Status)
	if !known {
		return fmt.Errorf("sqlite: %q is not a status", e.Status)
	}
	t.tallies[tally{d.target, d.tenant, status}]++
	e = d.End(e)
	if !e.Uncounted {
		if err := sumEnded(t, d, &e); err != nil {
			return err
		}
	}
	d.Code, d.Reason, d.outcome = e.ReasonCode, e.Reason, withReason(d.outcome, e.ReasonCode)
	if status == statusDelivered {
		if err := noteOutcome(t, d); err != nil {
			return err
		}
	}
	f := ended{place: *d, status: e.Status, at: codec.Micros(e.At), last: last}
	if last != nil && t.deliveries.last-d.Seq > t.bounds.Behind {
		var err error
		if f.ending, err = lookUp(t.q.addEnding.Blob(last)); err != nil {
			return err
		}
	}
	t.deferred.finished = append(t.deferred.finished, f)
	if status != statusFailed {
		return nil
	}
	return t.conn.Query(addLetterQuery).Int(d.target).Int(d.Seq).Run()
}

const (
	// addLetterQuery adds none that was repeated with success while it was pending.
	addLetterQuery = `INSERT INTO letter (target, seq) SELECT ?1, ?2
		WHERE NOT EXISTS (SELECT 1 FROM mark WHERE delivery = ?2 AND replay_result = 3)`
	dropLetterQuery = "DELETE FROM letter WHERE target = ? AND seq = ?"
)
