package postgres

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// gatherer is a writer of which only next is used.
func gatherer(b Bounds) *writer {
	b = bounds.Fill(b)
	d := &database{connections: connections{bounds: b, now: time.Now}, requests: make(chan *request, b.Line)}
	return &writer{database: d, places: make(chan struct{}, b.Few), quit: make(chan struct{})}
}

// after sends requests one by one, each a millisecond after the one before.
func (s *writer) after(operations ...operation) {
	go func() {
		for _, o := range operations {
			time.Sleep(time.Millisecond)
			s.requests <- &request{operation: o}
		}
	}()
}

// taken is how many requests the next transaction has, and how long they were gathered.
func (s *writer) taken(t *testing.T) (requests int, took time.Duration) {
	t.Helper()
	began := time.Now()
	batch, placed, more := s.next()
	if !placed || !more {
		t.Fatalf("next returned %v, %v", placed, more)
	}
	<-s.places
	return len(batch), time.Since(began)
}

func event() operation { return &appending{batch: &batch{events: make([]incoming, 1)}} }

func outcome(lone bool) operation {
	return &recording{turns: []turn{{Change: store.Change{Lone: lone}}}}
}

// Events that come one by one share a transaction; the first has nothing to wait for.
func TestEventsShareATransaction(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		then     []operation
		requests int
		took     time.Duration
	}{
		"another event comes":                      {[]operation{event(), event(), event()}, 2, 2 * ms},
		"an outcome for which a lane waits comes":  {[]operation{event(), outcome(false)}, 2, 2 * ms},
		"an outcome comes, then an event":          {[]operation{event(), outcome(true), event()}, 3, 3 * ms},
		"an outcome comes, and no event":           {[]operation{event(), outcome(true)}, 2, 4 * ms},
		"something else comes":                     {[]operation{event(), new(claiming)}, 2, 2 * ms},
		"an outcome comes first":                   {[]operation{outcome(true), event()}, 1, 1 * ms},
		"something else comes first":               {[]operation{new(claiming), event()}, 1, 1 * ms},
		"an outcome comes, then another, no event": {[]operation{event(), outcome(true), outcome(true)}, 3, 4 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := gatherer(Bounds{Apart: 4 * ms})
				s.after(event())
				if n, took := s.taken(t); n != 1 || took != ms {
					t.Errorf("the first event was gathered with %d in %v", n, took)
				}
				s.after(c.then...)
				if n, took := s.taken(t); n != c.requests || took != c.took {
					t.Errorf("the transaction has %d requests after %v, not %d after %v", n, took, c.requests, c.took)
				}
				for range len(c.then) - c.requests { // the test ends when all were sent
					<-s.requests
				}
			})
		})
	}
}

// Outcomes have transactions meanwhile, which delay no event.
func TestOutcomesDelayNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatherer(Bounds{Apart: 4 * time.Millisecond})
		for i, o := range []operation{event(), outcome(true), outcome(true), outcome(true), event()} {
			s.after(o)
			if n, took := s.taken(t); n != 1 || took != time.Millisecond {
				t.Errorf("request %d was gathered with %d in %v", i, n, took)
			}
		}
	})
}

// A publisher that sends the next event when the last one was answered waits now and then only.
func TestALonePublisherHardlyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatherer(Bounds{})
		waits := 0
		for range 1000 {
			s.after(event())
			if _, took := s.taken(t); took > time.Millisecond {
				waits++
			}
		}
		if waits == 0 || waits > 1000/s.bounds.Unshared+5 {
			t.Errorf("%d of 1000 events waited", waits)
		}
		for range 2 * s.bounds.Unshared { // events that come in pairs share again
			s.after(event(), event())
			if n, _ := s.taken(t); n == 1 {
				<-s.requests
			}
		}
		s.after(event(), event())
		if n, _ := s.taken(t); n != 2 {
			t.Errorf("after many pairs a transaction has %d events", n)
		}
	})
}

// An event does not wait for as long as a clock was set back.
func TestAClockSetBackDelaysNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatherer(Bounds{})
		s.after(event())
		s.taken(t)
		s.now = func() time.Time { return time.Now().Add(-time.Hour) }
		s.after(event())
		if _, took := s.taken(t); took > time.Millisecond {
			t.Errorf("the event was gathered in %v", took)
		}
	})
}

// The end of the store ends a wait.
func TestTheEndEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatherer(Bounds{Apart: time.Hour})
		s.after(event())
		s.taken(t)
		s.after(event())
		go func() {
			time.Sleep(time.Minute)
			close(s.quit)
		}()
		began := time.Now()
		if batch, _, _ := s.next(); len(batch) != 1 || time.Since(began) > time.Minute {
			t.Errorf("next returned %d requests after %v", len(batch), time.Since(began))
		}
	})
}
