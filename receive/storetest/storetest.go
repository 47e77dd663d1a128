// Package storetest is the suite that a store of package receive has to pass: what Store, Letters
// and Transactor promise, with concurrent owners, leases that pass, and owners that come late.
//
// Stores outside of this repository can run it. It knows no store, and needs no clock: all times
// are those that it gives.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// owners is the number of concurrent owners in a test.
const owners = 12

// patience is for what a right store does at once, so that a wrong one fails instead of hanging.
const patience = 10 * time.Second

// epoch is the time at which each test begins. Stores keep milliseconds.
var epoch = time.UnixMilli(1_790_000_000_123)

var key = receive.Key{Source: "acme", ID: "evt_1"}

// bid is a bid of an owner, after the beginning, with a lease of a minute and a window of an hour.
func bid(owner string, after time.Duration) receive.Bid {
	now := epoch.Add(after)
	return receive.Bid{Key: key, Owner: owner, BodyHash: "hash of " + owner, Now: now, LeaseUntil: now.Add(time.Minute),
		KeepUntil: now.Add(time.Hour)}
}

// claim makes a bid, and compares the row with the one that is wanted.
func claim(t *testing.T, s receive.Store, b receive.Bid, state receive.State, owner string, generation, deliveries int64) receive.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	same(t, c, state, owner, generation, deliveries)
	if c.Owner == b.Owner && (c.BodyHash != b.BodyHash || !c.LeaseUntil.Equal(b.LeaseUntil)) {
		t.Errorf("the claim has the hash %q and a lease until %v, the bid %q and %v", c.BodyHash, c.LeaseUntil, b.BodyHash, b.LeaseUntil)
	}
	return c
}

func look(t *testing.T, s receive.Store, state receive.State, owner string, generation, deliveries int64) receive.Claim {
	t.Helper()
	c, err := s.Look(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	same(t, c, state, owner, generation, deliveries)
	return c
}

func same(t *testing.T, c receive.Claim, state receive.State, owner string, generation, deliveries int64) {
	t.Helper()
	if c.Key != key || c.State != state || c.Owner != owner || c.Generation != generation || c.Deliveries != deliveries {
		t.Fatalf("the row is %+v; want %s of %q in generation %d after %d deliveries", c, state, owner, generation, deliveries)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		t.Fatalf("the error is %v; want %v", err, want)
	}
}

// together runs f for each owner at once.
func together(f func(owner string)) {
	var group sync.WaitGroup
	for i := range owners {
		group.Go(func() { f(fmt.Sprintf("owner %d", i)) })
	}
	group.Wait()
}

func oneOfManyWins(t *testing.T, s receive.Store) {
	for round := range int64(4) {
		var mu sync.Mutex
		var winners []receive.Claim
		together(func(owner string) {
			b := bid(fmt.Sprintf("%s of round %d", owner, round), 0)
			c, err := s.Claim(context.Background(), b)
			if err != nil {
				t.Error(err)
			}
			if c.State != receive.Busy || c.Generation != round+1 {
				t.Errorf("round %d: an owner sees %+v", round, c)
			}
			if c.Owner == b.Owner {
				mu.Lock()
				defer mu.Unlock()
				winners = append(winners, c)
			}
		})
		if len(winners) != 1 {
			t.Fatalf("round %d: %d of %d owners won", round, len(winners), owners)
		}
		is(t, s.Settle(t.Context(), winners[0], receive.Free, receive.Failed, epoch), nil)
	}
}

func aLeaseThatPassed(t *testing.T, s receive.Store) {
	first := claim(t, s, bid("a", 0), receive.Busy, "a", 1, 1)
	claim(t, s, bid("b", time.Minute), receive.Busy, "a", 1, 1) // the lease ends with that moment
	is(t, s.Renew(t.Context(), first, epoch.Add(time.Minute), epoch.Add(2*time.Minute)), nil)
	claim(t, s, bid("b", 2*time.Minute), receive.Busy, "a", 1, 1)
	claim(t, s, bid("b", 2*time.Minute+time.Millisecond), receive.Busy, "b", 2, 2)
	is(t, s.Renew(t.Context(), first, epoch, epoch.Add(time.Hour)), receive.ErrLostClaim)
	var mu sync.Mutex
	won := 0
	together(func(owner string) {
		c, err := s.Claim(context.Background(), bid(owner, time.Hour))
		if err != nil {
			t.Error(err)
		}
		if c.Owner == owner {
			mu.Lock()
			defer mu.Unlock()
			won++
		}
	})
	if won != 1 {
		t.Errorf("%d owners took over one claim", won)
	}
}

func theOldOwnerChangesNothing(t *testing.T, s receive.Store) {
	old := claim(t, s, bid("a", 0), receive.Busy, "a", 1, 1)
	claim(t, s, bid("b", 2*time.Minute), receive.Busy, "b", 2, 2)
	for _, to := range []receive.State{receive.Done, receive.Free, receive.Dead} {
		is(t, s.Settle(t.Context(), old, to, receive.Processed, epoch), receive.ErrLostClaim)
	}
	c := look(t, s, receive.Busy, "b", 2, 2)
	is(t, s.Settle(t.Context(), c, receive.Free, receive.Failed, epoch), nil)
	// A third owner has the key: the first cannot meet its own generation again.
	claim(t, s, bid("c", 3*time.Minute), receive.Busy, "c", 3, 3)
	is(t, s.Settle(t.Context(), old, receive.Free, receive.Failed, epoch), receive.ErrLostClaim)
	is(t, s.Settle(t.Context(), c, receive.Done, receive.Processed, epoch), receive.ErrLostClaim)
	look(t, s, receive.Busy, "c", 3, 3)
}

func releasedAndTakenAgain(t *testing.T, s receive.Store) {
	c := claim(t, s, bid("a", 0), receive.Busy, "a", 1, 1)
	is(t, s.Settle(t.Context(), c, receive.Free, receive.Failed, epoch), nil)
	if c := look(t, s, receive.Free, "a", 1, 1); c.Outcome != receive.Failed {
		t.Errorf("the released row has the outcome %q", c.Outcome)
	}
	is(t, s.Settle(t.Context(), c, receive.Done, receive.Processed, epoch), receive.ErrLostClaim)
	c = claim(t, s, bid("b", 0), receive.Busy, "b", 2, 2)
	is(t, s.Settle(t.Context(), c, receive.Done, receive.Stale, epoch), nil)
	if c := claim(t, s, bid("c", 0), receive.Done, "b", 2, 2); c.Outcome != receive.Stale || c.BodyHash != "hash of b" {
		t.Errorf("the row that is done is %+v", c)
	}
	is(t, s.Settle(t.Context(), c, receive.Done, receive.Processed, epoch), receive.ErrLostClaim)
}

func doneUntilTheWindowEnds(t *testing.T, s receive.Store) {
	is(t, s.Settle(t.Context(), claim(t, s, bid("a", 0), receive.Busy, "a", 1, 1), receive.Done, receive.Processed, epoch), nil)
	claim(t, s, bid("b", time.Hour), receive.Done, "a", 1, 1)
	claim(t, s, bid("b", time.Hour+time.Millisecond), receive.Busy, "b", 2, 2)
}

func cleanTakesBatches(t *testing.T, s receive.Store) {
	end := time.Hour + time.Millisecond
	states := map[receive.State]int{receive.Done: 5, receive.Free: 2, receive.Dead: 1, receive.Busy: 1}
	for state, n := range states {
		for i := range n {
			b := bid("a", 0)
			b.ID = fmt.Sprintf("%s %d", state, i)
			c, err := s.Claim(t.Context(), b)
			is(t, err, nil)
			if state != receive.Busy {
				is(t, s.Settle(t.Context(), c, state, receive.Processed, epoch), nil)
			}
		}
	}
	for _, step := range []struct {
		source string
		after  time.Duration
		want   int
	}{{"acme", time.Hour, 0}, {"other", end, 0}, {"acme", end, 4}, {"acme", end, 3}, {"acme", end, 0}} {
		n, err := s.Clean(t.Context(), step.source, epoch.Add(step.after), 4)
		is(t, err, nil)
		if n != step.want {
			t.Errorf("cleaning %s after %s took %d rows; want %d", step.source, step.after, n, step.want)
		}
	}
	for state, n := range map[receive.State]int{receive.Dead: 1, receive.Busy: 1, receive.Done: 0, receive.Free: 0} {
		c, err := s.Look(t.Context(), receive.Key{Source: "acme", ID: fmt.Sprintf("%s 0", state)})
		is(t, err, nil)
		if (c.State == state) != (n == 1) {
			t.Errorf("after cleaning the row that was %s is %+v", state, c)
		}
	}
}

func sourcesDoNotMeet(t *testing.T, s receive.Store) {
	claim(t, s, bid("a", 0), receive.Busy, "a", 1, 1)
	b := bid("b", 0)
	b.Source = "other"
	if c, err := s.Claim(t.Context(), b); err != nil || c.Owner != "b" || c.Generation != 1 {
		t.Errorf("the same id of another source: %+v, %v", c, err)
	}
	look(t, s, receive.Busy, "a", 1, 1)
}

func aDeadKeyIsReplayedOnce(t *testing.T, s receive.Store) {
	replay := bid("r", 0)
	replay.Replay = true
	if c, err := s.Claim(t.Context(), replay); err != nil || c != (receive.Claim{}) {
		t.Errorf("a replay without a row: %+v, %v", c, err)
	}
	c := claim(t, s, bid("a", 0), receive.Busy, "a", 1, 1)
	claim(t, s, replay, receive.Busy, "a", 1, 1)
	is(t, s.Settle(t.Context(), c, receive.Dead, receive.DeadLettered, epoch), nil)
	claim(t, s, bid("b", 24*time.Hour), receive.Dead, "a", 1, 1)
	var mu sync.Mutex
	won := 0
	together(func(owner string) {
		b := bid(owner, 0)
		b.Replay = true
		c, err := s.Claim(context.Background(), b)
		if err != nil {
			t.Error(err)
		}
		if c.Owner == owner {
			mu.Lock()
			defer mu.Unlock()
			won++
		}
	})
	if won != 1 {
		t.Errorf("%d replays took one dead key", won)
	}
	c, err := s.Look(t.Context(), key)
	is(t, err, nil)
	is(t, s.Settle(t.Context(), c, receive.Done, receive.Processed, epoch), nil)
	claim(t, s, replay, receive.Done, c.Owner, 2, 2)
}
