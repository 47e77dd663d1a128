package postgres

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
	"github.com/grapnelhq/grapnel/policy"
)

// Record applies the changes in order. The result of each is the state right after it, not after
// all of them.
func (s *changer) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	o := &recording{turns: make([]turn, len(changes))}
	for i := range changes {
		var err error
		if o.turns[i], err = s.turn(ctx, &changes[i]); err != nil {
			return nil, err
		}
	}
	if len(changes) == 0 {
		return []store.Changed{}, ctx.Err()
	}
	return result(&o.done, s.write(ctx, o))
}

// turn is a change as passed to a writer: already encoded as far as possible. The Change has no
// Attempt of its own, so all that the writer needs of one is here.
type turn struct {
	store.Change
	Attempt  *tried // in place of the Change's; nil: no attempt led to the change
	attempt  []byte // the whole attempt, encoded
	standing []byte
	tell     *batch
}

// tried has the parts of an attempt that are columns of a delivery or counted in totals.
type tried struct {
	StatusCode int
	Class      policy.Class
	Duration   time.Duration
	totals     grapnel.Tried
}

func (s *changer) turn(ctx context.Context, c *store.Change) (r turn, err error) {
	r.Change = *c
	if r.Reason, err = s.packer.SealReason(ctx, c.Tenant, c.Delivery, c.Status, c.Reason); err != nil {
		return r, err
	}
	if r.tell, err = s.batch(ctx, rows.Legible(c.Operational)); err != nil {
		return r, err
	}
	if c.Attempt != nil {
		if r.attempt, err = s.packer.EncodeAttempt(ctx, c.Tenant, c.Delivery, c.Attempt); err != nil {
			return r, err
		}
		r.Attempt = &tried{c.Attempt.StatusCode, c.Attempt.Class, c.Attempt.Duration, decide.Tried(c)}
		r.Change.Attempt = nil
	}
	if c.Standing != nil {
		r.standing, err = codec.EncodeStanding(c.Standing.Standing)
	}
	return r, err
}

type recording struct {
	turns []turn
	done  []store.Changed
}

func (o *recording) need(n *needs) {
	for i := range o.turns {
		c := &o.turns[i]
		switch {
		case !c.Lone || c.Lease != nil:
			n.deliveries = append(n.deliveries, c.Delivery)
		case c.Status.Final():
			n.taken = append(n.taken, c.Delivery)
		default:
			n.lone = append(n.lone, c.Delivery)
		}
		switch {
		case c.Identity.Event != 0: // the change applies to no delivery of another endpoint
			n.guard(c.Identity.Endpoint, c.Epoch)
		case c.Epoch != 0:
			n.guarded = append(n.guarded, c.Delivery)
		}
		if c.Standing != nil {
			n.endpoints[c.Standing.Endpoint] = true
			n.guard(c.Standing.Endpoint, c.Epoch)
		}
		if c.Answer != nil {
			n.once(c.Answer.Once())
		}
		c.tell.need(n)
	}
}

func (o *recording) apply(t *tx) (err error) {
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
func applyTurn(t *tx, c *turn) (done store.Changed, err error) {
	p, is := t.places[c.Delivery], t.over[c.Delivery]
	var found decide.Found
	if p != nil {
		found.Pending = &p.Pending
	} else if is != nil {
		found = is.Found
	}
	judged := c.Change
	judged.At = codec.Moment(codec.Micros(t.at(c.At)))
	if done = found.Judge(&judged); done.Foreign {
		return spareRow(t, c), nil
	}
	if c.Epoch != 0 && (p != nil && fenced(t, p.Endpoint, c.Epoch) || c.Standing != nil && fenced(t, c.Standing.Endpoint, c.Epoch)) {
		return store.Changed{Fenced: true}, nil
	}
	t.stand(c.Standing, c.standing)
	if done.Applied {
		changePlace(t, p, c)
	}
	if p != nil {
		done.Next = t.next(p)
	} else if is != nil {
		done.Next = is.lane.first().shown()
	}
	if !done.Applied {
		return done, nil
	}
	if done.Operational, err = c.tell.accept(t); err == nil {
		t.note(c.Audit)
		if a := c.Answer; a != nil && liveAnswer(t, a.Key, a.Now) == nil {
			remember(t, a.Once(), nil)
		}
	}
	return done, err
}

// spareRow does not change a row that belongs to another delivery. It only stores the endpoint's
// standing, which does not depend on the row.
func spareRow(t *tx, c *turn) store.Changed {
	if st := c.Standing; st != nil {
		if c.Epoch != 0 && fenced(t, st.Endpoint, c.Epoch) {
			return store.Changed{Fenced: true}
		}
		t.stand(st, c.standing)
	}
	return store.Changed{Foreign: true}
}

// changePlace applies the change to p.
func changePlace(t *tx, p *place, c *turn) {
	t.release(p)
	counts := p.Counts(&c.Change)
	p.Apply(&c.Change, c.Attempt != nil)
	p.dirty = true
	if c.Attempt != nil {
		p.statusCode, p.class, p.took = int32(c.Attempt.StatusCode), c.Attempt.Class, int64(c.Attempt.Duration)
		if counts {
			countAttempt(t, p, c)
		}
	}
	if c.Status.Final() {
		t.finish(p, decide.Ending(&c.Change), c.attempt, c.NextDelay)
	} else if c.attempt != nil {
		t.attempts = append(t.attempts, attempt{p.Seq, int32(p.Attempts), c.attempt})
	}
}

// countAttempt counts a recorded attempt.
func countAttempt(t *tx, p *place, c *turn) {
	t.sum(p, codec.Micros(c.At), func(sum *grapnel.Totals) { sum.Tried(&c.Attempt.totals, p.Attempts) })
}
