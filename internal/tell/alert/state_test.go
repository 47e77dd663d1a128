package alert

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

var begin = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// shelf stores alerts as documents would be.
type shelf struct {
	open, resolved map[string][]byte // encoded, by id
}

func newShelf() *shelf { return &shelf{map[string][]byte{}, map[string][]byte{}} }

func (s *shelf) alerts(t *testing.T) (all []*Alert) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(s.open)) {
		a, err := Decode(s.open[id])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

func (s *shelf) put(c *Change) {
	s.open[c.Alert.ID] = c.Alert.Encode()
	if c.Transition == Resolve {
		delete(s.open, c.Alert.ID)
		s.resolved[c.Alert.ID] = c.Alert.Encode()
	}
}

// restarted is a memory after a restart.
func (s *shelf) restarted(t *testing.T, b Bounds) *Memory {
	t.Helper()
	m := NewMemory(b)
	for _, body := range s.resolved {
		a, err := Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		m.Remember(a)
	}
	return m
}

// TestRandomHistories lets random values come and go, with restarts, commits that fail, and people
// who acknowledge. Between two firings of an alert there is always its resolution and the pause,
// and a transition that was not stored comes again.
func TestRandomHistories(t *testing.T) {
	b := bounds.Fill(Bounds{})
	b.Repeat = 20 * time.Minute
	fires, repeats := 0, 0
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 1))
		stored, m := newShelf(), NewMemory(b)
		last := map[Key]*Change{}
		acknowledged := map[string]bool{}
		values := map[Key]float64{}
		now := begin
		for range 400 {
			now = now.Add(time.Duration(1+r.IntN(40)) * time.Second)
			if r.IntN(40) == 0 {
				m = stored.restarted(t, b)
			}
			var samples []Sample
			for _, rule := range []string{CircuitOpen, DeadLetters, BacklogAge, DiskFull} {
				for i := range 3 {
					s := Sample{Rule: rule, Tenant: "t", Subject: Subject{Kind: "endpoint", ID: fmt.Sprint(i)}}
					is, _ := RuleOf(rule)
					if r.IntN(12) == 0 {
						values[s.Key()] = is.Threshold * (0.7 + 0.6*r.Float64())
					}
					if s.Value = values[s.Key()]; s.Value > 0 {
						samples = append(samples, s)
					}
				}
			}
			open := stored.alerts(t)
			if len(open) > 0 && r.IntN(30) == 0 {
				a := open[r.IntN(len(open))]
				a.State = Acknowledged
				acknowledged[a.ID] = true
				stored.open[a.ID] = a.Encode()
			}
			changes := m.Step(Round{Now: now, Samples: samples, Open: open})
			if r.IntN(5) == 0 {
				continue // the commit failed
			}
			for i := range changes {
				c := &changes[i]
				before := last[c.Alert.Key()]
				switch c.Transition {
				case Fire:
					if before != nil && before.Transition != Resolve {
						t.Fatalf("seed %d: %s fired after it was %s", seed, c.Alert.Title, before.Transition)
					}
					if before != nil && c.Alert.Since.Sub(before.Alert.Since) < b.Again {
						t.Fatalf("seed %d: it fired again after %s", seed, c.Alert.Since.Sub(before.Alert.Since))
					}
					fires++
				case Resolve, Repeat:
					if before == nil || before.Transition == Resolve || before.Alert.ID != c.Alert.ID {
						t.Fatalf("seed %d: it was %s and did not fire", seed, c.Transition)
					}
					if c.Transition == Repeat {
						repeats++
						if acknowledged[c.Alert.ID] || c.Alert.Severity != grapnel.SeverityPage ||
							now.Sub(before.Alert.RepeatedAt) < b.Repeat {
							t.Fatalf("seed %d: %+v was repeated", seed, c.Alert)
						}
					}
				}
				last[c.Alert.Key()] = c
				stored.put(c)
			}
			for _, s := range samples {
				rule, _ := RuleOf(s.Rule)
				if a := last[s.Key()]; a != nil && a.Transition != Resolve && !rule.good(s.Value, rule.Threshold) &&
					stored.open[a.Alert.ID] == nil {
					t.Fatalf("seed %d: an alert was lost", seed)
				}
			}
		}
	}
	if fires < 50 || repeats < 5 {
		t.Errorf("the histories had only %d firings and %d repetitions", fires, repeats)
	}
}

// step gives a memory one sample.
func step(m *Memory, at time.Time, open []*Alert, samples ...Sample) []Change {
	return m.Step(Round{Now: at, Samples: samples, Open: open})
}

// TestNoFlapping: a value that swings around the threshold fires once and stays.
func TestNoFlapping(t *testing.T) {
	b := bounds.Fill(Bounds{})
	stored, m := newShelf(), NewMemory(b)
	subject := Subject{Kind: "server"}
	n := 0
	for i := range 600 {
		value := 14.9
		if i%2 == 1 {
			value = 15.9 // above the threshold of 15, but not clearly
		}
		for _, c := range step(m, begin.Add(time.Duration(i)*10*time.Second), stored.alerts(t), Sample{Rule: DiskFull, Subject: subject,
			Value: value}) {
			if c.Transition != Repeat {
				n++
			}
			stored.put(&c)
		}
	}
	if n != 1 {
		t.Errorf("%d transitions", n)
	}
}

// TestHoldAndMissingFacts: a condition has to hold, and facts that could not be read end nothing.
func TestHoldAndMissingFacts(t *testing.T) {
	stored, m := newShelf(), NewMemory(bounds.Fill(Bounds{}))
	late := Sample{Rule: BacklogAge, Tenant: "t", Subject: about("t"), Value: 90}
	if c := step(m, begin, nil, late); len(c) != 0 {
		t.Fatal("it fired at once")
	}
	if c := step(m, begin.Add(10*time.Second), nil); len(c) != 0 {
		t.Fatal(c)
	}
	step(m, begin.Add(20*time.Second), nil, late) // it begins again
	if c := step(m, begin.Add(40*time.Second), nil, late); len(c) != 0 {
		t.Fatal("it fired although the condition was interrupted")
	}
	fired := step(m, begin.Add(50*time.Second), nil, late)
	if len(fired) != 1 || fired[0].Transition != Fire || fired[0].Alert.Title != "t: due deliveries wait" {
		t.Fatalf("%+v", fired)
	}
	stored.put(&fired[0])
	for i := range 20 {
		at := begin.Add(time.Minute + time.Duration(i)*time.Minute)
		if c := m.Step(Round{Now: at, Open: stored.alerts(t), Unread: map[string]bool{BacklogAge: true}}); len(c) != 0 {
			t.Fatalf("without facts: %+v", c[0])
		}
	}
	after := begin.Add(time.Hour)
	step(m, after, stored.alerts(t))
	if c := step(m, after.Add(time.Minute), stored.alerts(t)); len(c) != 1 || c[0].Transition != Resolve {
		t.Fatalf("%+v", c)
	}
}

// TestSettings: the operator's change holds for all, the tenant's for the tenant.
func TestSettings(t *testing.T) {
	on, off, high, page := true, false, 1000.0, grapnel.SeverityPage
	s := Settings{"": {BacklogAge: {Enabled: &off, Threshold: &high}}, "t": {BacklogAge: {Enabled: &on, Severity: &page}}}
	rule, _ := RuleOf(BacklogAge)
	if is := s.Of(rule, "u"); is != (InForce{false, 1000, grapnel.SeverityWarning}) {
		t.Error(is)
	}
	if is := s.Of(rule, "t"); is != (InForce{true, 1000, page}) {
		t.Error(is)
	}
	m := NewMemory(bounds.Fill(Bounds{}))
	samples := []Sample{{Rule: BacklogAge, Tenant: "t", Value: 999}, {Rule: BacklogAge, Tenant: "u", Value: 1001}, {Rule: "no_rule",
		Tenant: "t", Value: 1}}
	for i := range 5 {
		if c := m.Step(Round{Now: begin.Add(time.Duration(i) * time.Minute), Samples: samples, Settings: s}); len(c) != 0 {
			t.Fatalf("%+v", c[0].Alert)
		}
	}
}

// TestTheClockWasSetBack: an alert that fired while the clock was ahead fires again once the clock
// is right, and is repeated.
func TestTheClockWasSetBack(t *testing.T) {
	stored, m := newShelf(), NewMemory(bounds.Fill(Bounds{}))
	bad := Sample{Rule: CircuitOpen, Tenant: "t", Subject: Subject{Kind: "endpoint", ID: "ep_1"}, Value: 1000}
	after := func(ahead time.Duration, samples ...Sample) (transitions []Transition) {
		for _, c := range step(m, begin.Add(ahead), stored.alerts(t), samples...) {
			transitions = append(transitions, c.Transition)
			stored.put(&c)
		}
		return transitions
	}
	const day = 24 * time.Hour
	after(day, bad)
	after(day + time.Minute)
	after(day + 3*time.Minute)
	if len(stored.resolved) != 1 {
		t.Fatalf("%d alerts are resolved", len(stored.resolved))
	}
	if got := after(time.Hour, bad); !slices.Equal(got, []Transition{Fire}) {
		t.Errorf("after the clock was set back: %v", got)
	}
	after(time.Hour + time.Minute)
	after(time.Hour + 3*time.Minute)
	if got := after(time.Hour+4*time.Minute, bad); len(got) != 0 {
		t.Errorf("before the pause has ended: %v", got)
	}
	if got := after(time.Hour+10*time.Minute, bad); !slices.Equal(got, []Transition{Fire}) {
		t.Errorf("after the pause: %v", got)
	}
	if got := after(6*time.Hour, bad); !slices.Equal(got, []Transition{Repeat}) {
		t.Errorf("hours later: %v", got)
	}
	after(day, bad)
	if got := after(day-12*time.Hour, bad); !slices.Equal(got, []Transition{Repeat}) {
		t.Errorf("an open alert after the clock was set back: %v", got)
	}
}

// TestTheSeverityOfASample: it stands for the rule's own severity, and not for one that was set.
func TestTheSeverityOfASample(t *testing.T) {
	info := grapnel.SeverityInfo
	for want, set := range map[string]Settings{grapnel.SeverityWarning: nil, info: {"": {BurnRate: {Severity: &info}}}} {
		m := NewMemory(bounds.Fill(Bounds{}))
		warning := Also{Severity: grapnel.SeverityWarning}
		c := m.Step(Round{Now: begin, Settings: set, Samples: []Sample{{Rule: BurnRate, Value: 2, Also: warning}}})
		if len(c) != 1 || c[0].Alert.Severity != want {
			t.Errorf("%+v, want %s", c, want)
		}
	}
}

// TestTooManyAlerts: beyond the limit of a tenant no alert fires, and other tenants' still do.
func TestTooManyAlerts(t *testing.T) {
	b := bounds.Fill(Bounds{Open: 3})
	var samples []Sample
	for i := range 10 {
		samples = append(samples, Sample{Rule: EndpointDisabled, Tenant: "t", Subject: Subject{Kind: "endpoint", ID: fmt.Sprint(i)},
			Value: 1})
	}
	samples = append(samples, Sample{Rule: EndpointDisabled, Tenant: "u", Subject: Subject{Kind: "endpoint", ID: "1"}, Value: 1})
	if c := step(NewMemory(b), begin, nil, samples...); len(c) != 4 || c[3].Alert.Tenant != "u" {
		t.Errorf("%d fired", len(c))
	}
}
