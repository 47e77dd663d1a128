//go:build linux

package receivers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// steps are where a test receiver kills itself, in the order of a request.
var steps = []string{"before-claim", "after-claim", "after-effect", "after-commit", "after-answer"}

// together is how many events are on their way when a receiver is killed. The first one that
// reaches the step ends the process; the others are at any step.
const together = 4

// long says whether the long forms run: every store, every sample, and a thousand rounds.
var long = os.Getenv("GRAPNEL_SOAK") != ""

// rounds is the number of kills of each pair.
func rounds(short int) int {
	if long {
		return 1000
	}
	return short
}

// stores are those of a mode; in the short form the first one.
func (r Row) stores(mode string) []string {
	if all := r.Stores[mode]; long || len(all) == 0 {
		return all
	}
	return r.Stores[mode][:1]
}

// TestAKillAtAnyStepLeavesOneEffect: a receiver of each language, mode and store is killed at each
// step of a request. The sender repeats what got no 2xx, and each event has one effect.
func TestAKillAtAnyStepLeavesOneEffect(t *testing.T) {
	for _, row := range Rows {
		t.Run(row.Language, func(t *testing.T) {
			t.Parallel()
			begun, kills := time.Now(), 0
			for _, mode := range Modes {
				for _, store := range row.stores(mode) {
					t.Run(mode+"/"+store, func(t *testing.T) {
						r := begin(t, row, mode, store, "CRASH="+steps[0])
						for n := range rounds(1) * len(steps) {
							if err := killed(t.Context(), r, n, steps[(n+1)%len(steps)]); err != nil {
								t.Fatalf("killed %s in round %d: %v\n%s", steps[n%len(steps)], n, err, r.Words())
							}
							kills++
						}
					})
				}
			}
			t.Logf("%d kills, %.1f each second", kills, float64(kills)/time.Since(begun).Seconds())
		})
	}
}

// TestTheHarnessSeesWhatAKillBreaks: a receiver that marks the event before the work loses it, and
// one that records the event after the work doubles it.
func TestTheHarnessSeesWhatAKillBreaks(t *testing.T) {
	for flaw, step := range map[string]string{"marked-first": "after-claim", "recorded-after": "after-effect"} {
		r := begin(t, bad, "transaction", "postgres", "FLAW="+flaw, "CRASH="+step)
		r.Patience = time.Second
		if err := killed(t.Context(), r, 0, step); err == nil {
			t.Errorf("a receiver that is %s was killed %s, and the harness saw nothing", flaw, step)
		}
	}
}

// killed is one round: events, a crash at the receiver's step, the next life, and the retries. The
// next life crashes at another step once it may.
func killed(ctx context.Context, r *Receiver, round int, next string) error {
	ids := events(round, together)
	answered := each(ids, func(id string) bool {
		status, _, err := r.Send(ctx, id)
		return err == nil && status/100 == 2
	})
	select {
	case <-r.Ended():
	case <-time.After(30 * time.Second):
		return errors.New("no event reached the step")
	}
	r.Set("CRASH=" + next)
	if err := r.Start(ctx); err != nil {
		return err
	}
	if err := settle(ctx, r, ids, answered); err != nil {
		return err
	}
	return r.Rearm()
}

// events are the ids of a round.
func events(round, count int) (ids []string) {
	for n := range count {
		ids = append(ids, fmt.Sprintf("evt_%d_%d", round, n))
	}
	return ids
}

// settle repeats each event that has no 2xx yet until it has one, a minute later by the clock of
// sender and receiver, and then sees one effect of each.
func settle(ctx context.Context, r *Receiver, ids []string, answered []bool) error {
	if err := r.Advance(ctx, time.Minute); err != nil {
		return err
	}
	retry := map[string]bool{}
	for n, id := range ids {
		retry[id] = !answered[n]
	}
	return errors.Join(each(ids, func(id string) error {
		if err := settled(ctx, r, id, retry[id]); err != nil {
			return fmt.Errorf("%s, answered 2xx before the kill: %t: %w", id, !retry[id], err)
		}
		return nil
	})...)
}

// settled sends an event until it gets a 2xx, unless it already got one, and sees its effect; then
// it sends a duplicate.
func settled(ctx context.Context, r *Receiver, id string, retry bool) error {
	text := "a 2xx to the first attempt"
	for attempts := 0; retry; attempts++ {
		status, body, err := r.Send(ctx, id)
		if err != nil {
			return err
		}
		text, retry = fmt.Sprint(status, " ", body), status/100 != 2
		if retry && attempts == 10 {
			return fmt.Errorf("the answer to attempt %d is still %s", attempts, text)
		}
	}
	// A worker of an inbox looks for work in its own time.
	effects := 0
	err := process.Until(ctx, r.Patience, func() (_ bool, err error) {
		effects, err = r.Effects(ctx, id)
		return effects > 0, err
	})
	if err != nil || effects != 1 {
		return fmt.Errorf("%d effects, the last answer was %s, %v", effects, text, err)
	}
	if status, text, err := r.Send(ctx, id); err != nil || status/100 != 2 {
		return fmt.Errorf("a duplicate gets %d %s, %v", status, text, err)
	}
	if effects, err = r.Effects(ctx, id); err != nil || effects != 1 {
		return fmt.Errorf("%d effects after a duplicate, %v", effects, err)
	}
	return nil
}

// each calls a function for every id, all at once.
func each[T any](ids []string, call func(string) T) []T {
	results := make([]T, len(ids))
	var group sync.WaitGroup
	for n, id := range ids {
		group.Go(func() { results[n] = call(id) })
	}
	group.Wait()
	return results
}

// TestKillsAtAnyMomentLeaveOneEffect: the same for kills from outside, after a random number of
// answers to a stream of events.
func TestKillsAtAnyMomentLeaveOneEffect(t *testing.T) {
	for _, row := range Rows {
		t.Run(row.Language, func(t *testing.T) {
			t.Parallel()
			for mode := range row.Stores {
				t.Run(mode, func(t *testing.T) {
					r := begin(t, row, mode, "postgres")
					for life := range rounds(2) {
						ids := events(life, 200)
						at, sent := rand.IntN(len(ids)/2), make(chan struct{}, len(ids))
						var killer sync.WaitGroup
						killer.Go(func() {
							for range at {
								<-sent
							}
							r.Kill()
						})
						answered := each(ids, func(id string) bool {
							status, _, err := r.Send(t.Context(), id)
							sent <- struct{}{}
							return err == nil && status/100 == 2
						})
						killer.Wait()
						if err := r.Start(t.Context()); err != nil {
							t.Fatal(err)
						}
						if err := settle(t.Context(), r, ids, answered); err != nil {
							t.Fatalf("life %d: %v\n%s", life, err, r.Words())
						}
					}
				})
			}
		})
	}
}
