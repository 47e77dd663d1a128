package core

import (
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// A store that was restored to an earlier state uses row ids again. The core has seen them, and may
// have a head under one of them; the new delivery with that row id must be attempted nevertheless.

// again is a core with one endpoint, which may have one request at once, and the time.
type again struct {
	t    *testing.T
	core *Core
	now  time.Time
	out  []Effect
}

func newAgain(t *testing.T) *again {
	a := &again{t: t, core: New(Options{}), now: start}
	p, _ := policy.Preset("standard")
	a.step(Configured{Endpoint: &grapnel.Endpoint{ID: "ep_1", Tenant: "t", Status: grapnel.EndpointEnabled, Policy: p,
		MaxConcurrency: 1, URL: "http://a.test/"}})
	a.step(Loaded{Endpoint: "ep_1", Limit: 256})
	return a
}

func (a *again) step(in Input) { a.out = slices.Clone(a.core.Step(a.now, in)) }

// head is a delivery with a row id, created some seconds after the start.
func (a *again) head(delivery int64, created int) store.Head {
	at := start.Add(time.Duration(created) * time.Second)
	return store.Head{Delivery: delivery, Event: delivery, Endpoint: "ep_1", Due: at, Anchor: at, CreatedAt: at,
		Trigger: grapnel.TriggerSchedule}
}

// attempted fails unless the last input has begun an attempt of exactly this delivery.
func (a *again) attempted(h store.Head) {
	a.t.Helper()
	is := of[Attempt](a.out)
	if len(is) != 1 || !is[0].Head.Same(&h) || is[0].Head.Delivery != h.Delivery {
		a.t.Fatalf("attempts %+v, want one of %d, created %v", is, h.Delivery, h.CreatedAt)
	}
}

// done finishes the attempt of a row id with a success and makes that durable.
func (a *again) done(delivery int64, is store.Changed) {
	a.t.Helper()
	a.step(&Finished{Endpoint: "ep_1", Delivery: delivery, Outcome: policy.Outcome{Status: 200, Class: policy.ClassNone}})
	changes := of[Record](a.out)
	if len(changes) != 1 || changes[0].Change.Identity.Event != delivery || changes[0].Change.Identity.Endpoint != "ep_1" {
		a.t.Fatalf("%+v is recorded", changes)
	}
	finished := a.out
	a.step(Recorded{Changes: []Change{*changes[0].Change}, Results: []store.Changed{is}})
	a.out = append(finished, a.out...)
}

var well = store.Changed{Applied: true, Status: grapnel.Delivered}

// loads fails unless the endpoint's heads are read within a time, and answers with these.
func (a *again) loads(within time.Duration, heads ...store.Head) {
	a.t.Helper()
	for end := a.now.Add(within); len(of[Load](a.out)) == 0; a.step(Tick{}) {
		if a.now = a.core.Wake(); a.now.IsZero() || a.now.After(end) {
			a.t.Fatalf("heads are not read within %v", within)
		}
	}
	a.step(Loaded{Endpoint: "ep_1", Heads: heads, Limit: of[Load](a.out)[0].Limit})
}

func TestRowIDThatComesAgainIsFoundByItsHint(t *testing.T) {
	a := newAgain(t)
	a.step(Arrived{Heads: []store.Head{a.head(1, 0)}})
	a.done(1, well)
	a.now = start.Add(time.Second)
	again := a.head(1, 1)
	a.step(Arrived{Heads: []store.Head{again}})
	a.loads(0, again) // the hint is not believed, but it has the heads read at once
	a.attempted(again)
}

func TestRowIDThatComesAgainIsFoundWithoutHint(t *testing.T) {
	a := newAgain(t)
	a.step(Arrived{Heads: []store.Head{a.head(1, 0)}})
	a.done(1, well)
	again := a.head(1, 1)
	a.loads(2*time.Minute, again) // by the poll
	a.attempted(again)
}

// TestRowIDThatComesAgainWhileTheOldOneIsInMemory: a page replaces an idle head by the delivery
// that has its row id now.
func TestRowIDThatComesAgainWhileTheOldOneIsInMemory(t *testing.T) {
	a := newAgain(t)
	a.step(Arrived{Heads: []store.Head{a.head(1, 0), a.head(2, 0)}})
	a.attempted(a.head(1, 0)) // and 2 is idle
	a.now = start.Add(2 * time.Second)
	again := a.head(2, 1)
	a.step(Arrived{Heads: []store.Head{again}})
	a.loads(0, a.head(1, 0), again)
	a.done(1, well)
	a.attempted(again)
}

// TestForeignRowID: a head whose row id belongs to another delivery leaves the window without a
// change in the store, and the heads are read again, after a pause.
func TestForeignRowID(t *testing.T) {
	cases := map[string]func(a *again){
		"before the request": func(a *again) { a.step(&Finished{Endpoint: "ep_1", Delivery: 1, Foreign: true}) },
		"by the store":       func(a *again) { a.done(1, store.Changed{Foreign: true}) },
		"no row":             func(a *again) { a.done(1, store.Changed{}) },
	}
	for name, find := range cases {
		t.Run(name, func(t *testing.T) {
			a := newAgain(t)
			a.step(Arrived{Heads: []store.Head{a.head(1, 0)}})
			find(a)
			if len(of[Attempt](a.out)) > 0 || len(of[Load](a.out)) > 0 || name == "before the request" && len(a.out) > 0 {
				t.Fatalf("%+v", a.out)
			}
			if running, recording := a.core.Busy(); running+recording > 0 {
				t.Fatalf("%d running, %d recording", running, recording)
			}
			again := a.head(1, 1)
			a.loads(a.core.bounds.Retry, again)
			a.attempted(again)
			a.done(1, well)
		})
	}
}

// TestHeadOfAnotherEndpointIsNotAdmitted: it would be sent to the wrong one.
func TestHeadOfAnotherEndpointIsNotAdmitted(t *testing.T) {
	a := newAgain(t)
	a.step(Arrived{Heads: []store.Head{a.head(1, 0)}})
	next := a.head(2, 0)
	next.Endpoint = "ep_2"
	a.done(1, store.Changed{Applied: true, Status: grapnel.Delivered, Next: &next})
	if is := of[Attempt](a.out); len(is) > 0 {
		t.Fatalf("%+v", is)
	}
}

// TestOrderOfAForeignRowIDIsAnswered: the order is answered with "delivery not found".
func TestOrderOfAForeignRowIDIsAnswered(t *testing.T) {
	a := newAgain(t)
	a.step(Arrived{Heads: []store.Head{a.head(1, 0)}})
	a.step(Operated{Order: store.Order{Token: 7, Verb: store.Skip, Endpoint: "ep_1", Delivery: 1, Event: 1, Created: start}})
	a.step(&Finished{Endpoint: "ep_1", Delivery: 1, Foreign: true})
	if is := of[Reply](a.out); len(is) != 1 || is[0].Token != 7 || grapnel.CodeOf(is[0].Err) != grapnel.CodeNotFound {
		t.Fatalf("%+v", is)
	}
}
