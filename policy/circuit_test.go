package policy

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

// watch is a breaker that observes attempts. An attempt takes no time unless it says so.
type watch struct {
	circuit Circuit
	st      Standing
	rules   Breaker
	now     time.Time
}

func newWatch() *watch {
	return &watch{rules: DefaultBreaker(), now: time.Date(2026, 5, 6, 8, 0, 0, 0, time.UTC)}
}

// see advances the clock and ends an attempt.
func (w *watch) see(after time.Duration, o Outcome, change ...func(*Sighting)) Shift {
	w.now = w.now.Add(after)
	p := standard()
	s := Sighting{Outcome: o, Decision: p.Decide(o), Started: w.now, Ended: w.now, Cause: string(o.Class)}
	for _, f := range change {
		f(&s)
	}
	return w.circuit.Observe(&w.st, w.rules, s)
}

func (w *watch) open(t interface {
	Helper()
	Fatal(args ...any)
}) {
	t.Helper()
	for range w.rules.Failures {
		w.see(time.Millisecond, refused)
	}
	if !w.st.Open() {
		t.Fatal("it did not open")
	}
}

func asProbe(s *Sighting) { s.Probe = true }

func startedAt(at time.Time) func(*Sighting) { return func(s *Sighting) { s.Started = at } }

var (
	refused = Outcome{Class: ClassConnect}
	fine    = Outcome{Status: 200, Class: ClassNone}
)

// wide are failures that every delivery would meet.
func wide() []Outcome {
	return []Outcome{
		{
			Class: ClassDNS,
		},
		{Class: ClassConnect},
		{Class: ClassTLS},
		{Class: ClassTimeout},
		{Class: ClassReset},
		{Status: 200, Class: ClassTimeout},
		{Status: 500, Class: ClassStatus5xx},
		{Status: 502, Class: ClassStatus5xx},
		{Status: 503, Class: ClassStatus5xx},
	}
}

// answers show a working endpoint, even if it refuses.
func answers() []Outcome {
	return []Outcome{
		fine, {Status: 204, Class: ClassNone}, {Status: 301, Class: ClassRedirect}, {Status: 304, Class: ClassStatus3xx},
		{Status: 400, Class: ClassStatus4xx}, {Status: 404, Class: ClassStatus4xx}, {Status: 408, Class: ClassStatus4xx},
		{Status: 410, Class: ClassStatus4xx}, {Status: 422, Class: ClassStatus4xx}, {Status: 429, Class: ClassStatus429},
		{Status: 429, Class: ClassStatus429, RetryAfter: time.Minute, HasRetryAfter: true},
	}
}

// neither prove nothing: the endpoint asks for a pause, or no request reached it, or its answer is
// unreadable.
func neither() []Outcome {
	return []Outcome{
		{Status: 503, Class: ClassStatus5xx, RetryAfter: time.Minute, HasRetryAfter: true},
		{Class: ClassBlocked}, {Class: ClassProtocol}, {Status: 200, Class: ClassProtocol}, {Class: ClassInternal},
		{Class: ClassProxy}, {Class: ClassToken}, {Status: 401, Class: ClassToken},
	}
}

func TestOpensOnFailuresInARow(t *testing.T) {
	for _, o := range wide() {
		w := newWatch()
		for n := 1; n <= 5; n++ {
			want := NoShift
			if n == 5 {
				want = Opened
			}
			if got := w.see(time.Hour, o); got != want {
				t.Errorf("%+v: failure %d is shift %d, want %d", o, n, got, want)
			}
		}
		if !w.st.OpenedAt.Equal(w.now) || w.st.Cause != string(o.Class) || !w.st.ProbeAt.After(w.now) || w.st.Probes != 0 {
			t.Errorf("%+v: opened as %+v", o, w.st)
		}
	}
}

func TestAnAnswerBreaksTheRow(t *testing.T) {
	for _, o := range answers() {
		w := newWatch()
		for range 10 {
			for range 4 {
				w.see(time.Minute, refused)
			}
			if w.see(time.Minute, o) != NoShift || w.st.Open() {
				t.Fatalf("%+v does not break a row of failures", o)
			}
		}
	}
}

func TestWhatProvesNothingNeitherBreaksTheRowNorAddsToIt(t *testing.T) {
	for _, o := range neither() {
		w := newWatch()
		for range 4 {
			w.see(time.Minute, refused)
			for range 30 {
				w.see(time.Millisecond, o)
			}
		}
		if w.st.Open() {
			t.Errorf("%+v opens the breaker", o)
		}
		if w.see(time.Minute, refused) != Opened {
			t.Errorf("%+v breaks a row of failures", o)
		}
	}
}

func TestNeverOpensWithoutEndpointWideFailures(t *testing.T) {
	harmless := append(answers(), neither()...)
	rapidtest.Check(t, func(t *rapid.T) {
		w := newWatch()
		w.rules.Failures, w.rules.Ratio = 1, 0.01
		for range rapid.IntRange(1, 200).Draw(t, "attempts") {
			if w.see(
				time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "pause")),
				rapid.SampledFrom(harmless).Draw(t, "outcome"),
			) != NoShift {
				t.Fatal("it moved")
			}
		}
	})
}

func TestOpensOnTheRatio(t *testing.T) {
	for _, c := range []struct {
		name  string
		of    []Outcome // repeated
		every time.Duration
		after int // the attempt that opens it; 0: none
	}{
		{"every second one fails", []Outcome{fine, refused}, time.Second, 20},
		{"three of five fail", []Outcome{refused, fine, refused, fine, refused}, time.Second, 20},
		{"two of five fail", []Outcome{refused, fine, refused, fine, fine}, time.Second, 0},
		{"too few within the window", []Outcome{fine, refused}, 2 * time.Second, 0},
	} {
		w := newWatch()
		opened := 0
		for n := 1; n <= 400 && opened == 0; n++ {
			if w.see(c.every, c.of[(n-1)%len(c.of)]) == Opened {
				opened = n
			}
		}
		if opened != c.after {
			t.Errorf("%s: opened after %d attempts, want %d", c.name, opened, c.after)
		}
	}
}

func TestTheWindowForgets(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		opens bool // 20 of 40 failed, if the first are still within the window
	}{{20 * time.Second, true}, {31 * time.Second, false}} {
		w := newWatch()
		w.rules.Failures = 100
		for range 19 {
			w.see(time.Millisecond, refused)
		}
		w.see(c.pause, fine)
		for range 19 {
			w.see(time.Millisecond, fine)
		}
		if w.st.Open() {
			t.Fatal("opened by an answer")
		}
		if w.see(time.Millisecond, refused); w.st.Open() != c.opens {
			t.Errorf("after a pause of %v: open is %v", c.pause, w.st.Open())
		}
	}
}

// TestAnyClockWillDo: the clock may jump, and be before 1970. After any sequence failures open the
// circuit and an answer closes it.
func TestAnyClockWillDo(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		w := newWatch()
		for range rapid.IntRange(1, 50).Draw(t, "attempts") {
			w.now = time.Unix(rapid.Int64Range(-2e9, 8e9).Draw(t, "second"), 0)
			w.see(0, rapid.SampledFrom([]Outcome{fine, refused}).Draw(t, "outcome"), func(s *Sighting) { s.Probe = rapid.Bool().Draw(t, "probe") })
		}
		if w.see(time.Second, fine, asProbe); w.st.Open() {
			t.Fatal("an answer does not close it")
		}
		w.open(t)
		if wait := w.st.ProbeAt.Sub(w.now); wait < w.rules.Probe.Std() || wait > w.rules.Probe.Std()*21/20 {
			t.Fatalf("the first probe is after %v", wait)
		}
	})
}

// TestWhatBeganBeforeTheLastShiftSaysNothing: requests in flight when the circuit opens or closes
// end afterwards.
func TestWhatBeganBeforeTheLastShiftSaysNothing(t *testing.T) {
	w := newWatch()
	before := w.now
	w.open(t)
	for _, o := range append(answers(), wide()...) {
		if got := w.see(time.Millisecond, o, startedAt(before)); got != NoShift {
			t.Errorf("open: %+v that began before is shift %d", o, got)
		}
	}
	before = w.now
	if w.see(time.Second, fine, asProbe) != Closed {
		t.Fatal("a good probe does not close it")
	}
	for range 50 {
		if w.see(time.Millisecond, refused, startedAt(before)) != NoShift || w.st.Open() {
			t.Fatal("what failed while it was open opens it again")
		}
	}
	for n := range 5 {
		if got, want := w.see(time.Millisecond, refused) == Opened, n == 4; got != want {
			t.Fatalf("after closing, failure %d: opened is %v", n+1, got)
		}
	}
}

func TestAnySignOfLifeCloses(t *testing.T) {
	for _, probe := range []bool{true, false} { // an operator may have ordered the attempt
		for _, o := range answers() {
			w := newWatch()
			w.open(t)
			w.see(time.Minute, refused, asProbe)
			if got := w.see(time.Minute, o, func(s *Sighting) { s.Probe = probe }); got != Closed {
				t.Errorf("%+v (probe: %v) is shift %d", o, probe, got)
			}
			if want := (Standing{RecoveredAt: w.now}); w.st != want {
				t.Errorf("%+v: closed as %+v", o, w.st)
			}
		}
		for _, o := range append(wide(), neither()...) {
			w := newWatch()
			w.open(t)
			opened, at := w.st.OpenedAt, w.st.ProbeAt
			got := w.see(time.Minute, o, func(s *Sighting) { s.Probe = probe })
			if want := map[bool]Shift{true: Probed, false: NoShift}[probe]; got != want || !w.st.OpenedAt.Equal(opened) {
				t.Errorf("%+v (probe: %v) is shift %d, want %d", o, probe, got, want)
			}
			if moved := !w.st.ProbeAt.Equal(at); moved != probe {
				t.Errorf("%+v (probe: %v): the next probe has moved: %v", o, probe, moved)
			}
		}
	}
}

func TestARowOfFailuresEndsWithAnOutage(t *testing.T) {
	w := newWatch()
	w.open(t)
	w.see(time.Second, fine, asProbe)
	for range 4 {
		if w.see(time.Second, refused) != NoShift {
			t.Fatal("failures of the outage before still count")
		}
	}
}

// TestProbesComeLater: the pause grows by half each time, up to two and a half times the first one,
// then is a thirtieth of the outage, up to the limit.
func TestProbesComeLater(t *testing.T) {
	w := newWatch()
	w.open(t)
	sec := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for n, want := range []time.Duration{sec(5), sec(7.5), sec(11.25), sec(12.5), sec(12.5)} {
		got := w.st.ProbeAt.Sub(w.now)
		if got < want || got > want+want/20 {
			t.Errorf("wait %d is %v, want %v and up to 5 %% more", n, got, want)
		}
		w.see(got, refused, asProbe)
	}
	probes := w.st.Probes
	for w.now.Sub(w.st.OpenedAt) < 24*time.Hour {
		down := w.now.Sub(w.st.OpenedAt)
		want := min(max(sec(12.5), down/30), 5*time.Minute)
		got := w.st.ProbeAt.Sub(w.now)
		if got < want || got > want+want/20 {
			t.Fatalf("after %v the wait is %v, want %v and up to 5 %% more", down, got, want)
		}
		w.see(got, refused, asProbe)
		probes++
	}
	if w.st.Probes != probes || probes < 300 || probes > 500 {
		t.Errorf("%d probes in a day, counted as %d", probes, w.st.Probes)
	}
}

func TestWaitsOfAnyBreaker(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		b := DefaultBreaker()
		b.Probe = Duration(rapid.Int64Range(int64(10*time.Millisecond), int64(time.Hour)).Draw(t, "probe"))
		b.ProbeMax = b.Probe + Duration(rapid.Int64Range(0, int64(23*time.Hour)).Draw(t, "more"))
		probes := rapid.IntRange(0, 10_000).Draw(t, "probes")
		outage := time.Duration(rapid.Int64Range(0, int64(366*24*time.Hour)).Draw(t, "outage"))
		seed := rapid.Uint64().Draw(t, "seed")
		wait := b.wait(probes, outage, seed)
		if wait < b.Probe.Std() || wait > b.ProbeMax.Std()+b.ProbeMax.Std()/20 {
			t.Fatalf("%v is not from %v to %v", wait, b.Probe, b.ProbeMax)
		}
		if early := b.wait(0, 0, seed); probes == 0 && outage == 0 && early != wait {
			t.Fatal("the same seed gives another wait")
		}
		if longer := b.wait(probes+1, outage+time.Hour, seed); longer < wait-wait/20 {
			t.Fatalf("%v and then %v: it does not shrink but for what is random", wait, longer)
		}
	})
}

func TestJitterSpreadsProbes(t *testing.T) {
	b := DefaultBreaker()
	seen := map[time.Duration]bool{}
	for seed := range uint64(100) {
		seen[b.wait(0, 0, seed)] = true
	}
	if len(seen) < 90 {
		t.Errorf("100 endpoints that fail together have %d different times", len(seen))
	}
}

func TestAHoldMovesTheProbe(t *testing.T) {
	spare := Outcome{Status: 503, Class: ClassStatus5xx, RetryAfter: time.Hour, HasRetryAfter: true}
	w := newWatch()
	w.open(t)
	asked := w.now.Add(time.Hour)
	if w.see(time.Second, spare, asProbe, func(s *Sighting) { s.Hold = asked }) != Probed || !w.st.ProbeAt.Equal(asked) {
		t.Errorf("asked to be spared until %v it is probed at %v", asked, w.st.ProbeAt)
	}
	soon := w.now.Add(time.Second)
	if w.see(0, spare, asProbe, func(s *Sighting) { s.Hold = soon }); !w.st.ProbeAt.After(soon) {
		t.Error("a short hold makes the probe earlier")
	}
}

func TestNoBreakerNeverMoves(t *testing.T) {
	w := newWatch()
	w.rules = Breaker{Off: true}
	for range 100 {
		if w.see(time.Second, refused) != NoShift || w.st != (Standing{}) {
			t.Fatalf("%+v", w.st)
		}
	}
}

// TestAClockSetBack: later outcomes do not count as older than the last shift.
func TestAClockSetBack(t *testing.T) {
	w := newWatch()
	w.open(t)
	if w.see(-time.Hour, fine, asProbe) != Closed {
		t.Error("after the clock was set back a good probe does not close it")
	}
	w.open(t)
	w.see(time.Minute, fine, asProbe)
	w.now = w.now.Add(-time.Hour)
	w.open(t)
}
