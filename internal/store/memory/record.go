package memory

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// Record applies the changes in order; each result is the state right after its change.
func (s *model) Record(_ context.Context, changes []store.Change) ([]store.Changed, error) {
	for i := range changes {
		if s.stale(changes[i].Operational) {
			return nil, store.ErrStale
		}
	}
	done := make([]store.Changed, len(changes))
	for i := range changes {
		done[i] = s.turn(&changes[i])
	}
	return done, nil
}

// turn applies a change with its events and its standing.
func (s *model) turn(c *store.Change) store.Changed {
	s.stand(c.Standing)
	d := s.delivery(c.Delivery)
	if d == nil {
		return store.Changed{}
	}
	found := decide.Found{Pending: &d.Pending}
	if d.status.Final() {
		found = decide.Found{Status: d.status, Event: d.Event, Created: d.Created, Endpoint: d.Endpoint}
	}
	done := found.Judge(c)
	if done.Foreign {
		return done
	}
	if done.Applied {
		s.apply(d, c)
	}
	if done.Next = d.next(); done.Applied {
		done.Operational = s.take(c.Operational)
		s.note(c.Audit)
		if a := c.Answer; a != nil && s.live(a.Key, a.Now) == nil {
			s.remember(a.Once(), nil)
		}
	}
	return done
}

func (s *model) apply(d *delivery, c *store.Change) {
	s.delist(d)
	counts := d.Counts(c)
	d.Apply(c, c.Attempt != nil)
	if c.Attempt != nil {
		d.tries = append(d.tries, copyAttempt(*c.Attempt))
		if counts {
			s.tried(d, c)
		}
	}
	if c.Status.Final() {
		s.finish(d, decide.Ending(c), c.NextDelay)
	} else {
		s.enlist(d)
	}
}

// End takes the oldest first. So if it stops in a lane, it stops at the lowest position left, which
// is then the head.
func (s *model) End(_ context.Context, endpoint string, e store.Ending, limit int) (int, error) {
	q := s.queue(endpoint)
	ended := 0
	for ; ended < limit && q.pending.size > 0; ended++ {
		oldest := q.pending.first()
		if e.UpTo != 0 && oldest.Seq > e.UpTo {
			break
		}
		s.delist(oldest)
		s.finish(oldest, e, 0)
	}
	return ended, nil
}

// Heads leaves out blocked heads: they have no due time.
func (s *model) Heads(_ context.Context, endpoint string, limit int) ([]store.Head, error) {
	due := &s.queue(endpoint).due
	heads := make([]store.Head, 0, min(max(limit, 0), due.size))
	for d := range due.all() {
		if len(heads) >= limit {
			break
		}
		heads = append(heads, d.Shown())
	}
	return heads, nil
}

// Head returns neither due time nor anchor for a delivery behind its lane's head.
func (s *model) Head(_ context.Context, delivery int64) (*store.Head, bool, error) {
	d := s.delivery(delivery)
	if d == nil || d.status.Final() {
		return nil, false, nil
	}
	return d.head(), d.Head, nil
}

// Events returns copies of the events with these numbers.
func (s *model) Events(_ context.Context, seqs []int64) ([]*grapnel.Event, error) {
	events := make([]*grapnel.Event, len(seqs))
	for i, seq := range seqs {
		if e := s.event(seq); e != nil {
			c := copyEvent(&e.Event)
			events[i] = &c
		}
	}
	return events, nil
}
