package core

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// refusing is an endpoint with heads that wait for hours after refusals.
type refusing struct {
	*ward
	waiting []store.Head
}

func newRefusing(t *testing.T, n, attempts int) *refusing {
	w := &refusing{ward: newWard(t, func(ep *grapnel.Endpoint) {
		ep.Policy.Schedule = policy.Schedule{Mode: policy.SincePrevious, Delays: []policy.Duration{0, policy.Duration(4 * time.Hour)},
			Tail: policy.TailRepeat}
		ep.Policy.MaxAttempts, ep.Policy.MaxAge = 5, 0
	})}
	for range n {
		w.next++
		w.waiting = append(w.waiting, store.Head{Delivery: w.next, Event: w.next, Endpoint: "ep", Due: w.now.Add(4 * time.Hour), Anchor: w.now,
			CreatedAt: w.now, Attempts: attempts, Trigger: grapnel.TriggerSchedule})
	}
	return w
}

// answers ends attempts of new events one after the other.
func (w *refusing) answers(statuses ...int) {
	for _, status := range statuses {
		w.end(w.arrive(1)[0], status)
	}
}

// page answers the reading of heads, if there is one, and returns the attempts that begin.
func (w *refusing) page() []Attempt {
	if len(of[Load](w.out)) == 0 {
		return nil
	}
	w.step(Loaded{Endpoint: "ep", Limit: 256, Heads: w.waiting})
	return of[Attempt](w.out)
}

// finish ends the attempt of a head that waits, and puts its next time into the store.
func (w *refusing) finish(a Attempt, status int) {
	at := 0
	for i := range w.waiting {
		if w.waiting[i].Delivery == a.Head.Delivery {
			at = i
		}
	}
	if ch := w.end(a, status); ch.Status.Final() {
		w.waiting = append(w.waiting[:at], w.waiting[at+1:]...)
	} else {
		w.waiting[at].Due, w.waiting[at].Attempts = ch.Due, w.waiting[at].Attempts+1
	}
}

// TestARepairBringsRetriesForward: after refusals in a row a success brings one head forward, and
// each round that is delivered brings twice as many. A single refusal among successes brings none,
// nor do failures that a circuit would count.
func TestARepairBringsRetriesForward(t *testing.T) {
	w := newRefusing(t, 20, 2)
	w.answers(200, 422, 200)
	if got := w.page(); len(got) != 0 {
		t.Fatalf("a single failure brings %d forward", len(got))
	}
	w.answers(503, 503, 422, 422, 200, 422, 422, 503, 200)
	if got := w.page(); len(got) != 0 {
		t.Fatalf("failures of the endpoint bring %d forward", len(got))
	}
	w.answers(422, 422, 422, 200)
	for _, want := range []int{1, 2, 4, 8, 5} {
		got := w.page()
		if len(got) != want {
			t.Fatalf("%d are brought forward at once, not %d", len(got), want)
		}
		for _, a := range got {
			w.finish(a, 200)
		}
	}
	if len(w.waiting) != 0 {
		t.Errorf("%d still wait", len(w.waiting))
	}
}

// TestAnswersToOthersUseUpNothing: at a receiver that goes on refusing some events, each delivery
// is brought forward once at most and never for its last attempt, however often others succeed.
func TestAnswersToOthersUseUpNothing(t *testing.T) {
	for attempts, want := range map[int]int{2: 1, 4: 0} {
		w := newRefusing(t, 3, attempts)
		count := map[int64]int{}
		for i := range w.waiting {
			count[w.waiting[i].Delivery] = 0
		}
		for range 50 {
			w.answers(422, 422, 422, 200)
			got := w.page()
			if len(got) > 1 {
				t.Fatalf("%d are brought forward at once", len(got))
			}
			for _, a := range got {
				count[a.Head.Delivery]++
				w.finish(a, 422)
				if more := w.page(); len(more) != 0 {
					t.Errorf("after a refusal %d more are brought forward", len(more))
				}
			}
		}
		for _, got := range count {
			if got != want {
				t.Errorf("with %d of 5 attempts made a delivery is brought forward %d times, not %d", attempts, got, want)
			}
		}
	}
}

// TestAPersonsSuccessIsARepair: one failure is enough if a person asked for the attempt that
// succeeds. Without a breaker the policy's times hold.
func TestAPersonsSuccessIsARepair(t *testing.T) {
	for name, off := range map[string]bool{"with a breaker": false, "without a breaker": true} {
		t.Run(name, func(t *testing.T) {
			w := newRefusing(t, 3, 2)
			if off {
				w.reconfigure(func(ep *grapnel.Endpoint) { ep.Policy.Breaker = &policy.Breaker{Off: true} })
				w.page()
			}
			w.answers(200, 422)
			w.next++
			w.step(Arrived{Heads: []store.Head{{Delivery: w.next, Event: w.next, Endpoint: "ep", Due: w.now, Anchor: w.now, CreatedAt: w.now,
				Attempts: 1, Trigger: grapnel.TriggerManual}}})
			w.end(of[Attempt](w.out)[0], 200)
			if got := w.page(); len(got) != map[bool]int{false: 1, true: 0}[off] {
				t.Errorf("%d are brought forward", len(got))
			}
		})
	}
}
