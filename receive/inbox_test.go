package receive_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/memstore"
)

// order is the ordering key and sequence in a body such as {"k":"a","n":1}.
func order(d *receive.Delivery) (string, int64) {
	var event struct {
		K string
		N int64
	}
	_ = json.Unmarshal(d.Body, &event)
	return event.K, event.N
}

// log notes the runs of a handler, and lets those fail whose event has a failure.
type log struct {
	mu    sync.Mutex
	began time.Time
	runs  []string
	fails map[string]error
}

func (l *log) handle(_ context.Context, d *receive.Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, d.ID+" "+time.Since(l.began).String())
	return l.fails[d.ID]
}

func (l *log) want(t *testing.T, runs ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.runs, runs) {
		t.Errorf("the runs are %q; want %q", l.runs, runs)
	}
	l.runs = nil
}

func (l *log) set(fails map[string]error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails, l.began = fails, time.Now()
}

// working starts an inbox with four workers. They end with the test.
func working(t *testing.T, o receive.Options, io receive.InboxOptions, handle func(context.Context, *receive.Delivery) error,
) (i *receive.Inbox, options receive.Options, stop func()) {
	t.Helper()
	k, o := kit(t, o)
	i, err := k.Inbox(io)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.Work(ctx, 4, handle)
	}()
	return i, o, func() { cancel(); <-ended }
}

// TestTheInboxAttemptsAgain: pauses double, Retry-After lengthens one, MaxDeliveries ends them with
// a dead letter; a replay begins anew, and a double click replays once.
func TestTheInboxAttemptsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		l.set(map[string]error{"evt_1": errFault, "evt_2": receive.RetryAfter(10*time.Second, errFault), "evt_3": receive.Permanent(errFault)})
		i, o, stop := working(t, receive.Options{MaxDeliveries: 3}, receive.InboxOptions{}, l.handle)
		defer stop()
		want(t, i, request(t, "evt_1", "{}"), receive.Accepted)
		want(t, i, request(t, "evt_1", "{}"), receive.Duplicate)
		want(t, i, request(t, "evt_1", "other"), receive.Conflict)
		time.Sleep(time.Minute)
		l.want(t, "evt_1 0s", "evt_1 1s", "evt_1 3s")
		want(t, i, request(t, "evt_1", "{}"), receive.DeadLettered)

		l.set(l.fails)
		want(t, i, request(t, "evt_3", "{}"), receive.Accepted)
		time.Sleep(time.Minute)
		l.want(t, "evt_3 0s")

		l.set(l.fails)
		want(t, i, request(t, "evt_2", "{}"), receive.Accepted)
		time.Sleep(time.Minute)
		l.want(t, "evt_2 0s", "evt_2 10s", "evt_2 20s")

		l.set(nil)
		if _, err := i.Replay(t.Context(), "evt_0"); !errors.Is(err, receive.ErrNotDead) {
			t.Errorf("the replay of an unknown event: %v", err)
		}
		var clicks sync.WaitGroup
		for range 5 {
			clicks.Go(func() {
				if _, err := i.Replay(context.Background(), "evt_1"); err != nil && !errors.Is(err, receive.ErrNotDead) {
					t.Error(err)
				}
			})
		}
		clicks.Wait()
		time.Sleep(time.Minute)
		l.want(t, "evt_1 0s")
		letter, found, err := o.Store.(receive.Letters).Letter(t.Context(), receive.Key{Source: "acme", ID: "evt_1"})
		if err != nil || !found || letter.Deliveries != 3 || letter.Result != "accepted" {
			t.Errorf("the letter is %+v (%v), %v", letter, found, err)
		}
		want(t, i, request(t, "evt_1", "{}"), receive.Duplicate)
	})
}

// TestABlockedKeyWaits: with Block a dead request stops its ordering key, until Replay or Skip.
func TestABlockedKeyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		l.set(map[string]error{"a1": receive.Permanent(errFault), "a2": receive.Permanent(errFault)})
		i, _, stop := working(t, receive.Options{}, receive.InboxOptions{Order: order, Block: true}, l.handle)
		defer stop()
		want(t, i, request(t, "a1", `{"k":"a","n":1}`), receive.Accepted)
		synctest.Wait()
		for _, id := range []string{"a2", "a3", "b1"} {
			want(t, i, request(t, id, `{"k":"`+id[:1]+`","n":`+id[1:]+`}`), receive.Accepted)
		}
		time.Sleep(time.Hour)
		l.want(t, "a1 0s", "b1 0s")
		l.set(map[string]error{"a2": receive.Permanent(errFault)})
		if _, err := i.Replay(t.Context(), "a1"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		l.want(t, "a1 0s", "a2 0s")
		l.set(nil)
		if err := i.Skip(t.Context(), "a2"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		l.want(t, "a3 0s")
		if err := i.Skip(t.Context(), "a2"); !errors.Is(err, receive.ErrNotDead) {
			t.Errorf("a second skip: %v", err)
		}
	})
}

// TestWorkDrains: at the end of its context Work begins no attempt, and waits for those that run.
func TestWorkDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		began, ended := 0, 0
		i, o, stop := working(t, receive.Options{}, receive.InboxOptions{}, func(ctx context.Context, _ *receive.Delivery) error {
			mu.Lock()
			began++
			mu.Unlock()
			time.Sleep(10 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			ended++
			return ctx.Err()
		})
		for n := range 6 {
			want(t, i, request(t, "evt_"+strings.Repeat("x", n+1), "{}"), receive.Accepted)
		}
		synctest.Wait()
		stop()
		if began != 4 || ended != 4 {
			t.Errorf("%d attempts began, %d ended before Work did; want 4 of each", began, ended)
		}
		left := 0
		for range 6 {
			later := time.Now().Add(time.Hour)
			_, found, err := o.Store.(receive.InboxStore).Take(t.Context(), receive.Turn{Source: "acme", Owner: "x", Now: later,
				LeaseUntil: later.Add(time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			if found {
				left++
			}
		}
		if left != 2 {
			t.Errorf("%d requests are left; want 2", left)
		}
	})
}

// TestCleaning: keys and processed requests are deleted in batches after the window.
func TestCleaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		l.set(nil)
		s := memstore.New()
		i, _, stop := working(t, receive.Options{Store: s}, receive.InboxOptions{Poll: time.Hour}, l.handle)
		const requests = 1001 // two batches and one
		for n := range requests {
			want(t, i, request(t, "evt_"+strings.Repeat("x", n/40)+string(rune('A'+n%40)), "{}"), receive.Accepted)
		}
		synctest.Wait()
		stop()
		k, _ := kit(t, receive.Options{Store: s})
		if n, err := k.Clean(t.Context()); n != 0 || err != nil {
			t.Errorf("cleaning at once took %d rows, %v", n, err)
		}
		time.Sleep(receive.DefaultWindow + time.Second)
		if n, err := k.Clean(t.Context()); n != 2*requests || err != nil {
			t.Errorf("cleaning after the window took %d rows, %v; want %d", n, err, 2*requests)
		}
	})
}
