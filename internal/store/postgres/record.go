package postgres

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/policy"
)

// Record applies the changes in order. The result of each is the state right after it, not after
// all of them.
func (s *Store) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	o := &recording{turns: make([]turn, len(changes))}
	for i := range changes {
		var err error
		if o.turns[i], err = s.turn(&changes[i]); err != nil {
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

func (s *Store) turn(c *store.Change) (turn, error) {
	r := turn{Change: *c, tell: s.batch(legible(c.Operational))}
	if c.Attempt != nil {
		r.attempt = codec.EncodeAttempt(c.Attempt)
		r.Attempt = &tried{c.Attempt.StatusCode, c.Attempt.Class, c.Attempt.Duration, decide.Tried(c)}
		r.Change.Attempt = nil
	}
	var err error
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
		if o.done[i], err = t.turn(&o.turns[i]); err != nil {
			return err
		}
	}
	return nil
}

// turn applies a change with its events and its standing.
func (t *tx) turn(c *turn) (done store.Changed, err error) {
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
		return t.spare(c), nil
	}
	if c.Epoch != 0 && (p != nil && t.fenced(p.Endpoint, c.Epoch) || c.Standing != nil && t.fenced(c.Standing.Endpoint, c.Epoch)) {
		return store.Changed{Fenced: true}, nil
	}
	t.stand(c.Standing, c.standing)
	if done.Applied {
		t.change(p, c)
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
		if a := c.Answer; a != nil && t.live(a.Key, a.Now) == nil {
			t.remember(a.Once(), nil)
		}
	}
	return done, err
}

// spare does not change a row that belongs to another delivery. It only stores the endpoint's
// standing, which does not depend on the row.
func (t *tx) spare(c *turn) store.Changed {
	if st := c.Standing; st != nil {
		if c.Epoch != 0 && t.fenced(st.Endpoint, c.Epoch) {
			return store.Changed{Fenced: true}
		}
		t.stand(st, c.standing)
	}
	return store.Changed{Foreign: true}
}

// change applies the change to p.
func (t *tx) change(p *place, c *turn) {
	t.release(p)
	counts := p.Counts(&c.Change)
	p.Apply(&c.Change, c.Attempt != nil)
	p.dirty = true
	if c.Attempt != nil {
		p.statusCode, p.class, p.took = int32(c.Attempt.StatusCode), c.Attempt.Class, int64(c.Attempt.Duration)
		if counts {
			t.tried(p, c)
		}
	}
	if c.Status.Final() {
		t.finish(p, decide.Ending(&c.Change), c.attempt, c.NextDelay)
	} else if c.attempt != nil {
		t.attempts = append(t.attempts, attempt{p.Seq, int32(p.Attempts), c.attempt})
	}
}
