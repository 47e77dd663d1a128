package picture

import (
	"math"
	"time"
)

// Past is an attempt that was made.
type Past struct {
	At     time.Time
	Tone   string
	Label  string // such as 503 or timeout
	Manual bool   // an operator asked for it
	Says   string
}

// Future is an attempt that is planned.
type Future struct {
	At, Latest time.Time // Latest is the latest that jitter can make it
	Label      string
	Says       string
}

// End is how the schedule ends if all attempts fail.
type End struct {
	At    time.Time // zero: the schedule does not end
	Label string
}

const (
	lineWidth  = 1100.0
	lineHeight = 104.0
	lineY      = 46.0
	lineEdge   = 46.0
	labelGap   = 78.0 // between two labels
	grain      = time.Second
	jitterMost = 26.0
)

// Timeline draws the attempts of a delivery around now. The distance between two neighbours is the
// logarithm of the time between them, so that a schedule whose pauses grow from seconds to days
// fills the picture evenly. It shows order and growth; the labels have the times.
func Timeline(now time.Time, past []Past, future []Future, end End, says string) SVG {
	d := open("img", "timeline", lineWidth, lineHeight, says, false)
	xs := positions(now, past, future, end)
	here := xs[len(past)]
	d.put(`<line class="axis" x1="%s" x2="%s" y1="%s" y2="%s"/>`, n(lineEdge/2), n(lineWidth-lineEdge/2), n(lineY), n(lineY))
	d.past(now, xs[:len(past)], past)
	d.put(`<line class="now" x1="%s" x2="%s" y1="14" y2="%s"/>`, n(here), n(here), n(lineHeight-12))
	d.label("nowlabel", "start", here+6, 20, "now")
	d.future(xs[len(past)+1:], future, end)
	return d.end()
}

// positions are where the attempts made, now, the planned attempts and the end are, in this order.
func positions(now time.Time, past []Past, future []Future, end End) []float64 {
	var at []time.Time
	for _, p := range past {
		at = append(at, p.At)
	}
	at = append(at, now)
	for _, f := range future {
		at = append(at, f.At)
	}
	if !end.At.IsZero() {
		at = append(at, end.At)
	}
	xs := make([]float64, len(at))
	for i := 1; i < len(at); i++ {
		gap := max(at[i].Sub(at[i-1]), 0)
		xs[i] = xs[i-1] + 1.5 + math.Log1p(float64(gap)/float64(grain))
	}
	scale := (lineWidth - 2*lineEdge) / max(xs[len(xs)-1], 20) // few attempts stay close to each other
	shift := lineEdge
	if len(future) == 0 && end.At.IsZero() {
		shift = lineWidth - lineEdge - xs[len(xs)-1]*scale - 30 // a finished delivery ends at the right
	}
	for i := range xs {
		xs[i] = xs[i]*scale + shift
	}
	return xs
}

func (d *drawing) past(now time.Time, xs []float64, past []Past) {
	shown := labelled(xs, false)
	for i, p := range past {
		d.put(`<g>%s`, hint(p.Says))
		if p.Manual {
			d.put(`<path class="dot %s" d="M%s %sl7 7-7 7-7-7z"/>`, p.Tone, n(xs[i]), n(lineY-7))
		} else {
			d.put(`<circle class="dot %s" cx="%s" cy="%s" r="6"/>`, p.Tone, n(xs[i]), n(lineY))
		}
		if shown[i] {
			when := p.At.UTC().Format("15:04:05")
			if now.Sub(p.At) > 20*time.Hour {
				when = p.At.UTC().Format("Mon 15:04")
			}
			d.label("strong", "middle", xs[i], lineY+26, p.Label)
			d.label("", "middle", xs[i], lineY+41, when)
		}
		d.put(`</g>`)
	}
}

func (d *drawing) future(xs []float64, future []Future, end End) {
	shown := labelled(xs[:len(future)], true)
	for i, f := range future {
		d.put(`<g>%s`, hint(f.Says))
		if jitter := f.Latest.Sub(f.At); jitter > 0 {
			late := xs[i] + min(6+2*math.Log1p(float64(jitter)/float64(grain)), jitterMost)
			d.put(`<line class="jitter" x1="%s" x2="%s" y1="%s" y2="%s"/>`, n(xs[i]), n(late), n(lineY), n(lineY))
		}
		d.put(`<circle class="plan" cx="%s" cy="%s" r="5.2"/>`, n(xs[i]), n(lineY))
		if shown[i] {
			d.label("", "middle", xs[i], lineY+26, f.Label)
		}
		d.put(`</g>`)
	}
	if !end.At.IsZero() {
		x := xs[len(future)]
		d.put(`<g>%s<path class="end" d="M%s %sl12 12m0-12-12 12"/></g>`, hint(end.Label), n(x-6), n(lineY-6))
		d.label("strong", "middle", x, lineY-16, end.Label)
	}
}

// labelled says which of ascending positions have space for a label. The first, or of the past the
// last, always has one: it is the attempt next to now.
func labelled(xs []float64, forward bool) []bool {
	shown := make([]bool, len(xs))
	last := math.Inf(1)
	for i := range xs {
		if !forward {
			i = len(xs) - 1 - i
		}
		if math.Abs(last-xs[i]) >= labelGap {
			shown[i], last = true, xs[i]
		}
	}
	return shown
}
