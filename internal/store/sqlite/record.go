package sqlite

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// Record applies the changes in order; each result is the state right after its change.
func (s *Store) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	o := &recording{turns: make([]turn, len(changes))}
	for i := range changes {
		var err error
		if o.turns[i], err = s.turn(&changes[i]); err != nil {
			return nil, err
		}
	}
	err := s.write(ctx, o)
	return o.done, err
}

// turn is a change as passed to the writer: already encoded as far as possible. Most changes have
// only an attempt.
type turn struct {
	store.Change
	attempt  []byte        // instead of Attempt
	tried    grapnel.Tried // by Attempt
	standing []byte        // instead of Standing's fields
	tell     *batch        // instead of Tell
}

func (s *Store) turn(c *store.Change) (turn, error) {
	r := turn{Change: *c, tell: s.batch(c.Tell)}
	r.Attempt, r.Tell = nil, nil
	if c.Attempt != nil {
		r.attempt = codec.EncodeAttempt(c.Attempt)
		r.tried = grapnel.Tried{Class: c.Attempt.Class, Answered: c.Attempt.StatusCode > 0, Duration: c.Attempt.Duration,
			Again: !c.Status.Final()}
	}
	var err error
	if c.Standing != nil {
		r.standing, err = codec.EncodeStanding(c.Standing.Standing)
	}
	return r, err
}

// recording is the operation of Record. It works while the disk is full, including the changes'
// operational events, which are stored with their outcome or never.
type recording struct {
	turns []turn
	done  []store.Changed
}

func (o *recording) grows() bool { return false }

func (o *recording) apply(t *tx) (err error) {
	o.done = nil
	for i := range o.turns {
		if o.turns[i].tell.stale(t) {
			return store.ErrStale
		}
	}
	o.done = make([]store.Changed, len(o.turns))
	for i := range o.turns {
		if o.done[i], err = t.turn(&o.turns[i]); err != nil {
			return err
		}
	}
	return nil
}

// turn applies a change with its events and its standing.
func (t *tx) turn(c *turn) (store.Changed, error) {
	if c.Standing != nil {
		if err := t.stand(c.Standing, c.standing); err != nil {
			return store.Changed{}, err
		}
	}
	done, err := t.change(&c.Change, c.attempt, &c.tried)
	if err != nil || !done.Applied {
		return done, err
	}
	if done.Told, err = c.tell.accept(t); err == nil && c.Audit != nil {
		err = t.note(c.Audit)
	}
	return done, err
}

func (t *tx) change(c *store.Change, attempt []byte, a *grapnel.Tried) (store.Changed, error) {
	d, err := t.place(c.Delivery)
	if err != nil {
		return store.Changed{}, err
	}
	if d == nil {
		return t.over(c.Delivery, &c.Identity)
	}
	if foreign, err := t.foreign(&c.Identity, d.event, d.target, d.created); foreign || err != nil {
		return store.Changed{Foreign: true}, err
	}
	if c.Expect != d.attempts && c.Expect != store.AnyAttempts || !c.Yields(d.token, d.due) {
		next, err := t.next(d)
		return store.Changed{Status: grapnel.Pending, Next: next}, err
	}
	if attempt != nil {
		d.attempts++
		if !c.Uncounted {
			if err := t.tried(d, a, c.At); err != nil {
				return store.Changed{}, err
			}
		}
	}
	if c.Status.Final() {
		return t.conclude(d, c, attempt)
	}
	return t.postpone(d, c, attempt)
}

// over reports a delivery that is not pending. Its lane may have a new head, which the result
// contains.
func (t *tx) over(delivery int64, meant *store.Identity) (store.Changed, error) {
	q := t.q.finished.Int(delivery)
	found, err := q.Row()
	if !found {
		return store.Changed{}, err
	}
	target, event, position, created := q.Integer(0), q.Integer(1), q.Integer(3), q.Integer(4)
	done := store.Changed{Status: readWord(q, 2, statuses)}
	q.Reset()
	if foreign, err := t.foreign(meant, event, target, created); foreign || err != nil {
		return store.Changed{Foreign: true}, err
	}
	if position == 0 {
		return done, nil
	}
	q = t.q.eventKey.Int(event)
	found, err = q.Row()
	if !found {
		return done, err
	}
	lane := q.String(0)
	q.Reset()
	head, err := t.laneHead(target, lane)
	if err == nil {
		done.Next, err = t.shown(head)
	}
	return done, err
}

// foreign reports whether a row belongs to another delivery than the intended one.
func (t *tx) foreign(meant *store.Identity, event, target, created int64) (bool, error) {
	endpoint, err := t.endpoint(target)
	return err == nil && !meant.Is(event, endpoint, created), err
}

// next is the head that a change of the pending delivery d returns: d's lane's, or d itself if it
// has no lane.
func (t *tx) next(d *place) (*store.Head, error) {
	if d.head {
		return t.shown(d)
	}
	head, err := t.laneHead(d.target, d.lane)
	if err != nil {
		return nil, err
	}
	return t.shown(head)
}

func (t *tx) shown(d *place) (*store.Head, error) {
	if d == nil {
		return nil, nil
	}
	endpoint, err := t.endpoint(d.target)
	if err != nil {
		return nil, err
	}
	return d.shown(endpoint), nil
}

// conclude makes d final. Its last attempt is stored in the finished row, which saves a row for
// most deliveries.
func (t *tx) conclude(d *place, c *store.Change, attempt []byte) (store.Changed, error) {
	if err := d.tried(attempt); err != nil {
		return store.Changed{}, err
	}
	ending := store.Ending{Status: c.Status, ReasonCode: c.ReasonCode, Reason: c.Reason, At: c.At, Uncounted: c.Uncounted}
	next, err := t.finish(d, ending, attempt, c.NextDelay)
	done := store.Changed{Applied: true, Status: c.Status}
	if err == nil {
		done.Next, err = t.shown(next)
	}
	return done, err
}

// postpone leaves d pending. A delivery behind its head has no schedule to change; it gets one when
// it becomes the head.
func (t *tx) postpone(d *place, c *store.Change, attempt []byte) (store.Changed, error) {
	if err := d.tried(attempt); err != nil {
		return store.Changed{}, err
	}
	if attempt != nil {
		if err := t.q.addAttempt.Int(d.seq).Int(int64(d.attempts)).Blob(attempt).Run(); err != nil {
			return store.Changed{}, err
		}
	}
	t.release(d)
	d.trigger = c.Trigger
	update := t.q.mark
	if d.head {
		update = t.q.plan
	}
	bindWord(bindWord(update.Int(int64(d.attempts)), codec.Triggers, d.trigger), reasonCodes, c.ReasonCode).Text(c.Reason)
	if d.head {
		d.blocked, d.due = c.Blocked, codec.Moment(codec.Micros(c.Due))
		if d.blocked {
			d.due = time.Time{}
		}
		if !c.Anchor.IsZero() {
			d.anchor = codec.Moment(codec.Micros(c.Anchor))
		}
		if attempt != nil {
			d.wide = time.Time{}
			if c.EndpointWide {
				d.wide = codec.Moment(codec.Micros(c.At))
			}
		}
		bindTime(update.Bool(d.blocked), d.due, d.blocked)
		bindTime(update, d.anchor, false)
		bindTime(update, d.wide, d.wide.IsZero())
	}
	if err := update.Int(d.outcome).Int(d.seq).Run(); err != nil {
		return store.Changed{}, err
	}
	next, err := t.next(d)
	return store.Changed{Applied: true, Status: grapnel.Pending, Next: next}, err
}
