package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

// slate is an endpoint with a count towards disabling.
type slate struct {
	st     Standing
	policy Policy
	rules  Disable
	now    time.Time
}

// newSlate has the rules of a preset.
func newSlate(preset string) *slate {
	p, _ := Preset(preset)
	return &slate{policy: p, rules: p.Disable, now: dawn}
}

// see advances the clock and ends the first attempt of a delivery.
func (s *slate) see(after time.Duration, o Outcome, change ...func(*Sighting)) Verdict {
	s.now = s.now.Add(after)
	seen := Sighting{Outcome: o, Decision: s.policy.Decide(o), Cause: "it said no", Started: s.now, Ended: s.now, First: true, Counts: true}
	for _, f := range change {
		f(&seen)
	}
	return s.st.Strike(s.rules, seen)
}

func again(s *Sighting)     { s.First = false }
func uncounted(s *Sighting) { s.Counts = false }

var (
	invalid = Outcome{Status: 422, Class: ClassStatus4xx}
	gone    = Outcome{Status: 410, Class: ClassStatus4xx}
)

func TestAHundredDeliveriesInARow(t *testing.T) {
	s := newSlate("paylera")
	var warnings []int
	for n := 1; n <= 100; n++ {
		v := s.see(time.Minute, invalid)
		if !v.Changed || v.Recovered || (v.Disable != "") != (n == 100) {
			t.Fatalf("delivery %d: %+v", n, v)
		}
		if v.Warning > 0 {
			warnings = append(warnings, n, v.Warning)
		}
		if n == 100 && (!strings.Contains(v.Disable, "100 deliveries in a row") || !strings.Contains(v.Disable, "it said no")) {
			t.Errorf("the reason is %q", v.Disable)
		}
		if s.st.SentencedByAnswer {
			t.Errorf("delivery %d: its answer alone has sentenced the endpoint", n)
		}
		if n < 100 && s.st.Strikes != n {
			t.Fatalf("delivery %d is counted as %d", n, s.st.Strikes)
		}
		// Further attempts of one delivery count once.
		for range 3 {
			if v := s.see(time.Second, invalid, again); n < 100 && (v.Changed || v.Warning > 0 || v.Disable != "") {
				t.Fatalf("a further attempt of delivery %d: %+v", n, v)
			}
		}
	}
	if len(warnings) != 4 || warnings[0] != 50 || warnings[1] != 50 || warnings[2] != 90 || warnings[3] != 90 {
		t.Errorf("warned at deliveries and percents %v", warnings)
	}
}

// TestWhatCountsTowardsTheHundred has 99 counted deliveries, then an outcome, then one more counted
// delivery.
func TestWhatCountsTowardsTheHundred(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       Outcome
		change  func(*Sighting)
		resets  bool
		counts  bool
		ignored bool // and the outcome does not start the clock either
	}{
		{name: "200", o: fine, resets: true},
		{name: "204", o: Outcome{Status: 204, Class: ClassNone}, resets: true},
		{name: "200 to what a person asked for", o: fine, change: uncounted, resets: true},
		{name: "200 to a further attempt", o: fine, change: again, resets: true},
		{name: "500", o: Outcome{Status: 500, Class: ClassStatus5xx}},
		{name: "503", o: Outcome{Status: 503, Class: ClassStatus5xx}},
		{name: "timeout", o: Outcome{Class: ClassTimeout}},
		{name: "connect", o: refused},
		{name: "301", o: Outcome{Status: 301, Class: ClassRedirect}},
		{name: "408", o: Outcome{Status: 408, Class: ClassStatus4xx}},
		{name: "425", o: Outcome{Status: 425, Class: ClassStatus4xx}},
		{name: "429", o: Outcome{Status: 429, Class: ClassStatus429}},
		{name: "429 that came as one of the others", o: Outcome{Status: 429, Class: ClassStatus4xx}},
		{name: "blocked", o: Outcome{Class: ClassBlocked}, ignored: true},
		{name: "our own fault", o: Outcome{Class: ClassInternal}, ignored: true},
		{name: "the proxy's", o: Outcome{Class: ClassProxy}, ignored: true},
		{name: "a token that the endpoint refuses", o: Outcome{Status: 401, Class: ClassToken}, ignored: true},
		{name: "410 that is retried", o: gone, counts: true},
		{name: "400", o: Outcome{Status: 400, Class: ClassStatus4xx}, counts: true},
		{name: "404", o: Outcome{Status: 404, Class: ClassStatus4xx}, counts: true},
		{name: "422 to what a person asked for", o: invalid, change: uncounted, ignored: true},
		{name: "422 to a further attempt", o: invalid, change: again},
	} {
		// The second case shows whether the outcome alone starts the clock.
		for start, rest := range map[int]bool{99: false, 0: true} {
			s := newSlate("paylera")
			for range start {
				s.see(time.Minute, invalid)
			}
			change := c.change
			if change == nil {
				change = func(*Sighting) {}
			}
			v := s.see(time.Minute, c.o, change)
			switch {
			case rest:
				if started := !s.st.FailingSince.IsZero(); started == (c.resets || c.ignored) {
					t.Errorf("%s: started the clock: %v", c.name, started)
				}
			case (v.Disable != "") != c.counts:
				t.Errorf("%s as the 100th: %+v", c.name, v)
			case c.counts:
			case v.Recovered != c.resets || (s.st.Strikes == 0) != c.resets:
				t.Errorf("%s after 99: %+v, %+v", c.name, v, s.st)
			default:
				if v := s.see(time.Minute, invalid); (v.Disable == "") != c.resets {
					t.Errorf("%s between 99 and the last: %+v", c.name, v)
				}
			}
		}
	}
}

func TestGoneDisablesAtOnce(t *testing.T) {
	for _, p := range Presets() {
		s, preset := newSlate(p.Name), p.Name
		if slices.Contains([]string{"parseo", "paylera", "paylera-24h", "sent"}, preset) { // their documents retry it
			if v := s.see(0, gone); v.Disable != "" || s.st.SentencedByAnswer {
				t.Errorf("%s: %+v", preset, v)
			}
			continue
		}
		if v := s.see(0, gone); !v.Changed || !strings.Contains(v.Disable, "it said no") || v.Warning > 0 {
			t.Errorf("%s: %+v", preset, v)
		}
		if s.st.SentencedAt != s.now || s.st.Sentence == "" || !s.st.SentencedByAnswer {
			t.Errorf("%s: the sentence is not kept: %+v", preset, s.st)
		}
	}
}

func TestNoSuccessForAWhile(t *testing.T) {
	s := newSlate("standard") // 120 h
	for _, c := range []struct {
		after   time.Duration
		warning int
		disable bool
	}{
		{0, 0, false}, {59 * time.Hour, 0, false}, {time.Hour, 50, false}, {time.Hour, 0, false}, {46 * time.Hour, 0, false},
		{time.Hour, 90, false}, {time.Hour, 0, false}, {11*time.Hour - 1, 0, false}, {1, 0, true},
	} {
		v := s.see(c.after, refused, again)
		if v.Warning != c.warning || (v.Disable != "") != c.disable {
			t.Fatalf("after %v: %+v", s.now.Sub(dawn), v)
		}
		if c.disable && !strings.Contains(v.Disable, "for 120h") {
			t.Errorf("the reason is %q", v.Disable)
		}
	}
}

func TestALongRestIsNoWarningLater(t *testing.T) {
	s := newSlate("standard")
	s.see(0, refused)
	if v := s.see(110*time.Hour, refused); v.Warning != 90 {
		t.Errorf("at once at 91 %%: %+v", v)
	}
	if v := s.see(time.Hour, refused); v.Warning != 0 {
		t.Errorf("the warning that was jumped over comes later: %+v", v)
	}
	s = newSlate("standard")
	s.see(0, refused)
	if v := s.see(200*365*24*time.Hour, refused); v.Disable == "" {
		t.Errorf("after two hundred years: %+v", v)
	}
}

func TestRecoveredIsToldOnlyAfterAWarning(t *testing.T) {
	s := newSlate("paylera")
	for range 49 {
		s.see(time.Minute, invalid)
	}
	if v := s.see(time.Minute, fine); v.Recovered || !v.Changed {
		t.Errorf("before any warning: %+v", v)
	}
	for range 50 {
		s.see(time.Minute, invalid)
	}
	if v := s.see(time.Minute, fine); !v.Recovered || !v.Changed {
		t.Errorf("after a warning: %+v", v)
	}
	if v := s.see(time.Minute, fine); v.Recovered || v.Changed {
		t.Errorf("and once more: %+v", v)
	}
	warned := 0
	for range 99 {
		if s.see(time.Minute, invalid).Warning > 0 {
			warned++
		}
	}
	if warned != 2 {
		t.Errorf("the next time it was warned %d times", warned)
	}
}

// TestDisablingWipesTheSlate: after enabling the count starts at zero.
func TestDisablingWipesTheSlate(t *testing.T) {
	for name, last := range map[string]Outcome{"the hundredth": invalid, "gone": gone} {
		s := newSlate("paylera")
		for range 99 {
			s.see(time.Minute, invalid)
		}
		if v := s.see(0, last); v.Disable == "" {
			t.Fatalf("%s: %+v", name, v)
		}
		if s.st.Strikes != 0 || !s.st.FailingSince.IsZero() || s.st.Warned != 0 {
			t.Errorf("%s leaves %+v", name, s.st)
		}
		if !s.st.Pardon() || s.st != (Standing{}) || s.st.Pardon() {
			t.Errorf("%s: a pardon leaves %+v", name, s.st)
		}
		for n := 1; n < 100; n++ {
			if v := s.see(time.Minute, invalid); v.Disable != "" {
				t.Fatalf("%s: %d more disable it again", name, n)
			}
		}
	}
}

// TestAnyWayToBeingDisabled: warnings come in order and once, only counted outcomes change the
// count, and any success resets it.
func TestAnyWayToBeingDisabled(t *testing.T) {
	outcomes := append(append(wide(), answers()...), neither()...)
	rapidtest.Check(t, func(t *rapid.T) {
		s := &slate{now: dawn, policy: standard(), rules: Disable{
			Consecutive: rapid.IntRange(0, 20).
				Draw(t, "consecutive"),
			Of:    rapid.SampledFrom([]Class{ClassStatus4xx, ClassStatus5xx, ClassTimeout}).Draw(t, "of"),
			After: Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "after")),
		}}
		warned := 0
		for range rapid.IntRange(1, 100).Draw(t, "attempts") {
			before, o := s.st, rapid.SampledFrom(outcomes).Draw(t, "outcome")
			counts, first := rapid.Bool().Draw(t, "counts"), rapid.Bool().Draw(t, "first")
			v := s.see(
				time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "pass")),
				o,
				func(s *Sighting) { s.Counts, s.First = counts, first },
			)
			decided := s.policy.Decide(o)
			switch {
			case v.Changed != (s.st != before) && v.Disable == "":
				t.Fatalf("%+v made of %+v, changed is %v", s.st, before, v.Changed)
			case v.Recovered != (decided == Deliver && warned > 0):
				t.Fatalf("recovered is %v after a warning of %d", v.Recovered, warned)
			case decided == Deliver && (s.st != Standing{} || v.Disable != "" || v.Warning > 0):
				t.Fatalf("a success leaves %+v, %+v", s.st, v)
			case decided == DisableEndpoint && v.Disable == "":
				t.Fatal("410 does not disable")
			case decided != Deliver && decided != DisableEndpoint && !counts && v.Changed:
				t.Fatalf("what does not count makes %+v of %+v", s.st, before)
			case v.Warning > 0 && (v.Warning <= warned || v.Disable != ""):
				t.Fatalf("warned of %d after %d", v.Warning, warned)
			}
			warned = max(warned, v.Warning)
			if decided == Deliver || v.Disable != "" {
				warned = 0
				s.st.Pardon()
			}
		}
	})
}

// The first failure was seen by a clock that was years ahead. Once the clock is right, the endpoint
// is neither disabled at once nor left enabled until those years have passed.
func TestFailingSinceAClockThatWasAhead(t *testing.T) {
	for _, ahead := range []time.Duration{2 * time.Hour, 365 * 24 * time.Hour, 4 * 365 * 24 * time.Hour} {
		s := newSlate("standard")
		down := Outcome{Class: ClassConnect}
		s.see(ahead, down)
		s.now = dawn
		if way := s.st.Way(s.rules, s.now); way != 0 {
			t.Errorf("%v ahead: it is %d %% of the way to being disabled", ahead, way)
		}
		for hour := range 121 {
			if v := s.see(time.Hour, down); (v.Disable != "") != (hour == 120) {
				t.Errorf("%v ahead: after %d hours of failures: %+v", ahead, hour, v)
				break
			}
		}
	}
}

// TestAbsenceEndsAtTheNextWarning: a week without any attempt leads to the next warning and no
// further. Without failures, and before that warning is reached, it changes nothing.
func TestAbsenceEndsAtTheNextWarning(t *testing.T) {
	rules := Disable{After: Duration(100 * time.Hour)}
	for warned, most := range map[int]int{0: 50, 50: 90, 90: 100} {
		s := Standing{FailingSince: dawn, Warned: warned}
		if now := dawn.Add(time.Duration(most) * time.Hour); s.Absent(rules, now) || s.Way(rules, now) != most {
			t.Errorf("warned at %d: after %d hours it is at %d percent", warned, most, s.Way(rules, now))
		}
		if now := dawn.Add(7 * 24 * time.Hour); !s.Absent(rules, now) || s.Way(rules, now) != most {
			t.Errorf("warned at %d: after a week it is at %d percent", warned, s.Way(rules, now))
		}
	}
	if s := (Standing{}); s.Absent(rules, dawn.Add(1000*time.Hour)) || s != (Standing{}) {
		t.Errorf("without failures it is %+v", s)
	}
	if s := (Standing{FailingSince: dawn}); s.Absent(Disable{}, dawn.Add(1000*time.Hour)) {
		t.Error("rules without a time have one")
	}
}
