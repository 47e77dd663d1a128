//go:build linux

package receivers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// steps are where a test receiver holds events, in the order of a request.
var steps = []string{"before-claim", "after-claim", "after-effect", "after-commit", "after-answer"}

// inHandler are the steps at which a handler holds its event.
var inHandler = []string{"after-claim", "after-effect"}

// long says whether the long forms run: every store, every sample, and a thousand rounds.
var long = os.Getenv("GRAPNEL_SOAK") != ""

// rounds is the number of rounds of each step.
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

// handlers is the number of handlers at once: workers of an inbox, and transactions of handlers.
// Each of these has one of a receiver's 20 connections.
const handlers = 16

// together is how many events can be at a step at once. SQLite has one writer, so in the mode
// transaction one handler runs at a time.
func together(mode, store, step string) int {
	switch inside := slices.Contains(inHandler, step); {
	case inside && mode == "transaction" && store == "sqlite":
		return 1
	case !long:
		return 4
	case inside, store == "sqlite":
		return handlers
	}
	return 50
}

// TestAKillAtAnyStepLeavesOneEffect: a receiver of each language, mode and store is killed while it
// holds events at a step of their requests. The sender repeats those without a 2xx, and each has
// one effect. An event is a round only if the receiver listed it at the step before the kill.
func TestAKillAtAnyStepLeavesOneEffect(t *testing.T) {
	t.Parallel()
	for _, row := range Rows {
		for _, mode := range Modes {
			for _, store := range row.stores(mode) {
				t.Run(row.Language+"/"+mode+"/"+store, func(t *testing.T) {
					t.Parallel()
					r := begin(t, row, mode, store, "SECRET2=", fmt.Sprint("WORKERS=", handlers))
					for _, step := range steps {
						done, kills, begun := 0, 0, time.Now()
						for ; done < rounds(1); kills++ {
							ids := events(step+"_"+fmt.Sprint(kills), together(mode, store, step))
							held, err := killed(t.Context(), r, ids, mode, step)
							if err != nil {
								t.Fatalf("killed %s after %d kills: %v\n%s", step, kills, err, r.Words())
							}
							done += held
						}
						t.Logf("%d events %s, %d kills, one effect each; %.1f s", done, step, kills, time.Since(begun).Seconds())
					}
				})
			}
		}
	}
}

// TestTheHarnessSeesWhatAKillBreaks: a receiver that marks the event before the work loses it, and
// one that records the event after the work doubles it.
func TestTheHarnessSeesWhatAKillBreaks(t *testing.T) {
	t.Parallel()
	for flaw, step := range map[string]string{"marked-first": "after-claim", "recorded-after": "after-effect"} {
		r := begin(t, bad, "transaction", "postgres", "FLAW="+flaw)
		r.Patience = time.Second
		_, err := killed(t.Context(), r, events(flaw, 1), "transaction", step)
		want := map[string]string{"marked-first": "0 effects", "recorded-after": "2 effects"}[flaw]
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a receiver that is %s was killed %s, and the harness saw %v instead of %s", flaw, step, err, want)
		}
	}
}

// TestAFailureIsNoAnswerToSendAgainAfter: a receiver that fails is seen at its first 503, and one
// whose key never gets free after ten.
func TestAFailureIsNoAnswerToSendAgainAfter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		outcomes  []string // the last one stays
		ok        bool
		attempted int
	}{{[]string{"in_progress", "in_progress", "processed"}, true, 3}, {[]string{"in_progress"}, false, most},
		{[]string{"in_progress", "retryable", "processed"}, false, 2}, {[]string{""}, false, 1}} {
		attempted := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			outcome := test.outcomes[min(attempted, len(test.outcomes)-1)]
			attempted++
			if outcome != "processed" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = fmt.Fprintf(w, `{"outcome":%q}`, outcome)
		}))
		err := deliver(t.Context(), &Receiver{Base: server.URL, http: server.Client()}, "evt_1")
		server.Close()
		if (err == nil) != test.ok || attempted != test.attempted {
			t.Errorf("of the answers %q %d came, and the end was %v", test.outcomes, attempted, err)
		}
	}
}

// killed sends events to a receiver that holds them at a step, kills it there, and settles them
// with its next life. It returns how many of the events the receiver had listed at the step.
func killed(ctx context.Context, r *Receiver, ids []string, mode, step string) (held int, err error) {
	if err := r.Hold(ctx, step); err != nil {
		return 0, err
	}
	var answers []answer
	var senders sync.WaitGroup
	senders.Go(func() { answers = each(ids, func(id string) answer { return send(ctx, r, id, answer.inProgress) }) })
	held, err = allHeld(ctx, r, ids)
	if err == nil && step == "after-answer" {
		senders.Wait() // all of each answer was written
	}
	r.Kill()
	senders.Wait()
	var answered []bool
	for n, a := range answers {
		if a.err == nil && !a.ok() {
			return held, fmt.Errorf("%s was answered %v before the kill", ids[n], a)
		}
		answered = append(answered, a.ok())
	}
	if err != nil {
		return held, fmt.Errorf("%d of %d events are at the step: %w", held, len(ids), err)
	}
	// An inbox answers before its handlers run.
	if want := step == "after-answer"; slices.Contains(answered, !want) && !(mode == "inbox" && slices.Contains(inHandler, step)) {
		return held, fmt.Errorf("events were answered 2xx before the kill: %v; want %t for each", answered, want)
	}
	if err := r.Start(ctx); err != nil {
		return held, err
	}
	if err := settle(ctx, r, ids, answered); err != nil || mode != "inbox" {
		return held, err
	}
	// Requests whose effect was before the kill are taken again. Workers take the oldest one first.
	return held, settle(ctx, r, []string{ids[0] + "_last"}, []bool{false})
}

// allHeld waits until all of the events are at the step, and returns their number. It is smaller if
// an inbox whose workers repeat requests of the life before, which have had their effect, has no
// worker left.
func allHeld(ctx context.Context, r *Receiver, ids []string) (count int, err error) {
	patience := 30 * time.Second
	if long { // it runs for an hour, beside other work, with fifty events at once
		patience = 3 * time.Minute
	}
	err = process.Until(ctx, patience, func() (bool, error) {
		held, err := r.Held(ctx)
		count = 0
		for _, id := range ids {
			if slices.Contains(held, id) {
				count++
			}
		}
		return count == len(ids) || count > 0 && len(held) > count && len(held) >= handlers, err
	})
	return count, err
}

// events are the ids of a life.
func events(life string, count int) (ids []string) {
	for n := range count {
		ids = append(ids, fmt.Sprintf("evt_%s_%d", life, n))
	}
	return ids
}

// settle repeats each event that has no 2xx yet until it has one, a minute later by the clock of
// sender and receiver, and sees one effect of each; then it sends each again, and sees no other.
func settle(ctx context.Context, r *Receiver, ids []string, answered []bool) error {
	if err := r.Advance(ctx, time.Minute); err != nil {
		return err
	}
	again := map[string]bool{}
	for n, id := range ids {
		again[id] = !answered[n]
	}
	err := errors.Join(each(ids, func(id string) error {
		if again[id] {
			return deliver(ctx, r, id)
		}
		return nil
	})...)
	if err != nil {
		return err
	}
	// One after the other: forty that ask at once leave a busy receiver no time to work. The patience
	// with an event begins when the one before it has its effect.
	for _, id := range ids {
		if err := oneEffect(ctx, r, id); err != nil {
			return fmt.Errorf("%s, answered 2xx before the kill: %t: %w", id, !again[id], err)
		}
	}
	return errors.Join(each(ids, func(id string) error {
		if err := deliver(ctx, r, id); err != nil {
			return fmt.Errorf("a duplicate of %s: %w", id, err)
		}
		if effects, err := r.Effects(ctx, id); err != nil || effects != 1 {
			return fmt.Errorf("%s has %d effects after a duplicate, %v", id, effects, err)
		}
		return nil
	})...)
}

// oneEffect waits for the effect of an event. A worker of an inbox looks for work in its own time.
func oneEffect(ctx context.Context, r *Receiver, id string) error {
	effects := 0
	err := process.Until(ctx, r.Patience, func() (_ bool, err error) {
		effects, err = r.Effects(ctx, id)
		return effects > 0, err
	})
	if err != nil || effects != 1 {
		return fmt.Errorf("%d effects, %v", effects, err)
	}
	return nil
}

// most is how often a sender sends an event.
const most = 10

// answer is what an attempt came to.
type answer struct {
	status int
	body   string
	err    error // no answer came
}

func (a answer) ok() bool { return a.err == nil && a.status/100 == 2 }

// inProgress tells the one 503 of a kit after which a sender of the harness sends again: the key or
// the writer of SQLite was held for longer than the kit waits. After another one the handler failed.
func (a answer) inProgress() bool {
	var body struct{ Outcome string }
	return a.err == nil && a.status == http.StatusServiceUnavailable &&
		json.Unmarshal([]byte(a.body), &body) == nil && body.Outcome == "in_progress"
}

// send sends an event until its answer is one after which a sender does not send again.
func send(ctx context.Context, r *Receiver, id string, again func(answer) bool) (a answer) {
	for range most {
		if a.status, a.body, a.err = r.Send(ctx, id); !again(a) {
			break
		}
	}
	return a
}

// deliver sends an event until it gets a 2xx: again after an answer that did not come, too, since a
// server may close a connection that was idle.
func deliver(ctx context.Context, r *Receiver, id string) error {
	a := send(ctx, r, id, func(a answer) bool { return a.inProgress() || a.err != nil && ctx.Err() == nil })
	if !a.ok() {
		return fmt.Errorf("the last answer is %v", a)
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
	t.Parallel()
	count := 200
	if !long {
		count = 40
	}
	for _, row := range Rows {
		for mode := range row.Stores {
			t.Run(row.Language+"/"+mode, func(t *testing.T) {
				t.Parallel()
				r := begin(t, row, mode, "postgres")
				for life := range rounds(2) {
					ids := events(fmt.Sprint(life), count)
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
	}
}
