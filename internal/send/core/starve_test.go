package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestKeysThatFailDoNotStarveOthers: the window is full of keys that fail again and again, and are
// due again before the window's horizon; keys that arrived behind them must be attempted
// nevertheless.
func TestKeysThatFailDoNotStarveOthers(t *testing.T) {
	p, _ := policy.Preset("standard")
	p.Schedule = policy.Schedule{Mode: policy.SincePrevious, Delays: []policy.Duration{0, policy.Duration(10 * time.Second)},
		Tail: policy.TailRepeat}
	p.MaxAttempts, p.Jitter, p.Breaker = 0, policy.Jitter{}, &policy.Breaker{Off: true}
	const poison, good = 256, 100
	s := newShop(Options{})
	pending := map[int64]*store.Head{}
	arrived := 0
	s.outcome = func(a Attempt) policy.Outcome {
		if a.Head.Delivery <= poison {
			return policy.Outcome{Status: 500, Class: policy.ClassStatus5xx}
		}
		return policy.Outcome{Status: 200, Class: policy.ClassNone}
	}
	s.recorded = func(ch store.Change) store.Changed {
		h := pending[ch.Delivery]
		if ch.Status.Final() {
			delete(pending, ch.Delivery)
			arrived++
			return store.Changed{Applied: true, Status: ch.Status}
		}
		h.Due, h.Attempts = ch.Due, h.Attempts+1
		next := *h
		return store.Changed{Applied: true, Status: ch.Status, Next: &next}
	}
	s.page = func(limit int) (heads []store.Head) {
		for _, h := range pending {
			heads = append(heads, *h)
		}
		slices.SortFunc(heads, func(a, b store.Head) int { return compareHeads(&head{Head: a, due: a.Due}, &head{Head: b, due: b.Due}) })
		return heads[:min(limit, len(heads))]
	}
	s.takes["ep"] = 5 * time.Millisecond
	s.step(Configured{Endpoint: &grapnel.Endpoint{ID: "ep", Tenant: "a", Policy: p, MaxConcurrency: 32,
		Status: grapnel.EndpointEnabled, Revision: 1}})
	s.run(time.Second)
	for n := int64(1); n <= poison+good; n++ {
		h := store.Head{Delivery: n, Event: n, Endpoint: "ep", Due: s.now, Anchor: s.now, CreatedAt: s.now, Trigger: grapnel.TriggerSchedule}
		pending[n] = &h
		s.step(Arrived{Heads: []store.Head{h}})
	}
	s.run(5 * time.Minute)
	if arrived != good {
		t.Errorf("%d of %d arrived", arrived, good)
	}
}

// TestSkipWhileADeletedEndpointEnds: the order is answered, and nothing remains that would block
// draining.
func TestSkipWhileADeletedEndpointEnds(t *testing.T) {
	c := New(Options{})
	p, _ := policy.Preset("standard")
	ep := grapnel.Endpoint{ID: "ep", Tenant: "a", Policy: p, MaxConcurrency: 32, Status: grapnel.EndpointEnabled, Revision: 1}
	c.Step(start, Configured{Endpoint: &ep, Newest: 9})
	c.Step(start, Loaded{Endpoint: "ep", Limit: 256})
	gone := ep
	gone.DeletedAt, gone.Revision = start, 2
	c.Step(start, Configured{Endpoint: &gone, Newest: 9})
	change := *c.Step(start, Operated{Order: store.Order{Token: 1, Verb: store.Skip, Endpoint: "ep", Delivery: 5}})[0].(Record).Change
	c.Step(start, Ended{Endpoint: "ep", Count: 1})
	answered := false
	for _, e := range c.Step(start, Recorded{Changes: []Change{change}, Results: []store.Changed{{Status: grapnel.Dropped}}}) {
		if _, ok := e.(Reply); ok {
			answered = true
		}
	}
	if _, recording := c.Busy(); !answered || recording != 0 {
		t.Errorf("answered: %v; still recording: %d", answered, recording)
	}
}

// TestFreshBehindUrgent: an urgent head is the first in waiting. If it waits after a fault of this
// process, the fresh heads behind it do not wait with it for the quota of retries.
func TestFreshBehindUrgent(t *testing.T) {
	s := newShop(Options{Slots: 4, PerHost: 100})
	s.endpoint("other", "b", time.Hour, 100)
	s.again("other", 10)
	s.endpoint("ep", "a", time.Millisecond, 8)
	s.run(time.Millisecond)
	asked := store.Head{Delivery: 900, Endpoint: "ep", Trigger: grapnel.TriggerManual}
	s.core.endpoints["ep"].window.put(s.now, &head{Head: asked, due: s.now.Add(30 * time.Second)})
	s.again("ep", 1)
	s.arrive("ep", 1)
	if s.run(time.Second); s.got["ep"] != 1 {
		t.Errorf("%d attempts begin", s.got["ep"])
	}
}

// TestDeletedAreForgotten: creating and deleting endpoints all day must not fill the memory.
func TestDeletedAreForgotten(t *testing.T) {
	s := newShop(Options{})
	for i := range 50 {
		id := fmt.Sprint("ep", i)
		s.endpoint(id, "a", time.Millisecond, 8)
		s.arrive(id, 1)
		s.run(10 * time.Millisecond)
		gone := *s.core.endpoints[id].config
		gone.DeletedAt, gone.Revision = s.now, 2
		s.step(Configured{Endpoint: &gone})
		s.step(Ended{Endpoint: id})
	}
	if c := s.core; len(c.endpoints)+len(c.newcomers)+len(c.quotas.perHost)+len(c.quotas.tenants) > 0 {
		t.Errorf("%d endpoints, %d newcomers, %d hosts and %d tenants are kept", len(c.endpoints), len(c.newcomers), len(c.quotas.perHost),
			len(c.quotas.tenants))
	}
}

// TestWhatHangsGivesItsLatePlaceBack: while the store is slow one slot is left for late deliveries,
// and an endpoint that was quick before hangs with it. The others progress nevertheless, and the
// slot is not counted twice.
func TestWhatHangsGivesItsLatePlaceBack(t *testing.T) {
	s := newShop(Options{Slots: 64})
	s.endpoint("now", "a", time.Millisecond, 32) // an endpoint that is on time
	for _, id := range []string{"hangs", "waits"} {
		s.endpoint(id, "a", time.Millisecond, 32)
		s.arrive(id, 1) // no longer unproven
	}
	onTime := func(d time.Duration) {
		for range d / (100 * time.Millisecond) {
			s.arrive("now", 1)
			s.run(100 * time.Millisecond)
			s.core.late.limit, s.core.late.alone = 1, 0 // as if more were too much
		}
	}
	onTime(2 * time.Second)
	s.takes["hangs"] = 30 * time.Second
	s.late("hangs", 1, time.Minute)
	s.late("waits", 20, time.Minute)
	onTime(10 * time.Second)
	if got := s.got["waits"] - 1; got != 20 {
		t.Errorf("%d of 20 late deliveries were attempted while another endpoint hangs", got)
	}
	onTime(40 * time.Second)
	if used := s.core.late.places.used; used != 0 {
		t.Errorf("%d places for what is late are taken, and nothing is late", used)
	}
}
