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
