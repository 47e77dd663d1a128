package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// usual has the defaults of the bounds.
var usual = bounds.Fill(AdmissionBounds{})

// TestWhatCanWaitIsRefusedFirst: under any strain that refuses single events, batches are refused
// too, and under any that refuses batches, replays. Each is refused for something, and nothing is
// refused without strain.
func TestWhatCanWaitIsRefusedFirst(t *testing.T) {
	const gib = 1 << 30
	seen := map[string]int{}
	for commit := time.Duration(0); commit <= 2*usual.LongCommit; commit += usual.LongCommit / 8 {
		for publishing := 0; publishing <= 120; publishing += 10 {
			for free := uint64(0); free <= 8*gib; free += gib / 2 {
				s := strain{commit: commit, long: usual.LongCommit, publishing: publishing, most: 100, room: DiskSpace{Free: free, Total: 1000 * gib}}
				verdicts := ""
				for _, w := range []work{replay, batch, single} {
					if s.refuses(w) == admitted {
						verdicts += "+"
					} else {
						verdicts += "-"
					}
				}
				seen[verdicts]++
			}
		}
	}
	if fmt.Sprint(len(seen)) != "4" || seen["+++"] == 0 || seen["-++"] == 0 || seen["--+"] == 0 || seen["---"] == 0 {
		t.Errorf("replay, batch, single: %v", seen)
	}
	if s := (strain{long: usual.LongCommit, most: 1}); s.refuses(replay) != admitted {
		t.Errorf("replays are refused for %q though nothing is going on", s.refuses(replay))
	}
}

func TestRefusals(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for name, c := range map[string]struct {
		s    strain
		want cause
	}{
		"nothing known":                     {strain{long: usual.LongCommit, most: 10}, admitted},
		"commits as long as allowed":        {strain{long: usual.LongCommit, most: 10, commit: usual.LongCommit}, admitted},
		"commits longer than allowed":       {strain{long: usual.LongCommit, most: 10, commit: usual.LongCommit + 1}, slowCommits},
		"the last place":                    {strain{long: usual.LongCommit, most: 10, publishing: 9}, admitted},
		"no place":                          {strain{long: usual.LongCommit, most: 10, publishing: 10}, crowded},
		"4 % of a terabyte":                 {strain{long: usual.LongCommit, most: 10, room: DiskSpace{40 * gib, 1000 * gib}}, admitted},
		"little of a terabyte":              {strain{long: usual.LongCommit, most: 10, room: DiskSpace{2*gib - 1, 1000 * gib}}, scarceRoom},
		"a new small disk":                  {strain{long: usual.LongCommit, most: 10, room: DiskSpace{900 * mib, 1000 * mib}}, admitted},
		"a small disk with little left":     {strain{long: usual.LongCommit, most: 10, room: DiskSpace{49 * mib, 1000 * mib}}, scarceRoom},
		"a full disk":                       {strain{long: usual.LongCommit, most: 10, room: DiskSpace{0, 1000 * mib}}, scarceRoom},
		"a full disk that is also too slow": {strain{long: usual.LongCommit, most: 10, commit: time.Hour, room: DiskSpace{0, 1000 * mib}}, scarceRoom},
	} {
		if got := c.s.refuses(single); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

func TestPace(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	// commits makes so many commits, one after the other with a pause.
	commits := func(p *pace, now *time.Time, n int, took, pause time.Duration) {
		for range n {
			began := *now
			p.begin(began)
			*now = now.Add(took)
			p.end(*now, began, true)
			*now = now.Add(pause)
		}
	}
	for name, c := range map[string]struct {
		do         func(p *pace, now *time.Time)
		least, top time.Duration
	}{
		"nothing happened": {func(*pace, *time.Time) {}, 0, 0},
		"steady": {func(p *pace, now *time.Time) { commits(p, now, 10_000, 4*time.Millisecond, 0) },
			3 * time.Millisecond, 4 * time.Millisecond},
		"one stall of a second among quick ones": {func(p *pace, now *time.Time) {
			commits(p, now, 1000, 4*time.Millisecond, 0)
			commits(p, now, 1, time.Second, 0)
		}, 150 * time.Millisecond, 250 * time.Millisecond},
		"the same, two seconds later": {func(p *pace, now *time.Time) {
			commits(p, now, 1, time.Second, 0)
			commits(p, now, 500, 4*time.Millisecond, 0)
		}, 50 * time.Millisecond, 150 * time.Millisecond},
		"slow for long": {func(p *pace, now *time.Time) { commits(p, now, 60, 600*time.Millisecond, 0) },
			590 * time.Millisecond, 600 * time.Millisecond},
		"slow, but seldom": {func(p *pace, now *time.Time) { commits(p, now, 60, 600*time.Millisecond, 20*time.Second) },
			0, 2 * time.Millisecond},
		"hangs": {func(p *pace, now *time.Time) {
			commits(p, now, 100, 4*time.Millisecond, 0)
			p.begin(*now)
			*now = now.Add(4 * time.Second)
		}, usual.LongCommit, time.Minute},
		"hangs, and whoever waited goes away": {func(p *pace, now *time.Time) {
			began := *now
			p.begin(began)
			*now = now.Add(4 * time.Second)
			p.end(*now, began, false)
		}, usual.LongCommit, time.Minute},
		"was slow, is idle": {func(p *pace, now *time.Time) {
			commits(p, now, 60, 600*time.Millisecond, 0)
			*now = now.Add(30 * time.Second)
		}, 0, 2 * time.Millisecond},
		"many wait for the same commit": {func(p *pace, now *time.Time) {
			began := *now
			for range 1000 {
				p.begin(began)
			}
			*now = now.Add(time.Second)
			for range 1000 {
				p.end(*now, began, true)
			}
		}, 150 * time.Millisecond, 250 * time.Millisecond},
		"the clock is set back": {func(p *pace, now *time.Time) {
			commits(p, now, 10, 4*time.Millisecond, 0)
			p.begin(*now)
			*now = now.Add(-time.Hour)
		}, 0, 4 * time.Millisecond},
	} {
		now := start
		var p pace
		c.do(&p, &now)
		if got := p.current(now); got < c.least || got > c.top {
			t.Errorf("%s: %v, which is not from %v to %v", name, got, c.least, c.top)
		}
	}
}

// sluggish is a store whose commits take as long as it is told.
type sluggish struct {
	memory.Faulty
	mu    sync.Mutex
	takes time.Duration
	until chan struct{} // not nil: commits hang until it is closed
}

func newSluggish() *sluggish {
	s := &sluggish{}
	s.Store = memory.New()
	s.Injure = func(method string) memory.Fault {
		if method == "Append" || method == "Record" {
			s.mu.Lock()
			takes, until := s.takes, s.until
			s.mu.Unlock()
			time.Sleep(takes)
			if until != nil {
				<-until
			}
		}
		return memory.Fault{}
	}
	return s
}

func (s *sluggish) set(takes time.Duration, until chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.until = takes, until
}

func sluggishBubble(t *testing.T, tune func(*Options), test func(t *testing.T, b *bench, s *sluggish)) {
	synctest.Test(t, func(t *testing.T) {
		s := newSluggish()
		b := newTunedBench(t, s, tune)
		defer b.close()
		test(t, b, s)
	})
}

// try publishes so many events in one call.
func (b *bench) try(n int) error {
	events := make([]store.Incoming, n)
	for i := range events {
		b.count++
		events[i].Event = &grapnel.Event{ID: fmt.Sprintf("evt_%d", b.count), Tenant: "default", Type: "test.event", Data: []byte("1"),
			ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}
	}
	_, err := b.engine.Publish(context.Background(), events, nil)
	return err
}

// refused checks a refusal's shape.
func (b *bench) refused(err error, code grapnel.Code, what string) {
	b.t.Helper()
	var e *grapnel.Error
	if !errors.As(err, &e) || e.Code != code || e.RetryAfter < time.Second || e.RetryAfter > 5*time.Second || e.Detail == "" {
		b.t.Errorf("%s: %#v", what, err)
	}
}

// able checks what the engine says of its readiness; no code: it can take events.
func (b *bench) able(code grapnel.Code, when string) {
	b.t.Helper()
	if err := b.engine.Unable(); grapnel.CodeOf(err) != code || (err == nil) != (code == "") {
		b.t.Errorf("%s: Unable says %v, not code %q", when, err, code)
	}
}

// shed reads the counter of refusals.
func (b *bench) shed() map[string]int { return read(b.t, b.engine, "grapnel_shed_total") }

// read reads a metric: its labels' values, joined, and its numbers.
func read(t *testing.T, e *Engine, name string) map[string]int {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(e.Metrics().Collectors()...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += " " + l.GetValue()
			}
			values[labels] = int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
		}
	}
	return values
}

// TestSlowCommitsShedInOrder: the slower commits become, the more is refused: first replays, then
// batches, then everything. Accepted events arrive, and when commits are quick again everything
// is accepted.
func TestSlowCommitsShedInOrder(t *testing.T) {
	sluggishBubble(t, func(o *Options) { o.Random = func() float64 { return 0.5 } }, func(t *testing.T, b *bench, s *sluggish) {
		r := &receiver{}
		b.endpoint("ep", r, nil)
		taken := 0
		take := func(n int) error {
			err := b.try(n)
			if err == nil {
				taken += n
			}
			return err
		}
		if err := take(1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		first := b.deliveries("ep")[0].Seq
		again := func() error {
			_, err := b.engine.Retry(context.Background(), store.Everyone(), first, grapnel.By{}, nil)
			if err == nil {
				taken++
			}
			return err
		}
		for _, c := range []struct {
			takes                 time.Duration
			replay, batch, single bool
		}{
			{100 * time.Millisecond, true, true, true},
			{300 * time.Millisecond, false, true, true},
			{450 * time.Millisecond, false, false, true},
		} {
			s.set(c.takes, nil)
			for range 100 { // at one after the other, until the average is there
				if err := take(1); err != nil {
					t.Fatalf("commits take %v: %v", c.takes, err)
				}
			}
			for what, is := range map[string]struct {
				err  error
				want bool
			}{"replay": {again(), c.replay}, "batch": {take(2), c.batch}, "single": {take(1), c.single}} {
				if is.want && is.err != nil {
					t.Errorf("commits take %v: %s is refused: %v", c.takes, what, is.err)
				} else if !is.want {
					b.refused(is.err, grapnel.CodeOverloaded, what)
				}
			}
		}
		s.set(2*time.Second, nil)
		refusals := 0
		for range 10 {
			if err := take(1); err != nil {
				b.refused(err, grapnel.CodeOverloaded, "single")
				if e := new(grapnel.Error); errors.As(err, &e) && e.RetryAfter != 3*time.Second {
					t.Errorf("come again after %v", e.RetryAfter)
				}
				refusals++
			}
		}
		if refusals == 0 {
			t.Error("single events are taken though every commit takes two seconds")
		}
		if got := b.shed(); got[" single commit"] != refusals || got[" batch commit"] != 1 || got[" replay commit"] != 2 || len(got) != 3 {
			t.Errorf("counted: %v, single refusals %d", got, refusals)
		}
		// A person who looks whether an endpoint works is not refused.
		ev := &grapnel.Event{
			ID:          "evt_test",
			Type:        "a",
			Data:        []byte("1"),
			ContentType: grapnel.JSONType,
			AcceptedAt:  time.Now(),
			OccurredAt:  time.Now(),
		}
		if _, err := b.engine.Test(context.Background(), store.Everyone(), "ep", ev, 0, nil); err != nil {
			t.Errorf("a test is refused: %v", err)
		}
		s.set(0, nil)
		time.Sleep(time.Minute)
		if err := errors.Join(again(), take(2), take(1)); err != nil {
			t.Errorf("commits are quick again: %v", err)
		}
		time.Sleep(time.Minute)
		if got := len(r.log()); got != taken+1 {
			t.Errorf("%d were accepted and %d arrived", taken+1, got)
		}
	})
}

// TestAStoreThatHangsIsNotWaitedFor: after a few seconds those who come are refused at once,
// however few there are; before that as many wait as may, and not one more.
func TestAStoreThatHangsIsNotWaitedFor(t *testing.T) {
	sluggishBubble(t, func(o *Options) { o.Bounds.Recorder.Publish = 4 }, func(t *testing.T, b *bench, s *sluggish) {
		r := &receiver{}
		b.endpoint("ep", r, nil)
		free := make(chan struct{})
		s.set(0, free)
		results := make(chan error, 10)
		for range 10 {
			b.count++
			ev := &grapnel.Event{
				ID:          fmt.Sprintf("evt_%d", b.count),
				Tenant:      "default",
				Type:        "test.event",
				Data:        []byte("1"),
				ContentType: grapnel.JSONType,
				OccurredAt:  time.Now(),
				AcceptedAt:  time.Now(),
			}
			go func() {
				_, err := b.engine.Publish(context.Background(), []store.Incoming{{Event: ev}}, nil)
				results <- err
			}()
		}
		synctest.Wait()
		if len(results) != 6 {
			t.Fatalf("%d of 10 are answered; 4 may wait", len(results))
		}
		for range 6 {
			b.refused(<-results, grapnel.CodeOverloaded, "the fifth and later")
		}
		if got := b.shed(); got[" single in_flight"] != 6 {
			t.Errorf("counted: %v", got)
		}
		b.able("", "commits have just begun")
		time.Sleep(5 * time.Second)
		b.refused(b.try(1), grapnel.CodeOverloaded, "after five seconds")
		b.able(grapnel.CodeUnavailable, "nothing came back for five seconds")
		if got := b.shed(); got[" single commit"] != 1 || got[" single in_flight"] != 6 {
			t.Errorf("counted: %v", got)
		}
		s.set(0, nil)
		close(free)
		for range 4 {
			if err := <-results; err != nil {
				t.Errorf("one that was let in: %v", err)
			}
		}
		b.able("", "everything came back")
		time.Sleep(time.Minute)
		if err := b.try(1); err != nil {
			t.Errorf("a minute after: %v", err)
		}
		time.Sleep(time.Second)
		if n := len(r.log()); n != 5 {
			t.Errorf("%d arrived", n)
		}
	})
}

// TestANearlyFullDiskRefusesWhatIsNew, says so as a full one does, and outcomes go on.
func TestANearlyFullDiskRefusesWhatIsNew(t *testing.T) {
	var mu sync.Mutex
	room, looks, broken := DiskSpace{Free: 50 << 30, Total: 100 << 30}, 0, error(nil)
	tune := func(o *Options) {
		o.Disk = func() (DiskSpace, error) {
			mu.Lock()
			defer mu.Unlock()
			looks++
			return room, broken
		}
	}
	sluggishBubble(t, tune, func(t *testing.T, b *bench, _ *sluggish) {
		set := func(r DiskSpace, err error) {
			mu.Lock()
			room, broken = r, err
			mu.Unlock()
			time.Sleep(usual.Look)
		}
		r := &receiver{then: status(500)}
		b.endpoint("ep", r, nil)
		for range 100 {
			if err := b.try(1); err != nil {
				t.Fatal(err)
			}
		}
		if looks != 1 {
			t.Errorf("the disk was looked at %d times in one instant", looks)
		}
		set(DiskSpace{Free: 1 << 30, Total: 100 << 30}, nil)
		b.able(grapnel.CodeStorageFull, "1 GiB is left, and no event came since")
		b.refused(b.try(1), grapnel.CodeStorageFull, "1 GiB is left")
		if got := b.shed(); got[" single disk"] != 1 {
			t.Errorf("counted: %v", got)
		}
		r.answer(nil)
		time.Sleep(time.Hour)
		for _, d := range b.deliveries("ep") {
			if d.Status != grapnel.Delivered {
				t.Fatalf("one that was accepted is %s", d.Status)
			}
		}
		set(DiskSpace{Free: 3 << 30, Total: 100 << 30}, nil)
		b.able("", "there is room again, and no event came since")
		if err := b.try(1); err != nil {
			t.Errorf("there is room again: %v", err)
		}
		set(DiskSpace{}, errors.New("no such file system"))
		if err := b.try(1); err != nil {
			t.Errorf("nobody knows how much room there is: %v", err)
		}
	})
}

// TestLimitsPageHasTheLimitsOfAdmission: docs/limits.md says those that have no name outside.
func TestLimitsPageHasTheLimitsOfAdmission(t *testing.T) {
	page, err := os.ReadFile("../../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		fmt.Sprintf("| duration of commits | %v s, ", usual.LongCommit.Seconds()),
		fmt.Sprintf("| free disk space | 1/%d, or %d GiB if that is less |", leastShare, leastBytes>>30),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("no row begins with %q", row)
		}
	}
}
