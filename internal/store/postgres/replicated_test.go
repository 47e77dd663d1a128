package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// TestNothingIsAnsweredBeforeTheStandbyHasIt cuts a synchronous standby off. A commit then waits
// for it, and its caller gets no answer in time. A repeated call finds that commit's rows. It must
// not be answered by them, because the standby may be promoted without them.
func TestNothingIsAnsweredBeforeTheStandbyHasIt(t *testing.T) {
	t.Parallel()
	primary := pgtest.For(t, pgtest.Options{})
	url, err := primary.Create(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	patient := open(t, url, Options{CallersClock: true})
	s := open(t, url, Options{CallersClock: true, Bounds: Bounds{Conns: Conns{Patience: time.Second}}})
	standby, err := primary.Standby(t.Context(), true)
	if err != nil {
		t.Fatal(errors.Join(err, s.Close(), patient.Close()))
	}
	defer func() {
		if err := errors.Join(s.Close(), patient.Close(), standby.Stop()); err != nil {
			t.Error(err)
		}
	}()
	once := &store.Once{Key: "key_1/a", Expires: at(1000), Now: at(1), Answer: func(any) store.Answer { return store.Answer{Status: 202} }}
	kept := &store.Once{Key: "key_1/b", Expires: at(1000), Now: at(1), Answer: once.Answer}
	config := version(t, s)
	type call func(*Store) error
	publish := func(id, key string, once *store.Once) call {
		return func(s *Store) error {
			_, err := s.Append(t.Context(), store.Batch{Config: config, Events: []store.Incoming{incomingTo(id, key, "ep_a")}, Once: once})
			return err
		}
	}
	calls := map[string]call{
		"an event":            publish("e1", "", nil),
		"an event with a key": publish("e2", "k", nil),
		"an idempotency key":  publish("e3", "", once),
		"an answer":           func(s *Store) error { _, err := s.Remember(t.Context(), kept); return err },
		"a request that is set aside": func(s *Store) error {
			return s.SetAside(t.Context(), grapnel.Aside{ID: "in_1", Tenant: "acme", Why: grapnel.AsideRefused})
		},
	}
	if err := publish("e0", "", nil)(patient); err != nil { // the names of its rows get their numbers
		t.Fatal(err)
	}
	standby.Link.Cut(true)
	for what, call := range calls {
		for _, which := range []string{"first", "second"} {
			if err := call(s); err == nil {
				t.Errorf("%s: the %s call is answered without the standby", what, which)
			}
		}
	}
	if given, err := s.Recall(t.Context(), once.Key, at(2)); err == nil {
		t.Errorf("without the standby %+v is recalled", given)
	}
	standby.Link.Cut(false)
	if err := standby.CaughtUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if given, err := patient.Recall(t.Context(), once.Key, at(2)); err != nil || given == nil || given.Status != 202 {
		t.Errorf("with the standby %+v %v is recalled", given, err)
	}
	for what, call := range calls {
		if err := call(patient); err != nil {
			t.Errorf("%s: with the standby again: %v", what, err)
		}
	}
}
