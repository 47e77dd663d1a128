package core

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

var start = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// TestSeen: every id that was added is reported as maybe seen; a recent id that was not added never
// is.
func TestSeen(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		span := int64(rapid.SampledFrom([]int{1, 2, 3, 7, 8, 63, 64, 65, 1 << 16}).Draw(t, "span"))
		s := newSeen(int(span))
		added := map[int64]bool{}
		at := int64(1)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			at = max(1, at+rapid.Int64Range(-2000, 3000).Draw(t, "move"))
			if rapid.IntRange(0, 30).Draw(t, "leap") == 0 {
				at += 3 * span
			}
			if !added[at] && s.maybe(at) && s.high-at < span {
				t.Fatalf("%d was never added", at)
			}
			s.add(at)
			added[at] = true
		}
		for n := range added {
			if !s.maybe(n) {
				t.Fatalf("%d was added and is forgotten", n)
			}
		}
	})
}

// shop is a core with simulated durations of attempts and commits. Tests compare how much each
// endpoint gets.
type shop struct {
	core   *Core
	now    time.Time
	next   int64
	agenda []job
	seen   []bool // of each attempt: Free
	got    map[string]int
	held   map[string]time.Duration
	takes  map[string]time.Duration

	// The default outcome is a success at the first attempt; the default store is empty.
	outcome  func(Attempt) policy.Outcome
	recorded func(store.Change) store.Changed
	page     func(limit int) []store.Head
	commit   func(waiting int) time.Duration
}

type job struct {
	at time.Time
	in Input
}

func newShop(o Options) *shop {
	return &shop{core: New(o), now: start, got: map[string]int{}, held: map[string]time.Duration{}, takes: map[string]time.Duration{},
		outcome:  func(Attempt) policy.Outcome { return policy.Outcome{Status: 200, Class: policy.ClassNone} },
		recorded: func(c store.Change) store.Changed { return store.Changed{Applied: true, Status: c.Status} },
		page:     func(int) []store.Head { return nil },
		commit:   func(int) time.Duration { return time.Millisecond },
	}
}

func (s *shop) endpoint(id, tenant string, takes time.Duration, concurrency int) {
	s.place("https://"+id+".test/", id, tenant, takes, concurrency)
}

// at makes an endpoint at a URL of its own choice.
func (s *shop) at(url, id, tenant string, takes time.Duration) { s.place(url, id, tenant, takes, 32) }

func (s *shop) place(url, id, tenant string, takes time.Duration, concurrency int) {
	p, _ := policy.Preset("standard")
	s.takes[id] = takes
	s.step(Configured{Endpoint: &grapnel.Endpoint{ID: id, Tenant: tenant, URL: url, Policy: p, MaxConcurrency: concurrency,
		Status: grapnel.EndpointEnabled, Revision: 1}})
}

func (s *shop) arrive(id string, n int) { s.heads(id, n, 0, grapnel.TriggerSchedule) }

// again is like arrive with deliveries that have been attempted before.
func (s *shop) again(id string, n int) { s.heads(id, n, 1, grapnel.TriggerSchedule) }

// replay is like arrive with deliveries that a replay created.
func (s *shop) replay(id string, n int) { s.heads(id, n, 0, grapnel.TriggerReplay) }

// late is like arrive with deliveries that have been due for a while.
func (s *shop) late(id string, n int, by time.Duration) {
	now := s.now
	s.now = now.Add(-by)
	heads := s.made(id, n, 0, grapnel.TriggerSchedule)
	s.now = now
	s.step(Arrived{Heads: heads})
}

func (s *shop) heads(id string, n, attempts int, trigger grapnel.Trigger) {
	s.step(Arrived{Heads: s.made(id, n, attempts, trigger)})
}

func (s *shop) made(id string, n, attempts int, trigger grapnel.Trigger) (heads []store.Head) {
	for range n {
		s.next++
		heads = append(heads, store.Head{Delivery: s.next, Event: s.next, Endpoint: id, Attempts: attempts, Due: s.now, Anchor: s.now,
			CreatedAt: s.now, Trigger: trigger})
	}
	return heads
}

func (s *shop) step(in Input) {
	for _, e := range s.core.Step(s.now, in) {
		switch e := e.(type) {
		case Attempt:
			took := s.takes[e.Config.ID]
			s.seen = append(s.seen, e.Free)
			s.got[e.Config.ID]++
			s.held[e.Config.ID] += took
			s.agenda = append(s.agenda, job{s.now.Add(took), &Finished{Endpoint: e.Config.ID, Delivery: e.Head.Delivery,
				Outcome: s.outcome(e), Attempt: grapnel.Attempt{StartedAt: s.now}}})
		case Record:
			_, waiting := s.core.Busy()
			s.agenda = append(s.agenda, job{s.now.Add(s.commit(waiting)), Recorded{Changes: []Change{*e.Change},
				Results: []store.Changed{s.recorded(e.Change.Change)}}})
		case Load:
			s.agenda = append(s.agenda, job{s.now.Add(time.Millisecond), Loaded{Endpoint: e.Endpoint, Limit: e.Limit, Heads: s.page(e.Limit)}})
		}
	}
}

// run lets time pass.
func (s *shop) run(d time.Duration) {
	for end := s.now.Add(d); ; {
		first := -1
		for i := range s.agenda {
			if !s.agenda[i].at.After(end) && (first < 0 || s.agenda[i].at.Before(s.agenda[first].at)) {
				first = i
			}
		}
		if wake := s.core.Wake(); !wake.IsZero() && !wake.After(end) && (first < 0 || wake.Before(s.agenda[first].at)) {
			s.now = wake
			s.step(Tick{})
			continue
		}
		if first < 0 {
			s.now = end
			return
		}
		j := s.agenda[first]
		s.agenda = append(s.agenda[:first], s.agenda[first+1:]...)
		s.now = j.at
		s.step(j.in)
	}
}

// TestSlotTimeIsShared: two tenants that could each use all slots get the same slot time, though
// the attempts of one of them take twenty times as long.
func TestSlotTimeIsShared(t *testing.T) {
	s := newShop(Options{Slots: 64, Bounds: Bounds{Window: 5000}, PerHost: 100})
	for i := range 3 {
		s.endpoint(fmt.Sprint("quick", i), "a", 10*time.Millisecond, 100)
		s.endpoint(fmt.Sprint("slow", i), "b", 200*time.Millisecond, 100)
	}
	for i := range 3 {
		s.arrive(fmt.Sprint("quick", i), 5000)
		s.arrive(fmt.Sprint("slow", i), 800)
	}
	s.run(4 * time.Second)
	quick := s.held["quick0"] + s.held["quick1"] + s.held["quick2"]
	slow := s.held["slow0"] + s.held["slow1"] + s.held["slow2"]
	if ratio := quick.Seconds() / slow.Seconds(); ratio < 0.8 || ratio > 1.25 {
		t.Errorf("tenant a held slots for %v, tenant b for %v", quick, slow)
	}
	for i := range 3 {
		if share := s.held[fmt.Sprint("slow", i)].Seconds() / slow.Seconds(); share < 0.25 || share > 0.42 {
			t.Errorf("endpoint %d of three got %.2f of its tenant's time", i, share)
		}
	}
}

// TestHangingEndpointKeepsToItsShare: however much it may have at once, it never takes the slots
// that others need.
func TestHangingEndpointKeepsToItsShare(t *testing.T) {
	s := newShop(Options{Slots: 16})
	s.endpoint("hang", "a", time.Hour, 1000)
	s.endpoint("quick", "a", time.Millisecond, 10)
	s.arrive("hang", 200)
	s.run(time.Second)
	if got := s.got["hang"]; got < 4 || got > 8 {
		t.Errorf("it has %d of 16 slots", got)
	}
	s.arrive("quick", 100)
	s.run(time.Second)
	if got := s.got["quick"]; got != 100 {
		t.Errorf("%d of 100 of the other endpoint were attempted", got)
	}
}

// TestMemoryFollowsTheWindow: a backlog costs nothing here beyond the window and the reserve.
func TestMemoryFollowsTheWindow(t *testing.T) {
	s := newShop(Options{Slots: 4, Bounds: Bounds{Window: 32, Reserve: 1000}})
	s.endpoint("ep", "a", time.Hour, 2)
	for range 100 {
		s.arrive("ep", 100)
	}
	if n := len(s.core.endpoints["ep"].window.heads); n > 32 {
		t.Errorf("%d heads in memory", n)
	}
	if n := len(s.core.endpoints["ep"].window.reserve.list); n != 1000 {
		t.Errorf("%d heads in the reserve", n)
	}
	if s.core.endpoints["ep"].window.cold.IsZero() {
		t.Error("it has forgotten that there is more")
	}
}

// BenchmarkStep measures the core's cost of a delivery: arrival, attempt, outcome, record.
func BenchmarkStep(b *testing.B) {
	c := New(Options{})
	p, _ := policy.Preset("standard")
	ep := &grapnel.Endpoint{ID: "ep", Tenant: "a", Policy: p, MaxConcurrency: 32, Status: grapnel.EndpointEnabled, Revision: 1}
	c.Step(start, Configured{Endpoint: ep})
	c.Step(start, Loaded{Endpoint: "ep", Limit: 256})
	b.ReportAllocs()
	for i := int64(1); b.Loop(); i++ {
		c.Step(start, Arrived{Heads: []store.Head{{Delivery: i, Event: i, Endpoint: "ep", Due: start, Anchor: start,
			Trigger: grapnel.TriggerSchedule}}})
		var change Change
		for _, e := range c.Step(start, &Finished{Endpoint: "ep", Delivery: i, Outcome: policy.Outcome{Status: 200, Class: policy.ClassNone}}) {
			change = *e.(Record).Change
		}
		c.Step(start, Recorded{Changes: []Change{change}, Results: []store.Changed{{Applied: true, Status: grapnel.Delivered}}})
	}
}

// TestUrgentHeadThatIsNotDueHoldsNobodyUp: an urgent head goes first, but only when it is due.
func TestUrgentHeadThatIsNotDueHoldsNobodyUp(t *testing.T) {
	s := newShop(Options{})
	s.endpoint("ep", "a", time.Millisecond, 1)
	s.arrive("ep", 3)
	later := store.Head{Delivery: 100, Event: 100, Endpoint: "ep", Due: start.Add(10 * time.Second), Anchor: start, CreatedAt: start,
		Trigger: grapnel.TriggerManual}
	s.step(Arrived{Heads: []store.Head{later}})
	s.run(time.Second)
	if got := s.got["ep"]; got != 3 {
		t.Errorf("%d of 3 were attempted", got)
	}
	s.run(10 * time.Second)
	if got := s.got["ep"]; got != 4 {
		t.Errorf("%d of 4 were attempted once the urgent one was due", got)
	}
}

// TestRateLimit: after a start the bucket has one token; a pause fills it up to the burst; the
// long-term rate is exact.
func TestRateLimit(t *testing.T) {
	s := newShop(Options{})
	s.endpoint("ep", "a", time.Millisecond, 100)
	limited := *s.core.endpoints["ep"].config
	limited.RateLimit, limited.Revision = &grapnel.RateLimit{PerSecond: 10, Burst: 5}, 2
	s.step(Configured{Endpoint: &limited})
	s.arrive("ep", 200)
	for _, step := range []struct {
		wait time.Duration
		want int
	}{{50 * time.Millisecond, 1}, {time.Second, 11}, {10 * time.Second, 111}} {
		s.run(step.wait)
		if got := s.got["ep"]; got != step.want {
			t.Fatalf("after %v more: %d attempts, want %d", step.wait, got, step.want)
		}
	}
	s.run(time.Minute) // all are delivered, and the bucket is full
	s.arrive("ep", 50)
	s.run(time.Millisecond)
	if got := s.got["ep"]; got != 205 {
		t.Errorf("a burst of %d, want 5", got-200)
	}
	s.now = s.now.Add(-time.Hour) // the clock is set back: tokens used before must not hold up new deliveries
	s.arrive("ep", 50)
	s.run(2 * time.Second)
	if got := s.got["ep"]; got < 215 {
		t.Errorf("after the clock was set back only %d attempts", got-205)
	}
}

// TestTinyRateLimit: the interval of a rate too small for a duration is long, and not negative,
// which would be no limit.
func TestTinyRateLimit(t *testing.T) {
	for _, limit := range []grapnel.RateLimit{{PerSecond: 1e-12}, {PerSecond: 1e-300, Burst: 100_000},
		{PerSecond: grapnel.MinPerSecond, Burst: 1}} {
		s := newShop(Options{})
		s.endpoint("ep", "a", time.Millisecond, 100)
		limited := *s.core.endpoints["ep"].config
		limited.RateLimit, limited.Revision = &limit, 2
		s.step(Configured{Endpoint: &limited})
		s.arrive("ep", 20)
		s.run(time.Minute)
		if got := s.got["ep"]; got != 1 {
			t.Errorf("%+v: %d attempts in a minute, want 1", limit, got)
		}
	}
}

// TestPageThatWasOvertaken: a page is read; then the endpoint is closed, its pending deliveries are
// ended, and it is opened again. The page arrives last and shows finished deliveries.
func TestPageThatWasOvertaken(t *testing.T) {
	c := New(Options{})
	p, _ := policy.Preset("standard")
	ep := grapnel.Endpoint{ID: "ep", Tenant: "a", Policy: p, MaxConcurrency: 32, Status: grapnel.EndpointEnabled, Revision: 1}
	load := c.Step(start, Configured{Endpoint: &ep})[0].(Load)
	closed, opened := ep, ep
	closed.Status, closed.Revision, opened.Revision = grapnel.EndpointDisabled, 2, 3
	c.Step(start, Configured{Endpoint: &closed})
	c.Step(start, Configured{Endpoint: &opened, Newest: 1})
	old := store.Head{Delivery: 1, Event: 1, Endpoint: "ep", Due: start, Anchor: start, Trigger: grapnel.TriggerSchedule}
	for _, e := range c.Step(start, Loaded{Endpoint: "ep", Heads: []store.Head{old}, Limit: load.Limit}) {
		if _, again := e.(Load); !again {
			t.Errorf("it led to %T", e)
		}
	}
}

// TestOpenedWhileEnding: an endpoint is enabled again while its pending deliveries are being
// dropped. Until that is done nothing starts, and deliveries accepted since then are not dropped.
func TestOpenedWhileEnding(t *testing.T) {
	c := New(Options{})
	p, _ := policy.Preset("paylera")
	ep := grapnel.Endpoint{ID: "ep", Tenant: "a", Policy: p, MaxConcurrency: 32, Status: grapnel.EndpointEnabled, Revision: 1}
	c.Step(start, Configured{Endpoint: &ep})
	c.Step(start, Loaded{Endpoint: "ep", Limit: 256})
	closed, opened := ep, ep
	closed.Status, closed.Revision, opened.Revision = grapnel.EndpointDisabled, 2, 3
	end, ok := c.Step(start, Configured{Endpoint: &closed, Newest: 7})[0].(End)
	if !ok || end.Ending.UpTo != 7 {
		t.Fatalf("it does not end what waits: %+v", end)
	}
	c.Step(start, Configured{Endpoint: &opened, Newest: 8})
	head := func(n int64) store.Head {
		return store.Head{Delivery: n, Event: n, Endpoint: "ep", Due: start, Anchor: start, Trigger: grapnel.TriggerSchedule}
	}
	if out := c.Step(start, Arrived{Heads: []store.Head{head(7), head(9)}}); len(out) != 0 {
		t.Fatalf("it starts while the ending is under way: %+v", out)
	}
	load := c.Step(start, Ended{Endpoint: "ep", Count: 3})[0].(Load)
	out := c.Step(start, Loaded{Endpoint: "ep", Limit: load.Limit, Heads: []store.Head{head(9)}})
	if len(out) != 1 || out[0].(Attempt).Head.Delivery != 9 {
		t.Errorf("what came later is not attempted: %+v", out)
	}
}
