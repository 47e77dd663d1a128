package postgres

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
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
	if err := s.write(ctx, o); err != nil {
		return nil, err
	}
	return o.done, nil
}

// turn is a change as passed to a writer: already encoded as far as possible.
type turn struct {
	store.Change
	attempt  []byte
	standing []byte
	tell     *batch
}

func (s *Store) turn(c *store.Change) (turn, error) {
	r := turn{Change: *c, tell: s.batch(legible(c.Tell))}
	if c.Attempt != nil {
		r.attempt = codec.EncodeAttempt(c.Attempt)
		brief := grapnel.Attempt{StatusCode: c.Attempt.StatusCode, Class: c.Attempt.Class, Duration: c.Attempt.Duration}
		r.Attempt = &brief
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
	p := t.places[c.Delivery]
	if t.foreign(c, p) {
		return t.spare(c), nil
	}
	if t.sealsChange(c, p) {
		return store.Changed{Fenced: true, Sealed: true}, nil
	}
	if c.Epoch != 0 && (p != nil && t.fenced(p.endpoint, c.Epoch) || c.Standing != nil && t.fenced(c.Standing.Endpoint, c.Epoch)) {
		return store.Changed{Fenced: true}, nil
	}
	t.stand(c.Standing, c.standing)
	if p == nil {
		if is := t.over[c.Delivery]; is != nil {
			done.Status = is.status
			if next := is.lane.first(); next != nil {
				done.Next = next.shown()
			}
		}
		return done, nil
	}
	done.Status = grapnel.Pending
	if (c.Expect != int(p.attempts) && c.Expect != store.AnyAttempts) || !t.yields(p, c.Change) {
		done.Next = t.next(p)
		return done, nil
	}
	t.change(p, c)
	done.Applied, done.Status, done.Next = true, c.Status, t.next(p)
	if !c.Status.Final() {
		done.Status = grapnel.Pending
	}
	if done.Told, err = c.tell.accept(t); err == nil {
		t.note(c.Audit)
	}
	return done, err
}

// foreign reports whether the row with the change's row id belongs to another delivery. p is its
// place, if it is pending.
func (t *tx) foreign(c *turn, p *place) bool {
	if p != nil {
		return !c.Identity.Is(p.event, p.endpoint, p.created)
	}
	is := t.over[c.Delivery]
	return is != nil && !c.Identity.Is(is.event, is.endpoint, is.created)
}

// spare does not change such a row. It only stores the endpoint's standing, which does not depend
// on the row.
func (t *tx) spare(c *turn) store.Changed {
	if st := c.Standing; st != nil {
		if t.seals(t.endpoints[st.Endpoint].tenant) || c.Epoch != 0 && t.fenced(st.Endpoint, c.Epoch) {
			return store.Changed{Fenced: true}
		}
		t.stand(st, c.standing)
	}
	return store.Changed{Foreign: true}
}

// change applies the change to p.
func (t *tx) change(p *place, c *turn) {
	t.release(p)
	if c.Attempt != nil {
		p.attempts++
		p.last = last{statusCode: int32(c.Attempt.StatusCode), class: c.Attempt.Class, took: int64(c.Attempt.Duration)}
		if !c.Uncounted {
			t.tried(p, &c.Change)
		}
	}
	if c.Status.Final() {
		t.finish(p, &store.Ending{Status: c.Status, ReasonCode: c.ReasonCode, Reason: c.Reason, At: c.At, Uncounted: c.Uncounted}, c.attempt,
			c.NextDelay)
		return
	}
	if c.attempt != nil {
		t.attempts = append(t.attempts, attempt{p.seq, p.attempts, c.attempt})
	}
	p.code, p.reason, p.trigger, p.dirty = c.ReasonCode, c.Reason, c.Trigger, true
	if !p.head {
		return // a delivery behind its lane's head has no schedule to change; it gets one as the head
	}
	if c.Attempt != nil {
		p.wide = none
		if c.EndpointWide {
			p.wide = codec.Micros(c.At)
		}
	}
	if !c.Anchor.IsZero() {
		p.anchor = codec.Micros(c.Anchor)
	}
	p.due, p.blocked = codec.Micros(c.Due), c.Blocked
	if c.Blocked {
		p.due = none
	}
}
