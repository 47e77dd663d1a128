package receive_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/memstore"
)

// TestADoubleClickReplaysOnce: replays at once run the handler once, a failing replay leaves the
// letter, and the result is recorded.
func TestADoubleClickReplaysOnce(t *testing.T) {
	for mode, endpoint := range modes {
		t.Run(mode, func(t *testing.T) {
			k, o := kit(t, receive.Options{})
			fails, runs := receive.Permanent(errFault), 0
			h := endpoint(k, func(_ context.Context, d *receive.Delivery) error {
				if d.Replayed {
					runs++
				}
				if d.Header.Get("Webhook-Id") != "evt_1" || string(d.Body) != "{}" {
					t.Errorf("the delivery is %+v", d)
				}
				return fails
			})
			letter := func() receive.Letter {
				l, _, err := o.Store.(receive.Letters).Letter(t.Context(), receive.Key{Source: "acme", ID: "evt_1"})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			if _, err := h.Replay(t.Context(), "evt_1"); !errors.Is(err, receive.ErrNotDead) {
				t.Errorf("a replay without a letter: %v", err)
			}
			want(t, h, request(t, "evt_1", "{}"), receive.DeadLettered)
			if outcome, err := h.Replay(t.Context(), "evt_1"); outcome != receive.DeadLettered || !errors.Is(err, errFault) {
				t.Errorf("a failing replay: %s, %v", outcome, err)
			}
			if l := letter(); l.Result != "dead_lettered" || l.ReplayedAt.IsZero() || l.Error != errFault.Error() {
				t.Errorf("after a failing replay the letter is %+v", l)
			}
			fails, runs = nil, 0
			var clicks sync.WaitGroup
			for range 5 {
				clicks.Go(func() {
					if outcome, err := h.Replay(context.Background(), "evt_1"); outcome != receive.Processed && !errors.Is(err, receive.ErrNotDead) {
						t.Errorf("a replay: %s, %v", outcome, err)
					}
				})
			}
			clicks.Wait()
			if l := letter(); runs != 1 || l.Result != "processed" {
				t.Errorf("the handler ran %d times for 5 replays; the letter is %+v", runs, l)
			}
			want(t, h, request(t, "evt_1", "{}"), receive.Duplicate)
		})
	}
}

// broken is a store whose steps fail by name.
type broken struct {
	*memstore.Store
	step string
}

func (b broken) fails(step string) error {
	if b.step == step {
		return errFault
	}
	return nil
}

func (b broken) Claim(ctx context.Context, bid receive.Bid) (receive.Claim, error) {
	if err := b.fails("claim"); err != nil {
		return receive.Claim{}, err
	}
	return b.Store.Claim(ctx, bid)
}

func (b broken) Settle(ctx context.Context, c receive.Claim, to receive.State, o receive.Outcome, now time.Time) error {
	return errors.Join(b.fails("settle"), b.Store.Settle(ctx, c, to, o, now))
}

func (b broken) Bury(ctx context.Context, c receive.Claim, l receive.Letter) error {
	return errors.Join(b.fails("bury"), b.Store.Bury(ctx, c, l))
}

func (b broken) Keep(ctx context.Context, l receive.Letter) error {
	return errors.Join(b.fails("keep"), b.Store.Keep(ctx, l))
}

func (b broken) Transact(ctx context.Context, bid receive.Bid, wait time.Duration,
	f func(*memstore.Tx, receive.Claim) (receive.Outcome, error),
) (receive.Claim, error) {
	c, err := b.Store.Transact(ctx, bid, wait, f)
	return c, errors.Join(b.fails("transact"), err)
}

// TestNoAnswerBeforeTheStore: whichever step of the store fails, the answer asks for a repetition.
func TestNoAnswerBeforeTheStore(t *testing.T) {
	for step, c := range map[string]struct {
		mode string
		err  error
	}{"claim": {"claim", nil}, "settle": {"claim", nil}, "bury": {"claim", receive.Permanent(errFault)}, "transact": {"transaction", nil}} {
		t.Run(step, func(t *testing.T) {
			k, _ := kit(t, receive.Options{Store: broken{memstore.New(), step}})
			h := modes[c.mode](k, func(context.Context, *receive.Delivery) error { return c.err })
			if o := send(t, h, request(t, "evt_1", "{}")); o.Status() != http.StatusServiceUnavailable {
				t.Errorf("the answer is %s", o)
			}
		})
	}
	k, o := kit(t, receive.Options{Store: broken{memstore.New(), "keep"}})
	h := k.Claim(func(context.Context, *receive.Delivery) error { return nil })
	want(t, h, request(t, "evt_1", "{}"), receive.Processed)
	want(t, h, request(t, "evt_1", "other"), receive.Failed)
	if _, found, _ := o.Store.(receive.Letters).Letter(t.Context(), receive.Key{Source: "acme", ID: "evt_1"}); !found {
		t.Error("the store did not try")
	}
}
