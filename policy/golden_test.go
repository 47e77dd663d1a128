package policy

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// golden are the attempt times that docs/policies.md promises, in seconds from the first attempt:
// no jitter, attempts that take no time.
var golden = []struct {
	name  string
	times []int
	total time.Duration
}{
	{"default", []int{0, 5, 305, 2105, 9305, 27305, 63305, 113705, 185705, 272105}, 75*time.Hour + 35*time.Minute + 5*time.Second},
	{"standard", []int{0, 5, 305, 2105, 9305, 27305, 63305, 113705, 185705, 272105}, 75*time.Hour + 35*time.Minute + 5*time.Second},
	{"parseo", []int{0, 1, 6, 36, 336, 2136, 9336, 30936, 117336}, 32*time.Hour + 35*time.Minute + 36*time.Second},
	{"paylera", []int{0, 15, 75, 375, 2175, 9375, 30975, 74175, 160575}, 44*time.Hour + 36*time.Minute + 15*time.Second},
	{"paylera-24h", []int{0, 15, 60, 300, 1800, 7200, 21600, 43200, 86400}, 24 * time.Hour},
	{"sent", sentTimes(), 23*time.Hour + 12*time.Minute + 30*time.Second},
	{"webhookify", []int{0, 60, 360, 2160, 9360, 38160, 124560}, 34*time.Hour + 36*time.Minute},
	{"queue", []int{0, 1, 3, 7, 15, 31, 63, 127, 255, 511}, 511 * time.Second},
	{"hooque", []int{0, 1, 3, 7, 15, 31, 63, 127, 255, 511}, 511 * time.Second},
	{"svix", []int{0, 5, 305, 2105, 9305, 27305, 63305, 99305}, 27*time.Hour + 35*time.Minute + 5*time.Second},
}

// sentTimes is a table of five rows, and then one attempt every hour within 24 hours.
func sentTimes() []int {
	times := []int{0, 5, 30, 150, 750}
	for at := 4350; at <= 24*3600; at += 3600 {
		times = append(times, at)
	}
	return times
}

func TestPresetsHaveTheirGoldenTimes(t *testing.T) {
	if len(golden) != len(Presets()) {
		t.Fatalf("%d presets, golden times for %d", len(Presets()), len(golden))
	}
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			p, ok := Preset(g.name)
			if !ok {
				t.Fatal("no such preset")
			}
			p.Jitter = Jitter{}
			if got := stepped(&p); !slices.Equal(got, g.times) {
				t.Errorf("stepping After gives\n%v, want\n%v", got, g.times)
			}
			reach := p.Reach()
			if got := inSeconds(reach.Table); !slices.Equal(got, g.times) {
				t.Errorf("Reach gives\n%v, want\n%v", got, g.times)
			}
			if reach.Nominal != g.total || reach.Attempts != len(g.times) {
				t.Errorf("Reach says %d attempts over %v, want %d over %v", reach.Attempts, reach.Nominal, len(g.times), g.total)
			}
		})
	}
}

// TestQueueHasTwoNames: queue is the default of queues, and hooque another name of it.
func TestQueueHasTwoNames(t *testing.T) {
	one, found := Preset(QueuePreset)
	other, also := Preset("hooque")
	one, other = one.Copy(""), other.Copy("")
	one.Shape, other.Shape = "", ""
	if !found || !also || !reflect.DeepEqual(one, other) {
		t.Errorf("queue is\n%+v, and hooque\n%+v", one, other)
	}
}

func TestSentMakes28AttemptsTheLastAt83550(t *testing.T) {
	p, _ := Preset("sent")
	r := p.Reach()
	if r.Attempts != 28 || r.Table[27] != 83550*time.Second {
		t.Errorf("%d attempts, the last at %v", r.Attempts, r.Table[len(r.Table)-1])
	}
}

func TestInlineExponentialOf30SecondsDoubling(t *testing.T) {
	p, err := Parse([]byte(`{"schedule":{"mode":"exponential","base":"30s","factor":2,"max":"24h"},"max_attempts":11,"jitter":0}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []int{0, 30, 90, 210, 450, 930, 1890, 3810, 7650, 15330, 30690}
	if got := stepped(&p); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// stepped makes one attempt after another as the engine does, each failing at once, and returns
// their times.
func stepped(p *Policy) []int {
	start := time.Date(2026, 5, 6, 8, 0, 0, 0, time.UTC)
	first := p.First(Progress{Anchor: start})
	times := []time.Duration{first.At.Sub(start)}
	pr := Progress{Anchor: first.At}
	at := first.At
	for {
		pr.Attempts++
		step := p.After(pr, Outcome{Class: ClassConnect}, at)
		if step.Exhausted {
			return inSeconds(times)
		}
		at = step.Next
		times = append(times, at.Sub(first.At))
	}
}

func inSeconds(times []time.Duration) []int {
	out := make([]int, len(times))
	for i, d := range times {
		out[i] = int(d / time.Second)
		if d%time.Second != 0 {
			out[i] = -1 // a golden time is a whole second; -1 makes a difference visible
		}
	}
	return out
}
