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
