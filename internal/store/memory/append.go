package memory

import (
	"bytes"
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// Append checks the idempotency key first, so that a repeated call gets its answer even if the
// configuration has changed since; then the version of the configuration.
//
// Every id is looked up, even one that the server drew: a batch whose commit was unknown is
// repeated with the ids it had.
func (s *model) Append(_ context.Context, b store.Batch) (store.Accepted, error) {
	if then, err := s.recall(b.Once); then != nil || err != nil {
		return store.Accepted{Answer: then}, err
	}
	if s.stale(&b) {
		return store.Accepted{}, store.ErrStale
	}
	done := s.take(&b)
	s.remember(b.Once, *done)
	return *done, nil
}

// stale says whether a batch was matched against another version of the configuration than the
// current one. b may be nil.
func (s *model) stale(b *store.Batch) bool { return b != nil && b.Config != s.config.Version }

// take accepts the events of a batch; b may be nil.
func (s *model) take(b *store.Batch) *store.Accepted {
	if b == nil {
		return nil
	}
	done := new(store.Accepted)
	for _, in := range b.Events {
		if again, known := s.recognize(&in); known {
			s.repeated(in.Event)
			done.Events = append(done.Events, again)
			continue
		}
		if first := s.byID[named(in.Event)]; first != nil {
			met := first.met(in.Event)
			if met.Duplicate {
				s.repeated(in.Event)
			}
			done.Events = append(done.Events, met)
			continue
		}
		e, heads := s.accept(in)
		done.Heads = append(done.Heads, heads...)
		s.learn(in.Known, e.placed())
		done.Events = append(done.Events, e.placed())
	}
	return done
}

func named(e *grapnel.Event) eventName { return eventName{e.Tenant, e.ID} }

// met is the answer to an event whose tenant has used its id for e.
func (e *event) met(other *grapnel.Event) store.Placed {
	same := e.Type == other.Type && (!e.ErasedAt.IsZero() || e.Key == other.Key && bytes.Equal(e.Data, other.Data))
	if !same {
		return store.Placed{Conflict: true}
	}
	there := e.placed()
	there.Duplicate = true
	return there
}

// placed is the answer that e got when it was accepted.
func (e *event) placed() store.Placed {
	return store.Placed{Seq: e.Seq, ID: e.ID, AcceptedAt: e.AcceptedAt, Deliveries: e.made}
}

func (s *model) accept(in store.Incoming) (*event, []store.Head) {
	e := &event{Event: copyEvent(in.Event), made: len(in.Targets)}
	e.Intake = deepCopy(in.Event.Intake)
	s.accepted++
	e.Seq = s.accepted
	s.events = append(s.events, e)
	s.byID[named(&e.Event)] = e
	var heads []store.Head
	for _, target := range in.Targets {
		d := s.create(e, decide.Pending{Endpoint: target.Endpoint, Created: codec.Micros(e.AcceptedAt), Trigger: target.Trigger})
		if target.Drop != "" {
			// A dropped delivery has no position, so that the positions of its lane have no gaps.
			s.end(d, &store.Ending{Status: grapnel.Dropped, Reason: target.Drop, At: e.AcceptedAt, Uncounted: target.Uncounted})
			continue
		}
		if s.wait(d, target.Ordered, target.Delay, in.NotBefore); d.Head {
			heads = append(heads, d.Shown())
		}
	}
	return e, heads
}
