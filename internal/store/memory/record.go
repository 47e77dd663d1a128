package memory

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Record applies the changes in order; each result is the state right after its change.
func (s *Store) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	for i := range changes {
		if s.stale(changes[i].Tell) {
			return nil, store.ErrStale
		}
	}
	done := make([]store.Changed, len(changes))
	for i := range changes {
		c := &changes[i]
		s.stand(c.Standing)
		d := s.delivery(c.Delivery)
		if d == nil {
			continue
		}
		if !c.Identity.Is(d.EventSeq, d.EndpointID, d.CreatedAt.UnixMicro()) {
			done[i].Foreign = true
			continue
		}
		applies := d.Status == grapnel.Pending && (c.Expect == d.AttemptsMade || c.Expect == store.AnyAttempts) && d.yields(c)
		if applies {
			s.apply(d, c)
		}
		done[i] = store.Changed{Applied: applies, Status: d.Status, Next: d.next()}
		if applies {
			done[i].Told = s.take(c.Tell)
			s.note(c.Audit)
		}
	}
	return done, nil
}

func (s *Store) apply(d *delivery, c *store.Change) {
	s.release(d)
	if c.Attempt != nil {
		d.Attempts = append(d.Attempts, copyAttempt(*c.Attempt))
		d.AttemptsMade++
		if !c.Uncounted {
			s.tried(d, c)
		}
	}
	if c.Status.Final() {
		s.finish(d, store.Ending{Status: c.Status, ReasonCode: c.ReasonCode, Reason: c.Reason, At: c.At, Uncounted: c.Uncounted}, c.NextDelay)
		return
	}
	d.ReasonCode, d.Reason, d.trigger = c.ReasonCode, c.Reason, c.Trigger
	if !d.Waiting.Head {
		return // a delivery behind its head has no schedule to change; it gets one when it becomes the head
	}
	if c.Attempt != nil {
		d.wide = time.Time{}
		if c.EndpointWide {
			d.wide = micro(c.At)
		}
	}
	if !c.Anchor.IsZero() {
		d.Waiting.Anchor = micro(c.Anchor)
	}
	s.plan(d, c.Due, c.Blocked)
}

// End takes the oldest first. So if it stops in a lane, it stops at the lowest position left, which
// is then the head.
func (s *Store) End(ctx context.Context, endpoint string, e store.Ending, limit int) (int, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	q := s.queue(endpoint)
	ended := 0
	for ; ended < limit && q.pending.size > 0; ended++ {
		oldest := q.pending.first()
		if e.UpTo != 0 && oldest.Seq > e.UpTo {
			break
		}
		s.finish(oldest, e, 0)
	}
	return ended, nil
}

// Heads leaves out blocked heads: they have no due time.
func (s *Store) Heads(ctx context.Context, endpoint string, limit int) ([]store.Head, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	due := &s.queue(endpoint).due
	heads := make([]store.Head, 0, min(max(limit, 0), due.size))
	for d := range due.all() {
		if len(heads) >= limit {
			break
		}
		heads = append(heads, *d.place())
	}
	return heads, nil
}

// Head returns neither due time nor anchor for a delivery behind its lane's head.
func (s *Store) Head(ctx context.Context, delivery int64) (*store.Head, bool, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	defer leave()
	d := s.delivery(delivery)
	if d == nil || d.Status.Final() {
		return nil, false, nil
	}
	return d.place(), d.Waiting.Head, nil
}

// Events returns copies of the events with these numbers.
func (s *Store) Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	events := make([]*grapnel.Event, len(seqs))
	for i, seq := range seqs {
		if e := s.event(seq); e != nil {
			c := copyEvent(&e.Event)
			events[i] = &c
		}
	}
	return events, nil
}
