// Package picture draws the pictures of the dashboard as SVG. Each drawing is a pure function of
// its data: the same data give the same bytes, so golden files hold them.
//
// Colours are classes (ok, wait, hold, bad, none), which the style sheet fills from the tokens of
// the look; so one picture serves light, dark and print. Each picture carries a sentence that says
// what it shows, for people who cannot see it. Text from outside is escaped here.
//
// What it does not promise: that a picture shows every item. Items that would overlap are moved
// apart, and labels without space are left out; tables beside the pictures have all of them.
package picture

import (
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
)

// SVG is a finished picture: markup that is safe to put into a page as it is.
type SVG string

// drawing collects the elements of a picture.
type drawing struct{ strings.Builder }

// open opens a picture of a size, with the sentence that says what it shows. Its role img hides the
// elements from screen readers, so a picture with links is a group. Stretched pictures fill their
// box; the others keep their proportions.
func open(role, class string, width, height float64, says string, stretched bool) *drawing {
	d := new(drawing)
	d.put(`<svg class="pic %s" viewBox="0 0 %s %s" role="%s" aria-label="%s"`, class, n(width), n(height), role, html.EscapeString(says))
	if stretched {
		d.put(` preserveAspectRatio="none"`)
	}
	d.put(`>`)
	return d
}

func (d *drawing) put(format string, args ...any) { _, _ = fmt.Fprintf(d, format, args...) }

// label writes text from outside.
func (d *drawing) label(class, anchor string, x, y float64, text string) {
	d.put(`<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`, class, n(x), n(y), anchor, html.EscapeString(text))
}

// hint is the text that appears when the pointer rests on an element.
func hint(text string) string { return "<title>" + html.EscapeString(text) + "</title>" }

func (d *drawing) end() SVG {
	d.put(`</svg>`)
	return SVG(d.String())
}

// n writes a coordinate with one digit, which is finer than a pixel.
func n(v float64) string { return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") }

// Spark is a small line of values, the oldest first. One that never changes is drawn faintly.
func Spark(values []float64, tone, says string) SVG {
	const width, height, margin = 220, 34, 4
	d := open("img", "spark", width, height, says, true)
	if len(values) > 1 {
		low, high := values[0], values[0]
		for _, v := range values {
			low, high = min(low, v), max(high, v)
		}
		if high == low {
			tone = "none"
		}
		d.put(`<polyline class="line %s" points="`, tone)
		for i, v := range values {
			y := float64(height) / 2
			if high > low {
				y = height - margin - (v-low)/(high-low)*(height-2*margin)
			}
			d.put(`%s,%s `, n(float64(i)*width/float64(len(values)-1)), n(y))
		}
		d.put(`"/>`)
	}
	return d.end()
}

// Bar is one column of a chart: parts stacked from below, each with its tone.
type Bar struct {
	Parts []Part
	Says  string // on hover
	Href  string // where a click leads; empty: nowhere
}

// Part is a part of a bar.
type Part struct {
	Tone  string
	Value float64
}

// Bars draws columns side by side. The highest fills the height; each part that is not zero is at
// least two units high, so that one failure among a million deliveries can be seen. All parts of a
// tone are one path, which takes a third of the bytes. It is above the links, and the style sheet
// lets clicks through.
func Bars(bars []Bar, says string) SVG {
	const width, height, least = 960, 120, 2
	role := "img"
	if slices.ContainsFunc(bars, func(b Bar) bool { return b.Href != "" }) {
		role = "group"
	}
	d := open(role, "bars", width, height, says, true)
	most := 0.0
	for _, b := range bars {
		most = max(most, b.sum())
	}
	step := float64(width) / float64(max(len(bars), 1))
	var tones []string
	paths := map[string]*drawing{}
	for i, b := range bars {
		x, y := float64(i)*step, float64(height)
		if b.Href != "" {
			d.put(`<a href="%s">`, html.EscapeString(b.Href))
		}
		d.put(`<g>%s<rect class="hit" x="%s" y="0" width="%s" height="%d"/></g>`, hint(b.Says), n(x), n(step), height)
		if b.Href != "" {
			d.put(`</a>`)
		}
		for _, p := range b.Parts {
			if p.Value <= 0 || most == 0 {
				continue
			}
			if paths[p.Tone] == nil {
				tones, paths[p.Tone] = append(tones, p.Tone), new(drawing)
			}
			h := max(p.Value/most*(height-2*least), least)
			y -= h
			paths[p.Tone].put("M%s %sh%sv%sh-%sz", n(x+step*.12), n(max(y, 0)), n(step*.76), n(h), n(step*.76))
		}
	}
	for _, tone := range tones {
		d.put(`<path class="%s" d="%s"/>`, tone, paths[tone])
	}
	return d.end()
}

func (b Bar) sum() (s float64) {
	for _, p := range b.Parts {
		s += p.Value
	}
	return s
}

// Beat is one box of a heartbeat.
type Beat struct {
	Tone string // none: nothing happened; empty: it is not known what happened, and the place stays blank
	Says string
}

// Heart draws how something has been, the oldest beat first. Beats that say nothing are one path
// for each tone, which takes a sixth of the bytes: a list has many hearts.
func Heart(beats []Beat, says string) SVG {
	const step, height = 6, 18
	d := open("img", "heart", float64(len(beats)*step), height, says, true)
	var tones []string
	paths := map[string]string{}
	for i, b := range beats {
		if b.Tone == "" {
			continue
		}
		y, h := 0, height
		if b.Tone == "none" {
			y, h = 7, 4
		}
		if b.Says == "" {
			if paths[b.Tone] == "" {
				tones = append(tones, b.Tone)
			}
			paths[b.Tone] += fmt.Sprintf("M%d %dh4v%dh-4z", i*step, y, h)
			continue
		}
		d.put(`<rect class="%s" x="%d" y="%d" width="4" height="%d" rx="1">%s</rect>`, b.Tone, i*step, y, h, hint(b.Says))
	}
	for _, tone := range tones {
		d.put(`<path class="%s" d="%s"/>`, tone, paths[tone])
	}
	return d.end()
}
