package picture

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

var now = time.Date(2026, 11, 23, 9, 23, 0, 0, time.UTC)

// drawings are one of each kind, and those at the edges.
func drawings() map[string]SVG {
	var past []Past
	for i, ago := range []time.Duration{21 * time.Minute, 20*time.Minute + 55*time.Second, 20 * time.Minute, 15 * time.Minute} {
		past = append(past, Past{At: now.Add(-ago), Tone: "wait", Label: "503", Manual: i == 2, Says: fmt.Sprint("attempt ", i+1)})
	}
	var future []Future
	for i, in := range []time.Duration{4 * time.Minute, 2 * time.Hour, 7 * time.Hour, 32 * time.Hour} {
		at := now.Add(in)
		future = append(future, Future{At: at, Latest: at.Add(in / 10), Label: at.Format("Mon 15:04"), Says: fmt.Sprint("attempt ", i+5)})
	}
	var many []Past
	for i := range 50 {
		many = append(many, Past{At: now.Add(-time.Duration(50-i) * time.Hour), Tone: "bad", Label: "timeout"})
	}
	end := End{At: now.Add(40 * time.Hour), Label: "gives up"}
	return map[string]SVG{
		"timeline":       Timeline(now, past, future, end, "Four attempts made, four planned."),
		"timeline-first": Timeline(now, nil, future[:1], End{}, "Nothing was sent yet."),
		"timeline-done":  Timeline(now, past[:1], nil, End{}, "One attempt made."),
		"timeline-many":  Timeline(now, many, future, end, "Fifty attempts made."),
		"timeline-empty": Timeline(now, nil, nil, End{}, "No attempts."),
		"spark":          Spark([]float64{1, 5, 3, 0, 8}, "ok", "Rising."),
		"spark-flat":     Spark([]float64{2, 2, 2}, "ok", "Level."),
		"spark-empty":    Spark(nil, "ok", "No data."),
		"heart":          Heart([]Beat{{"ok", "fine"}, {"none", "no attempts"}, {"bad", "2 failed"}}, "Three hours."),
		"heart-unknown":  Heart([]Beat{{}, {}, {Tone: "ok"}, {Tone: "none", Says: "no attempts"}}, "Two minutes."),
		"heart-small":    Heart([]Beat{{Tone: "ok"}, {Tone: "none"}, {Tone: "bad"}, {Tone: "ok"}}, "Four hours."),
		"bars": Bars([]Bar{{Parts: []Part{{"ok", 1e6}, {"bad", 1}}, Says: "one of a million", Href: "/deliveries?q=a&b"}, {},
			{Parts: []Part{{"ok", 20}}, Says: "20"}}, "Three hours."),
		"outage":       Outage([]Slice{{Down: true, Attempts: 4, Backlog: 2, Says: "down"}, {Attempts: 40, Backlog: 1e6, Says: `<b>"&`}, {}}, "Three parts."),
		"outage-empty": Outage(nil, "No time."),
		"bars-empty":   Bars(nil, "No hours."),
		"histogram": Histogram([]Bin{{Bar: Bar{Parts: []Part{{"ok", 1e6}, {"bad", 1}}, Says: "one of a million", Href: "/deliveries?q=a&b"}},
			{Bar: Bar{Parts: []Part{{"ok", 20}, {"none", 3}}, Says: `<b>"&`, Href: "/x"}, Chosen: true}, {}}, "Three hours."),
		"histogram-empty": Histogram(nil, "No hours."),
		"progress":        Progress(281, 2, 4, 412, "281 of 412 delivered."),
		"progress-empty":  Progress(0, 0, 0, 0, "Nothing."),
		"progress-large":  Progress(999_998, 2, 0, 1_000_000, "All but two of a million delivered."),
		"hostile": Timeline(now, []Past{{At: now.Add(-time.Second), Tone: "bad", Label: `<b>&"'`, Says: `</title><script>alert()</script>`}}, nil,
			End{}, `"><script>`),
	}
}

func TestGoldenPictures(t *testing.T) {
	for name, svg := range drawings() {
		file := filepath.Join("testdata", name+".svg")
		if *update {
			if err := os.WriteFile(file, []byte(svg+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(svg) + "\n"; got != string(want) {
			t.Errorf("%s differs; write it anew with -update and look at it:\n%s", file, got)
		}
	}
}

// wellFormed reads a picture as XML and returns its elements.
func wellFormed(svg SVG) (names []string, err error) {
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		if e, ok := token.(xml.StartElement); ok {
			names = append(names, e.Name.Local)
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "style" {
					return nil, fmt.Errorf("the attribute %s", a.Name.Local)
				}
			}
		}
	}
}

// TestPicturesAreWellFormed: for all data, a picture is XML of the known elements, has a sentence,
// no style and no script, and all its coordinates are numbers inside it.
func TestPicturesAreWellFormed(t *testing.T) {
	known := map[string]bool{"svg": true, "g": true, "a": true, "title": true, "text": true, "rect": true, "line": true, "circle": true, "path": true, "polyline": true}
	check := func(name string, svg SVG) error {
		elements, err := wellFormed(svg)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, e := range elements {
			if !known[e] {
				return fmt.Errorf("%s has the element %s", name, e)
			}
		}
		if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") || !strings.Contains(string(svg), `aria-label="`) {
			return fmt.Errorf("%s: %s", name, svg)
		}
		return nil
	}
	for name, svg := range drawings() {
		if err := check(name, svg); err != nil {
			t.Error(err)
		}
	}
	rapidtest.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune(`<>&"'ab ü`)), 0, 12, -1)
		at := now.Add(-1000 * time.Hour)
		var past []Past
		for range rapid.IntRange(0, 60).Draw(t, "past") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "gap")))
			past = append(past, Past{At: at, Tone: "ok", Label: text.Draw(t, "label"), Says: text.Draw(t, "says"), Manual: rapid.Bool().Draw(t, "manual")})
		}
		var future []Future
		at = now.Add(-time.Hour)
		for range rapid.IntRange(0, 50).Draw(t, "future") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "gap")))
			future = append(future, Future{At: at, Latest: at.Add(time.Duration(rapid.Int64Range(-1, int64(time.Hour)).Draw(t, "late"))), Label: text.Draw(t, "label")})
		}
		var end End
		if rapid.Bool().Draw(t, "ends") {
			end = End{At: at.Add(time.Second), Label: text.Draw(t, "end")}
		}
		xs := positions(now, past, future, end)
		for i, x := range xs {
			if x < 0 || x > lineWidth || i > 0 && x < xs[i-1] {
				t.Fatalf("position %d of %v", i, xs)
			}
		}
		if err := check("a timeline", Timeline(now, past, future, end, text.Draw(t, "says"))); err != nil {
			t.Fatal(err)
		}
	})
}
