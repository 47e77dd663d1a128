package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"
)

// patience is the limit for results that should come at once.
const patience = time.Minute

// writes makes a call that changes nothing, and says how it ended.
func writes(ctx context.Context, s *Store) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.write(ctx, nothing{}) }()
	return done
}

// giveUp queues a number of calls, cancels all of them, and returns when they have returned.
func giveUp(t *testing.T, s *Store, callers int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	before := s.Stats().Queued
	var all []<-chan error
	for range callers {
		all = append(all, writes(ctx, s))
	}
	until(t, "all callers in line", func() bool { return s.Stats().Queued == before+callers })
	cancel()
	for _, done := range all {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("a caller that gave up got %v", err)
		}
	}
}

// succeeds waits for a call and checks that it has no error.
func succeeds(t *testing.T, what string, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	case <-time.After(patience):
		t.Fatalf("%s: no answer", what)
	}
}

// TestCallersGiveUpBehindASlowCommit leaves several batches of abandoned requests in front of a
// live call: it and later calls are answered.
func TestCallersGiveUpBehindASlowCommit(t *testing.T) {
	for _, batch := range []int{1, 3, 512} {
		for _, abandoned := range []int{2*batch - 1, 2 * batch, 2*batch + 1, 5 * batch} {
			s := writing(t, Bounds{Batch: batch})
			release := hold(t, s)
			giveUp(t, s, abandoned)
			live := writes(t.Context(), s)
			until(t, "the call in line", func() bool { return s.Stats().Queued == abandoned+1 })
			release()
			succeeds(t, "the call behind those that gave up", live)
			succeeds(t, "a later call", writes(t.Context(), s))
		}
	}
}

// TestCallersGiveUpAfterABurst has more requests join at once than a batch takes, so that the rest
// in the line has no token of its own. Then all of it is abandoned.
func TestCallersGiveUpAfterABurst(t *testing.T) {
	for _, batch := range []int{1, 3, 512} {
		s := writing(t, Bounds{Batch: batch})
		rest, entered, leave := (batch+2)/3, make(chan struct{}), make(chan struct{})
		l := &s.writer.line
		l.mu.Lock()
		for i := range batch + rest {
			r := &request{operation: nothing{}, done: make(chan struct{}, 1)}
			switch {
			case i == 0: // a slow transaction
				r.operation = &change{shrinks: true, do: func(*tx) error { close(entered); <-leave; return nil }}
			case i >= batch:
				r.state.Store(abandoned)
			}
			l.first = append(l.first, r)
		}
		l.wake <- struct{}{} // the first of them has joined an empty line
		l.mu.Unlock()
		<-entered
		giveUp(t, s, batch)
		live := writes(t.Context(), s)
		until(t, "the call in line", func() bool { return s.Stats().Queued == rest+batch+1 })
		close(leave)
		succeeds(t, "the call behind those that gave up", live)
	}
}

// TestEventsAreInEachBatch: requests that go first, and are more than a batch takes, keep no event
// from it. None is lost, and those of one kind stay in their order.
func TestEventsAreInEachBatch(t *testing.T) {
	l := line{wake: make(chan struct{}, 1)}
	var first, events []*request
	for range 20 {
		first = append(first, &request{operation: nothing{}})
		l.join(first[len(first)-1])
	}
	for range 3 {
		events = append(events, &request{operation: &appending{batch: &batch{events: make([]incoming, 1)}}})
		l.join(events[len(events)-1])
	}
	for n, want := range []int{2, 1, 0, 0, 0, 0, 0} { // events in batches of 4
		took := l.take(nil, 4, &share{most: 512, least: 64, weigh: weigh})
		for _, r := range took {
			if r.grows() {
				want--
			}
			for _, queue := range []*[]*request{&first, &events} {
				if len(*queue) > 0 && (*queue)[0] == r {
					*queue = (*queue)[1:]
				}
			}
		}
		if want != 0 || len(took) < 4 && l.length() > 0 {
			t.Errorf("batch %d has %d requests, and %d events are missing", n, len(took), want)
		}
	}
	if n := len(first) + len(events) + l.length(); n != 0 {
		t.Errorf("%d requests were left or came in another order", n)
	}
}

func writing(t *testing.T, b Bounds) *Store {
	t.Helper()
	s, _ := openWith(t, b)
	return s
}
