package sqlite

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// Record applies the changes in order; each result is the state right after its change.
func (s *changer) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	o := &recording{turns: make([]turn, len(changes))}
	for i := range changes {
		if err := s.turn(ctx, &changes[i], &o.turns[i]); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(changes, func(c store.Change) bool { return c.Answer != nil }) {
		err := s.write(ctx, o)
		return o.done, err
	}
	with := &answering{recording: o}
	for i := range changes {
		if a := changes[i].Answer; a != nil {
			with.answers = append(with.answers, answered{i, *a})
		}
	}
	err := s.write(ctx, with)
	return o.done, err
}

// answering is a recording with answers, which are stored with their changes.
type answering struct {
	*recording
	answers []answered
}

// answered is the answer to the request for a change.
type answered struct {
	turn int // index of the change
	store.Answered
}

func (o *answering) apply(t *tx) error {
	if err := o.recording.apply(t); err != nil {
		return err
	}
	for i := range o.answers {
		a := &o.answers[i]
		if !o.done[a.turn].Applied {
			continue
		}
		is, err := live(t.q.answer, a.Key, a.Now)
		if is == nil && err == nil {
			_, err = remember(t, a.Once(), nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// turn is a change as passed to the writer: already encoded as far as possible. Most changes have
// only an attempt.
type turn struct {
	*store.Change
	attempt  []byte        // instead of Attempt
	tried    grapnel.Tried // by Attempt
	standing []byte        // instead of Standing's fields
	tell     *batch        // instead of Operational
}

func (s *changer) turn(ctx context.Context, c *store.Change, r *turn) (err error) {
	*r = turn{Change: c}
	if reason, err := s.packer.SealReason(ctx, c.Tenant, c.Delivery, c.Status, c.Reason); err != nil {
		return err
	} else if reason != c.Reason {
		is := *c
		is.Reason, r.Change = reason, &is
	}
	if r.tell, err = s.batch(ctx, c.Operational); err != nil {
		return err
	}
	if c.Attempt != nil {
		r.tried = decide.Tried(c)
		if r.attempt, err = s.packer.EncodeAttempt(ctx, c.Tenant, c.Delivery, c.Attempt); err != nil {
			return err
		}
	}
	if c.Standing != nil {
		r.standing, err = codec.EncodeStanding(c.Standing.Standing)
	}
	return err
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
		if o.done[i], err = applyTurn(t, &o.turns[i]); err != nil {
			return err
		}
	}
	return nil
}

// applyTurn applies a change with its events and its standing.
func applyTurn(t *tx, c *turn) (store.Changed, error) {
	if c.Standing != nil {
		if err := storeStanding(t, c.Standing, c.standing); err != nil {
			return store.Changed{}, err
		}
	}
	done, err := changeDelivery(t, c.Change, c.attempt, &c.tried)
	if err != nil || !done.Applied {
		return done, err
	}
	if done.Operational, err = c.tell.told(t); err == nil {
		err = writeAudit(t, c.Audit)
	}
	return done, err
}

func changeDelivery(t *tx, c *store.Change, attempt []byte, a *grapnel.Tried) (done store.Changed, err error) {
	d, err := t.place(c.Delivery)
	if err != nil {
		return store.Changed{}, err
	}
	if d == nil {
		return changeLate(t, c)
	}
	found := decide.Found{Pending: &d.Pending}
	if done = found.Judge(c); done.Foreign {
		return done, nil
	}
	next := d
	switch {
	case done.Applied:
		next, err = applyChange(t, d, c, attempt, a)
	case !d.Head:
		next, err = t.laneHead(d.target, d.Key)
	}
	done.Next = next.head()
	return done, err
}

// changeLate is the result of a change of a delivery that is not pending. Its lane may have a new
// head.
func changeLate(t *tx, c *store.Change) (store.Changed, error) {
	if err := t.writeDeferred(); err != nil {
		return store.Changed{}, err
	}
	f, err := t.over(c.Delivery)
	if f == nil || err != nil {
		return store.Changed{}, err
	}
	found := decide.Found{Status: f.status, Event: f.Event, Created: f.Created, Endpoint: f.Endpoint}
	done := found.Judge(c)
	if done.Foreign || f.Position == 0 {
		return done, nil
	}
	lane, err := rows.First(t.q.eventKey.Int(f.Event), nil, rows.ReadText)
	if lane == "" || err != nil {
		return done, err
	}
	next, err := t.laneHead(f.target, lane)
	done.Next = next.head()
	return done, err
}

// head is d, which may be nil, as the head of its lane.
func (d *place) head() *store.Head {
	if d == nil {
		return nil
	}
	h := d.Shown()
	return &h
}

// applyChange makes a change of d and returns the head of its lane, or d itself if it has no lane.
// The attempt that ends d is stored in the finished row, which saves a row for most deliveries.
func applyChange(t *tx, d *place, c *store.Change, attempt []byte, a *grapnel.Tried) (*place, error) {
	releaseLease(t, d)
	counts := d.Counts(c)
	d.Apply(c, attempt != nil)
	if attempt != nil {
		if err := d.tried(attempt); err != nil {
			return nil, err
		}
		if counts {
			if err := sumTried(t, d, a, c.At); err != nil {
				return nil, err
			}
		}
	}
	if c.Status.Final() {
		return finish(t, d, decide.Ending(c), attempt, c.NextDelay)
	}
	if attempt != nil {
		if err := t.q.addAttempt.Int(d.Seq).Int(int64(d.Attempts)).Blob(attempt).Run(); err != nil {
			return nil, err
		}
	}
	if t.pending.rows[d.Seq] != nil {
		d.changed = true
	} else if err := storeChange(t, d); err != nil {
		return nil, err
	}
	if d.Head {
		return d, nil
	}
	return t.laneHead(d.target, d.Key)
}

// storeStanding stores a change's standing, unless a newer one is stored or the endpoint was
// removed: no call would delete that standing any more.
func storeStanding(t *tx, s *store.Standing, body []byte) error {
	at, err := findObject(t, endpoints, s.Endpoint)
	if err != nil || !at.There {
		return err
	}
	return t.q.setStanding.Text(s.Endpoint).Int(s.Number).Blob(body).Run()
}
