package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// accept stores a request that arrives some milliseconds after the beginning.
func accept(t *testing.T, s receive.InboxStore, id, order string, sequence, ms int64) receive.Claim {
	t.Helper()
	b := bid("owner of "+id, time.Duration(ms)*time.Millisecond)
	b.ID = id
	c, err := s.Accept(t.Context(), b, time.Minute, receive.Item{Key: b.Key, Row: fmt.Sprintf("%08d %s", ms, id), OrderingKey: order,
		Sequence: sequence, Header: map[string]string{"webhook-id": id}, Body: []byte("body of " + id), ReceivedAt: b.Now})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// take takes an item after the beginning; "" is none.
func take(t *testing.T, s receive.InboxStore, owner string, after time.Duration, block bool, want string) receive.Item {
	t.Helper()
	i, found, err := s.Take(t.Context(), turn(owner, after, block))
	if err != nil {
		t.Fatal(err)
	}
	whole := string(i.Body) == "body of "+want && i.Header["webhook-id"] == want && i.Owner == owner
	if found != (want != "") || i.ID != want || found && !whole {
		t.Fatalf("the item is %+v (%v); want %q", i, found, want)
	}
	return i
}

func turn(owner string, after time.Duration, block bool) receive.Turn {
	now := epoch.Add(after)
	return receive.Turn{Source: "acme", Owner: owner, Now: now, LeaseUntil: now.Add(time.Minute), Block: block}
}

func settle(t *testing.T, s receive.InboxStore, i receive.Item, to receive.State) {
	t.Helper()
	is(t, s.SettleItem(t.Context(), i, to, epoch, "", epoch), nil)
}

func acceptedOnce(t *testing.T, s receive.InboxStore) {
	var mu sync.Mutex
	won := 0
	together(func(owner string) {
		b := bid(owner, 0)
		c, err := s.Accept(context.Background(), b, time.Minute, receive.Item{Key: key, Row: owner, Header: map[string]string{"webhook-id": "evt_1"},
			Body: []byte("body of evt_1"), ReceivedAt: epoch})
		if err != nil || c.State != receive.Done || c.Outcome != receive.Accepted {
			t.Errorf("a copy sees %+v, %v", c, err)
		}
		if c.Owner == owner {
			mu.Lock()
			defer mu.Unlock()
			won++
		}
	})
	if won != 1 {
		t.Errorf("%d of %d copies are in the inbox", won, owners)
	}
	i := take(t, s, "a", 0, false, "evt_1")
	take(t, s, "b", 0, false, "")
	settle(t, s, i, receive.Done)
	take(t, s, "b", time.Hour, false, "")
}

func leasesOfItems(t *testing.T, s receive.InboxStore) {
	accept(t, s, "evt_1", "", 0, 0)
	old := take(t, s, "a", 0, false, "evt_1")
	take(t, s, "b", time.Minute, false, "")
	is(t, s.RenewItem(t.Context(), old, epoch, epoch.Add(2*time.Minute)), nil)
	take(t, s, "b", 2*time.Minute, false, "")
	now := take(t, s, "b", 2*time.Minute+time.Millisecond, false, "evt_1")
	if old.Attempts != 1 || now.Attempts != 2 {
		t.Errorf("the attempts are %d and %d", old.Attempts, now.Attempts)
	}
	is(t, s.RenewItem(t.Context(), old, epoch, epoch.Add(time.Hour)), receive.ErrLostClaim)
	is(t, s.SettleItem(t.Context(), old, receive.Done, epoch, "", epoch), receive.ErrLostClaim)
	is(t, s.BuryItem(t.Context(), old, receive.Letter{Key: key, LastAt: epoch}), receive.ErrLostClaim)
	if _, found, err := s.Letter(t.Context(), key); found || err != nil {
		t.Errorf("a lost item has left a letter (%v), %v", found, err)
	}
	// It is due again at the time that its settlement says.
	is(t, s.SettleItem(t.Context(), now, receive.Ready, epoch.Add(time.Hour), "busy", epoch), nil)
	take(t, s, "c", time.Hour-time.Millisecond, false, "")
	settle(t, s, take(t, s, "c", time.Hour, false, "evt_1"), receive.Done)
}

func orderOfItems(t *testing.T, s receive.InboxStore) {
	accept(t, s, "a2", "a", 2, 0)
	accept(t, s, "b1", "b", 1, 1)
	accept(t, s, "a1", "a", 1, 2)
	accept(t, s, "none1", "", 0, 3)
	accept(t, s, "none2", "", 0, 4)
	accept(t, s, "a3", "a", 3, 5)
	accept(t, s, "a3 again", "a", 3, 6)
	now := time.Second
	b1 := take(t, s, "w", now, false, "b1") // the first that arrived and has no earlier one
	a1 := take(t, s, "w", now, false, "a1")
	take(t, s, "w", now, false, "none1")
	take(t, s, "w", now, false, "none2")
	take(t, s, "w", now, false, "")
	// An item that came late waits for the one that runs, although its sequence is lower.
	accept(t, s, "b0", "b", 0, 7)
	take(t, s, "w", now, false, "")
	settle(t, s, b1, receive.Done)
	take(t, s, "w", now, false, "b0")
	// One that waits for its next attempt keeps the others of its key.
	is(t, s.SettleItem(t.Context(), a1, receive.Ready, epoch.Add(10*time.Second), "busy", epoch), nil)
	take(t, s, "w", now, false, "")
	settle(t, s, take(t, s, "w", 10*time.Second, false, "a1"), receive.Done)
	for _, id := range []string{"a2", "a3", "a3 again"} {
		settle(t, s, take(t, s, "w", now, false, id), receive.Done)
	}
	take(t, s, "w", now, false, "")
}

func deadItems(t *testing.T, s receive.InboxStore) {
	accept(t, s, "a1", "a", 1, 0)
	accept(t, s, "a2", "a", 2, 1)
	first := take(t, s, "w", time.Second, true, "a1")
	is(t, s.BuryItem(t.Context(), first, receive.Letter{Key: first.Key, Header: first.Header, Body: first.Body, Error: "no",
		Deliveries: 1, FirstAt: epoch, LastAt: epoch}), nil)
	if c := accept(t, s, "a1", "a", 1, 2); c.State != receive.Dead || c.Outcome != receive.DeadLettered {
		t.Errorf("a dead item's key is %+v", c)
	}
	if l, found, err := s.Letter(t.Context(), first.Key); err != nil || !found || l.Error != "no" {
		t.Errorf("the letter is %+v (%v), %v", l, found, err)
	}
	take(t, s, "w", time.Second, true, "")
	second := take(t, s, "w", time.Second, false, "a2") // one that skips
	is(t, s.SettleItem(t.Context(), second, receive.Ready, epoch, "", epoch), nil)

	var mu sync.Mutex
	revived := 0
	together(func(string) {
		if s.Revive(context.Background(), first.Key, receive.Ready, epoch) == nil {
			mu.Lock()
			defer mu.Unlock()
			revived++
		}
	})
	if revived != 1 {
		t.Errorf("one dead item was revived %d times", revived)
	}
	if c := accept(t, s, "a1", "a", 1, 3); c.State != receive.Done || c.Outcome != receive.Accepted {
		t.Errorf("a revived item's key is %+v", c)
	}
	again := take(t, s, "w", time.Second, true, "a1")
	if again.Attempts != 1 {
		t.Errorf("the revived item has %d attempts", again.Attempts)
	}
	is(t, s.BuryItem(t.Context(), again, receive.Letter{Key: first.Key, Header: first.Header, Body: first.Body, LastAt: epoch}), nil)
	is(t, s.Revive(t.Context(), first.Key, receive.Done, epoch), nil) // given up
	is(t, s.Revive(t.Context(), first.Key, receive.Ready, epoch), receive.ErrNotDead)
	settle(t, s, take(t, s, "w", time.Second, true, "a2"), receive.Done)

	for after, want := range map[time.Duration]int{0: 0, time.Millisecond: 2} {
		n, err := s.CleanInbox(t.Context(), "acme", epoch.Add(after), 4)
		is(t, err, nil)
		if n != want {
			t.Errorf("cleaning the inbox after %s took %d rows; want %d", after, n, want)
		}
	}
}

// workersAtOnce: of one ordering key no two items are busy at a time, however many workers take.
func workersAtOnce(t *testing.T, s receive.InboxStore) {
	const perKey = 6
	for i := range int64(perKey) {
		for _, order := range []string{"a", "b", "c"} {
			accept(t, s, fmt.Sprintf("%s%d", order, i), order, i, i)
		}
	}
	var mu sync.Mutex
	running, ran := map[string]bool{}, map[string][]string{}
	together(func(owner string) {
		for empty := 0; empty < 200; {
			i, found, err := s.Take(context.Background(), turn(owner, time.Second, false))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if !found {
				if empty++; len(ran["a"])+len(ran["b"])+len(ran["c"]) == 3*perKey {
					empty = 200
				}
				mu.Unlock()
				continue
			}
			if running[i.OrderingKey] {
				t.Errorf("two items of %s run at once", i.OrderingKey)
			}
			running[i.OrderingKey] = true
			ran[i.OrderingKey] = append(ran[i.OrderingKey], i.ID)
			mu.Unlock()
			mu.Lock()
			running[i.OrderingKey] = false
			mu.Unlock()
			if err := s.SettleItem(context.Background(), i, receive.Done, epoch, "", epoch); err != nil {
				t.Error(err)
			}
		}
	})
	for _, order := range []string{"a", "b", "c"} {
		want := ""
		for i := range perKey {
			want += fmt.Sprintf("%s%d ", order, i)
		}
		if got := strings.Join(ran[order], " ") + " "; got != want {
			t.Errorf("the items of %s ran as %q; want %q", order, got, want)
		}
	}
}
