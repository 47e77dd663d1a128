package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

func deadLetters(t *testing.T, s receive.Letters) {
	letter := receive.Letter{Key: key, Header: map[string]string{"webhook-id": "evt_1", "x": "ü"}, Body: []byte("{\x00\xff}"),
		Error: "no such invoice", Deliveries: 1, FirstAt: epoch, LastAt: epoch}
	old := claim(t, s, bid("a", 0), receive.Busy, "a", 1, 1)
	c := claim(t, s, bid("b", 2*time.Minute), receive.Busy, "b", 2, 2)
	is(t, s.Bury(t.Context(), old, letter), receive.ErrLostClaim)
	if _, found, err := s.Letter(t.Context(), key); found || err != nil {
		t.Fatalf("a lost claim has left a letter (%v), %v", found, err)
	}
	is(t, s.Bury(t.Context(), c, letter), nil)
	if c := look(t, s, receive.Dead, "b", 2, 2); c.Outcome != receive.DeadLettered {
		t.Errorf("a buried key has the outcome %q", c.Outcome)
	}
	got, found, err := s.Letter(t.Context(), key)
	if err != nil || !found || got.Key != key || !maps.Equal(got.Header, letter.Header) || !bytes.Equal(got.Body, letter.Body) ||
		got.Error != letter.Error || got.Deliveries != 1 || !got.FirstAt.Equal(epoch) || !got.LastAt.Equal(epoch) || !got.ReplayedAt.IsZero() {
		t.Fatalf("the letter is %+v (%v), %v", got, found, err)
	}
	replay := bid("c", time.Minute)
	replay.Replay = true
	c = claim(t, s, replay, receive.Busy, "c", 3, 3)
	letter.Error, letter.Deliveries, letter.FirstAt, letter.LastAt = "still none", 3, epoch.Add(time.Minute), epoch.Add(time.Minute)
	is(t, s.Bury(t.Context(), c, letter), nil)
	is(t, s.Replayed(t.Context(), key, epoch.Add(time.Minute), "dead_lettered"), nil)
	got, _, err = s.Letter(t.Context(), key)
	if err != nil || got.Error != "still none" || got.Deliveries != 3 || !got.FirstAt.Equal(epoch) ||
		!got.LastAt.Equal(letter.LastAt) || !got.ReplayedAt.Equal(letter.LastAt) || got.Result != "dead_lettered" {
		t.Errorf("the letter of the second burial is %+v, %v", got, err)
	}
	other := letter
	for _, k := range []receive.Key{{Source: "acme", ID: "evt_0"}, {Source: "acme", ID: "evt_2"}, {Source: "other", ID: "evt_3"}} {
		other.Key = k
		is(t, s.Keep(t.Context(), other), nil)
	}
	for after, want := range map[string]string{"": "evt_0 evt_1 ", "evt_0": "evt_1 evt_2 ", "evt_2": ""} {
		page, err := s.Letters(t.Context(), "acme", after, 2)
		ids := ""
		for _, l := range page {
			ids += l.ID + " "
		}
		if err != nil || ids != want {
			t.Errorf("the letters after %q are %q, %v; want %q", after, ids, err, want)
		}
	}
}

func aConflictIsKept(t *testing.T, s receive.Letters) {
	is(t, s.Settle(t.Context(), claim(t, s, bid("a", 0), receive.Busy, "a", 1, 1), receive.Done, receive.Processed, epoch), nil)
	letter := receive.Letter{Key: key, Header: map[string]string{}, Body: []byte("second"), Error: "conflict", FirstAt: epoch, LastAt: epoch}
	is(t, s.Keep(t.Context(), letter), nil)
	letter.Body = []byte("third")
	is(t, s.Keep(t.Context(), letter), nil)
	if l, found, err := s.Letter(t.Context(), key); err != nil || !found || string(l.Body) != "second" {
		t.Errorf("the letter of the conflict is %+v (%v), %v", l, found, err)
	}
	look(t, s, receive.Done, "a", 1, 1)
	replay := bid("r", 0)
	replay.Replay = true
	claim(t, s, replay, receive.Done, "a", 1, 1)
}

var errHandler = errors.New("the handler failed")

// RunTransactor tests the transactions of a store. effect makes one effect in a transaction, and
// effects counts those that are committed. lasting says whether another connection can hold the
// key's lock for longer than a wait.
func RunTransactor[T any](t *testing.T, open func(t *testing.T) (s receive.Transactor[T], effect func(context.Context, T) error,
	effects func() int),
) {
	t.Run("KeyAndEffectCommitTogether", func(t *testing.T) {
		s, effect, effects := open(t)
		run := func(owner string, f func(T, receive.Claim) (receive.Outcome, error)) (receive.Claim, error) {
			return s.Transact(t.Context(), bid(owner, 0), time.Minute, f)
		}
		_, err := run("a", func(tx T, _ receive.Claim) (receive.Outcome, error) {
			return "", errors.Join(effect(t.Context(), tx), errHandler)
		})
		is(t, err, errHandler)
		if c, err := s.Look(t.Context(), key); err != nil || c != (receive.Claim{}) || effects() != 0 {
			t.Fatalf("after a rollback there are %d effects and the row %+v, %v", effects(), c, err)
		}
		c, err := run("b", func(tx T, c receive.Claim) (receive.Outcome, error) {
			same(t, c, receive.Done, "b", 1, 1)
			return receive.Parked, effect(t.Context(), tx)
		})
		if err != nil || c.Outcome != receive.Parked || effects() != 1 {
			t.Fatalf("after a commit there are %d effects and the row %+v, %v", effects(), c, err)
		}
		if c := look(t, s, receive.Done, "b", 1, 1); c.Outcome != receive.Parked {
			t.Errorf("the committed row is %+v", c)
		}
		c, err = run("c", func(T, receive.Claim) (receive.Outcome, error) {
			t.Error("the handler ran for a key that is done")
			return receive.Processed, nil
		})
		is(t, err, nil)
		same(t, c, receive.Done, "b", 1, 1)
	})

	t.Run("ARowIsTakenOver", func(t *testing.T) {
		s, effect, effects := open(t)
		run := func(b receive.Bid, generation int64) {
			t.Helper()
			c, err := s.Transact(t.Context(), b, time.Minute, func(tx T, c receive.Claim) (receive.Outcome, error) {
				same(t, c, receive.Done, b.Owner, generation, generation)
				return receive.Processed, effect(t.Context(), tx)
			})
			is(t, err, nil)
			if c.Owner == b.Owner && int64(effects()) != generation-1 {
				t.Fatalf("generation %d ends with %d effects", generation, effects())
			}
		}
		is(t, s.Settle(t.Context(), claim(t, s, bid("a", 0), receive.Busy, "a", 1, 1), receive.Free, receive.Failed, epoch), nil)
		run(bid("b", 0), 2) // free
		run(bid("c", time.Hour), 0)
		look(t, s, receive.Done, "b", 2, 2)
		run(bid("c", time.Hour+time.Millisecond), 3) // done and no longer retained
		claim(t, s, bid("d", 3*time.Hour), receive.Busy, "d", 4, 4)
		run(bid("e", 3*time.Hour+time.Minute), 0)
		look(t, s, receive.Busy, "d", 4, 4)
		if c, err := s.Transact(t.Context(), bid("e", 4*time.Hour), time.Minute, func(tx T, c receive.Claim) (receive.Outcome, error) {
			return receive.Processed, effect(t.Context(), tx)
		}); err != nil || effects() != 3 {
			t.Errorf("a bid for a row whose lease has passed leaves %+v, %v, %d effects", c, err, effects())
		}
		look(t, s, receive.Done, "e", 5, 5)
	})

	t.Run("CopiesAtOnce", func(t *testing.T) {
		s, effect, effects := open(t)
		var mu sync.Mutex
		runs := 0
		together(func(owner string) {
			b := bid(owner, 0)
			c, err := s.Transact(context.Background(), b, time.Minute, func(tx T, _ receive.Claim) (receive.Outcome, error) {
				mu.Lock()
				runs++
				fails := runs == 1
				mu.Unlock()
				if err := effect(context.Background(), tx); err != nil || !fails {
					return receive.Processed, err
				}
				return "", errHandler
			})
			if err == nil && c.State != receive.Done || err != nil && !errors.Is(err, errHandler) {
				t.Errorf("a copy sees %+v, %v", c, err)
			}
		})
		if runs != 2 || effects() != 1 {
			t.Errorf("the handler ran %d times for %d effects; the first run fails, so 2 for 1 are due", runs, effects())
		}
	})

	t.Run("TheWaitEnds", func(t *testing.T) {
		s, effect, effects := open(t)
		waited := make(chan error, 1)
		_, err := s.Transact(t.Context(), bid("a", 0), time.Minute, func(tx T, _ receive.Claim) (receive.Outcome, error) {
			go func() {
				_, err := s.Transact(t.Context(), bid("b", 0), 50*time.Millisecond, func(T, receive.Claim) (receive.Outcome, error) {
					return receive.Processed, errors.New("the second handler runs")
				})
				waited <- err
			}()
			select {
			case err := <-waited:
				is(t, err, receive.ErrLocked)
				return receive.Processed, effect(t.Context(), tx)
			case <-time.After(patience): // the store waits for this transaction, so it has to end
				return "", fmt.Errorf("a wait of 50 ms has not ended after %v", patience)
			}
		})
		is(t, err, nil)
		if effects() != 1 {
			t.Errorf("there are %d effects", effects())
		}
		look(t, s, receive.Done, "a", 1, 1)
	})

	t.Run("AReplayInATransaction", func(t *testing.T) {
		s, effect, effects := open(t)
		is(t, s.Settle(t.Context(), claim(t, s, bid("a", 0), receive.Busy, "a", 1, 1), receive.Dead, receive.DeadLettered, epoch), nil)
		together(func(owner string) {
			b := bid(owner, 0)
			b.Replay = true
			if c, err := s.Transact(context.Background(), b, time.Minute, func(tx T, _ receive.Claim) (receive.Outcome, error) {
				return receive.Processed, effect(context.Background(), tx)
			}); err != nil || c.State != receive.Done {
				t.Errorf("a replay sees %+v, %v", c, err)
			}
		})
		if effects() != 1 {
			t.Errorf("%d replays made %d effects", owners, effects())
		}
	})
}
