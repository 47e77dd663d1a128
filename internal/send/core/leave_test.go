package core

import (
	"errors"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// lefts counts the endpoints that a step says to have left, and lets the rest happen.
func (s *shop) lefts(in Input) (left int) {
	for _, e := range s.core.Step(s.now, in) {
		if _, ok := e.(Left); ok {
			left++
		}
	}
	return left
}

// TestLeaving: an endpoint that is given up starts nothing more, is left once the last outcome is
// durable, and not before; then it is as if it had never been there.
func TestLeaving(t *testing.T) {
	s := newShop(Options{})
	s.endpoint("ep", "acme", time.Second, 2)
	s.run(10 * time.Millisecond)
	s.arrive("ep", 5)
	if s.got["ep"] != 2 {
		t.Fatalf("%d attempts began", s.got["ep"])
	}
	if n := s.lefts(Leave{Endpoint: "ep"}); n != 0 {
		t.Fatal("left with two attempts in flight")
	}
	reply := s.core.Step(s.now, Operated{Order: store.Order{Token: 1, Verb: store.Skip, Endpoint: "ep", Delivery: 4, Reason: "x"}})
	if len(reply) != 1 || grapnel.CodeOf(reply[0].(Reply).Err) != grapnel.CodeUnavailable {
		t.Errorf("an order meanwhile: %+v", reply)
	}
	finished, recorded := 0, 0
	for _, j := range s.agenda {
		if f, ok := j.in.(*Finished); ok {
			finished++
			for _, e := range s.core.Step(s.now.Add(time.Second), f) {
				switch e := e.(type) {
				case Attempt:
					t.Error("an attempt began")
				case Left:
					t.Error("left before the outcomes were durable")
				case Record:
					s.agenda = append(s.agenda, job{in: Recorded{Changes: []Change{*e.Change}, Results: []store.Changed{{Applied: true,
						Status: e.Change.Status}}}})
				}
			}
		}
	}
	for _, j := range s.agenda {
		if r, ok := j.in.(Recorded); ok {
			recorded++
			if n, last := s.lefts(r), recorded == 2; (n == 1) != last {
				t.Errorf("%d left after %d of 2 outcomes", n, recorded)
			}
		}
	}
	if finished != 2 || recorded != 2 || s.core.endpoints["ep"] != nil {
		t.Errorf("%d finished, %d recorded, still there: %v", finished, recorded, s.core.endpoints["ep"] != nil)
	}
	if running, recording := s.core.Busy(); running+recording != 0 {
		t.Errorf("%d running and %d recording", running, recording)
	}
	if n := s.lefts(Leave{Endpoint: "ep"}); n != 1 {
		t.Error("one that is not there is not left")
	}
	s.endpoint("ep", "acme", time.Second, 2)
	if s.core.endpoints["ep"] == nil {
		t.Error("it cannot come back")
	}
}

// TestFencedIsLeft: the core leaves an endpoint when the store refuses a write because another node
// owns it.
func TestFencedIsLeft(t *testing.T) {
	for what, refused := range map[string]func(s *shop) (left int){
		"an outcome": func(s *shop) (left int) {
			s.arrive("ep", 1)
			for _, e := range s.core.Step(s.now, s.agenda[len(s.agenda)-1].in) {
				if r, ok := e.(Record); ok {
					left += s.lefts(Recorded{Changes: []Change{*r.Change}, Results: []store.Changed{{Fenced: true}}})
				}
			}
			return left
		},
		"an end": func(s *shop) (left int) {
			ep := *s.core.endpoints["ep"].config
			ep.DeletedAt, ep.Revision = s.now, 2
			s.core.Step(s.now, Configured{Endpoint: &ep, Newest: 9})
			return s.lefts(Ended{Endpoint: "ep", Err: errors.Join(store.ErrFenced)})
		},
	} {
		s := newShop(Options{})
		s.endpoint("ep", "acme", time.Second, 1)
		s.step(Loaded{Endpoint: "ep"})
		if n := refused(s); n != 1 || s.core.endpoints["ep"] != nil {
			t.Errorf("%s: %d left", what, n)
		}
	}
}
