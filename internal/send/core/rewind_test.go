package core

import (
	"errors"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// A clock that was ahead and is set right must not make an endpoint wait until the wrong time.
func TestClockSetBack(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, before := range map[string]func(*ward){
		"the next probe": (*ward).open,
		"a hold":         func(w *ward) { w.end(w.arrive(1)[0], 429) },
		"a page that could not be read": func(w *ward) {
			w.now = w.now.Add(time.Minute)
			w.step(Tick{})
			w.step(Loaded{Endpoint: "ep", Limit: 256, Err: errors.New("no")})
		},
		"a fault of our own": func(w *ward) {
			a := w.arrive(1)[0]
			w.step(&Finished{Endpoint: "ep", Delivery: a.Head.Delivery, Outcome: policy.Outcome{Class: policy.ClassInternal}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWard(t, nil)
			w.now = w.now.Add(year)
			w.step(Tick{})
			w.step(Loaded{Endpoint: "ep", Limit: 256})
			before(w)
			w.now = w.now.Add(-year)
			w.step(Tick{})
			read := len(of[Load](w.out)) > 0
			w.step(Loaded{Endpoint: "ep", Limit: 256})
			begun := w.arrive(1)
			for range 90 { // the longest hold that the endpoint did not ask for is a minute
				w.now = w.now.Add(time.Second)
				w.step(Tick{})
				read, begun = read || len(of[Load](w.out)) > 0, append(begun, of[Attempt](w.out)...)
			}
			if len(begun) == 0 || !read {
				t.Errorf("within a minute and a half %d attempts begin, a page is read: %v", len(begun), read)
			}
		})
	}
	w := newWard(t, nil)
	w.core = New(Options{})
	cfg, was := w.cfg, store.Standing{Endpoint: "ep", Number: 3}
	was.OpenedAt, was.ProbeAt, was.HoldUntil = w.now.Add(year), w.now.Add(year), w.now.Add(year)
	w.step(Configured{Endpoint: &cfg, Standing: was})
	w.step(Loaded{Endpoint: "ep", Limit: 256})
	if begun := w.arrive(2); len(begun) != 1 || begun[0].Trigger != grapnel.TriggerProbe {
		t.Errorf("after a restart %d attempts begin", len(begun))
	}
}

// A server ran with a clock that was a year ahead: a delivery was accepted then and has not been
// attempted, one was attempted then, and one has failed before and then. Once the clock is right
// they are attempted, in memory or only in the store, and go on by their schedules.
func TestDeliveriesPlannedByAClockThatWasAhead(t *testing.T) {
	const year = 400 * 24 * time.Hour
	for name, plan := range map[string]func(h *store.Head){
		"accepted": func(h *store.Head) {
			h.CreatedAt, h.Anchor, h.Due = h.CreatedAt.Add(year), h.Anchor.Add(year), h.Due.Add(year+time.Minute)
		},
		"attempted":        func(h *store.Head) { h.Attempts, h.Anchor, h.Due = 1, h.Anchor.Add(year), h.Due.Add(year+time.Minute) },
		"attempted before": func(h *store.Head) { h.Attempts, h.Due = 2, h.Due.Add(year+time.Minute) },
	} {
		for _, first := range []policy.Mode{policy.SincePrevious, policy.SinceFirst} {
			for _, running := range []bool{true, false} {
				w := newWard(t, func(ep *grapnel.Endpoint) { ep.Policy.Schedule.Mode, ep.Policy.Breaker.Failures = first, 100 })
				w.now = w.now.Add(time.Minute)
				planned := store.Head{Delivery: 7, Event: 7, Endpoint: "ep", Due: w.now, Anchor: w.now, CreatedAt: w.now,
					Trigger: grapnel.TriggerSchedule}
				later := planned // by a right clock
				plan(&planned)
				later.Delivery, later.Due = 8, w.now.Add(24*time.Hour)
				if running {
					w.now = w.now.Add(year)
					w.step(Tick{})
					w.step(Loaded{Endpoint: "ep", Limit: 256, Heads: []store.Head{planned}})
					w.now = w.now.Add(-year)
				}
				var begun []Attempt
				for range 2 * 60 {
					w.now = w.now.Add(time.Second)
					w.step(Tick{})
					begun = append(begun, of[Attempt](w.out)...)
					if len(of[Load](w.out)) > 0 && len(begun) == 0 {
						w.step(Loaded{Endpoint: "ep", Limit: 256, Heads: []store.Head{later, planned}})
						begun = append(begun, of[Attempt](w.out)...)
					}
				}
				if len(begun) != 1 || begun[0].Head.Delivery != 7 {
					t.Errorf("%s, %s, running %v: within two minutes these attempts begin: %+v", name, first, running, begun)
					continue
				}
				ch := w.end(begun[0], 503)
				if wait := ch.Due.Sub(w.now); wait < 5*time.Second || wait > 24*time.Hour || ch.Anchor.After(w.now) {
					t.Errorf("%s, %s, running %v: the next attempt is due after %v, counted from %v", name, first, running, wait, ch.Anchor)
				}
			}
		}
	}
}

// An attempt begins by a clock that is ahead, and fails when the clock is right again. The next one
// waits as the policy says, in memory or only in the store; before, it came at once.
func TestFirstAttemptByAClockThatWasAhead(t *testing.T) {
	for _, delay := range []time.Duration{10 * time.Second, 90 * time.Minute} {
		w := newWard(t, nil)
		w.now = w.now.Add(time.Minute)
		failed := store.Head{Delivery: 7, Event: 7, Endpoint: "ep", Due: w.now.Add(delay), Anchor: w.now.Add(2 * time.Hour), Attempts: 1,
			CreatedAt: w.now.Add(2 * time.Hour), Trigger: grapnel.TriggerSchedule}
		page := Loaded{Endpoint: "ep", Limit: 256, Heads: []store.Head{failed}}
		var begun []Attempt
		for end := failed.Due.Add(time.Minute); w.now.Before(end) && len(begun) == 0; {
			w.now = w.now.Add(time.Second)
			w.step(Tick{})
			begun = of[Attempt](w.out)
			if len(of[Load](w.out)) > 0 {
				w.step(page)
				begun = append(begun, of[Attempt](w.out)...)
			}
		}
		if late := w.now.Sub(failed.Due); len(begun) != 1 || late < 0 || begun[0].Head.Anchor.After(w.now.Add(time.Hour)) {
			t.Errorf("due after %v, %v after that these attempts begin: %+v", delay, late, begun)
		}
	}
}

// A clock that was ahead is set right while a probe is in flight. The probe fails, and the next one
// comes after the usual pause.
func TestClockSetBackDuringAProbe(t *testing.T) {
	w := newWard(t, nil)
	w.open()
	probes := w.pass(10 * time.Second)
	if len(probes) != 1 {
		t.Fatalf("%d probes begin", len(probes))
	}
	w.now = w.now.Add(-365 * 24 * time.Hour)
	w.end(probes[0], 0)
	if wait := w.core.Health(w.now, "ep").NextProbeAt.Sub(w.now); wait <= 0 || wait > 11*time.Second {
		t.Errorf("the next probe comes %v after the failed one", wait)
	}
}

// The clock jumps while attempts are in flight. The pace of the endpoint's successes is known
// afterwards.
func TestClockJumpsDuringASuccess(t *testing.T) {
	for _, jump := range []time.Duration{-365 * 24 * time.Hour, 365 * 24 * time.Hour} {
		w := newWard(t, nil)
		for range 50 {
			a := w.arrive(1)[0]
			w.now = w.now.Add(100 * time.Millisecond)
			w.end(a, 200)
		}
		usual := w.core.Health(w.now, "ep").PerSecond
		a := w.arrive(1)[0]
		w.now = w.now.Add(jump)
		w.end(a, 200)
		for range 60 {
			a := w.arrive(1)[0]
			w.now = w.now.Add(100 * time.Millisecond)
			w.end(a, 200)
		}
		if is := w.core.Health(w.now, "ep").PerSecond; is < usual/2 || is > usual*2 {
			t.Errorf("a jump by %v: %v deliveries in a second before, %v after 60 more", jump, usual, is)
		}
	}
}

// An operator asks for an attempt while a clock is ahead. The clock is set right before the attempt
// can begin.
func TestClockSetBackBeforeAnOrderedAttempt(t *testing.T) {
	w := newWard(t, func(ep *grapnel.Endpoint) { ep.MaxConcurrency = 1 })
	first := w.arrive(1)
	ordered := store.Head{Delivery: 7, Event: 7, Endpoint: "ep", Due: w.now, Anchor: w.now, CreatedAt: w.now, Trigger: grapnel.TriggerManual}
	w.step(Arrived{Heads: []store.Head{ordered}})
	w.now = w.now.Add(-365 * 24 * time.Hour)
	w.step(Tick{})
	w.step(Loaded{Endpoint: "ep", Limit: 256})
	w.end(first[0], 200)
	begun := append(of[Attempt](w.out), w.pass(2*time.Minute)...)
	if len(begun) != 1 || begun[0].Head.Delivery != 7 {
		t.Errorf("within two minutes these attempts begin: %+v", begun)
	}
}

// A clock that was ahead is set right while a first attempt is in flight. The next attempt comes
// after the delay of the policy, counted from now.
func TestClockSetBackDuringAFirstAttempt(t *testing.T) {
	for _, mode := range []policy.Mode{policy.SincePrevious, policy.SinceFirst} {
		w := newWard(t, func(ep *grapnel.Endpoint) { ep.Policy.Schedule.Mode = mode })
		a := w.arrive(1)[0]
		began := w.now
		w.now = w.now.Add(-365 * 24 * time.Hour)
		w.step(&Finished{Endpoint: "ep", Delivery: a.Head.Delivery, Outcome: outcome(503), Attempt: grapnel.Attempt{StartedAt: began}})
		ch := of[Record](w.out)[0].Change
		if wait := ch.Due.Sub(w.now); wait < 4*time.Second || wait > 7*time.Second || ch.Anchor.After(w.now) {
			t.Errorf("%s: the next attempt is due after %v, counted from %v", mode, wait, ch.Anchor)
		}
	}
}

// An endpoint is paused by a clock that is ahead. The days of the pause by the right clock do not
// count as failing.
func TestClockSetBackDuringAPause(t *testing.T) {
	w := newWard(t, func(ep *grapnel.Endpoint) { ep.Policy.Disable.After = policy.Duration(120 * time.Hour) })
	w.end(w.arrive(1)[0], 500)
	w.now = w.now.Add(365 * 24 * time.Hour)
	w.reconfigure(func(ep *grapnel.Endpoint) { ep.Status, ep.UpdatedAt = grapnel.EndpointPaused, w.now })
	w.now = w.now.Add(-365 * 24 * time.Hour)
	w.step(Tick{})
	w.now = w.now.Add(200 * time.Hour)
	w.reconfigure(func(ep *grapnel.Endpoint) { ep.Status, ep.UpdatedAt = grapnel.EndpointEnabled, w.now })
	w.step(Loaded{Endpoint: "ep", Limit: 256})
	if st := w.end(w.arrive(1)[0], 500).Standing; st != nil && st.Sentence != "" {
		t.Errorf("disabled after a pause: %s", st.Sentence)
	}
}

// The server starts with a clock that is ahead. Once it is right, the promise of freshness counts
// attempts again.
func TestClockSetBackBeforeFreeAttempts(t *testing.T) {
	w := newWard(t, nil)
	w.now = w.now.Add(-365 * 24 * time.Hour)
	w.step(Tick{})
	w.step(Loaded{Endpoint: "ep", Limit: 256})
	w.now = w.now.Add(time.Second)
	if begun := w.arrive(1); len(begun) != 1 || !begun[0].Free {
		t.Errorf("these attempts begin: %+v", begun)
	}
}

// The last attempt on time was by a clock that was ahead. Late deliveries get all slots once its
// protection ends by the right clock.
func TestClockSetBackBeforeLateAttempts(t *testing.T) {
	s := newShop(Options{Slots: 64, PerHost: 64})
	s.endpoint("ep", "a", time.Millisecond, 32)
	s.arrive("ep", 1)
	s.run(time.Second)
	s.arrive("ep", 1) // on time
	s.run(time.Second)
	s.now = s.now.Add(-365 * 24 * time.Hour)
	s.step(Tick{})
	s.run(time.Minute)
	s.commit = func(int) time.Duration { return time.Hour }
	s.core.late.limit = 1
	s.late("ep", 20, time.Minute)
	s.run(time.Second)
	if _, recording := s.core.Busy(); recording != 20 {
		t.Errorf("%d of 20 late deliveries were attempted", recording)
	}
}
