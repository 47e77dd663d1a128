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
	Manual bool   // a person asked for it
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
	lineHeight = 108.0
	lineY      = 52.0
	lineEdge   = 40.0
	leastGap   = 15.0 // between two dots
	labelGap   = 74.0 // between two labels
	grain      = time.Second
)

// Timeline draws the attempts of a delivery around now, on an axis whose distances are logarithms
// of the time from now: seconds and days fit into one picture, and the present is the widest.
func Timeline(now time.Time, past []Past, future []Future, end End, says string) SVG {
	d := begin("timeline", lineWidth, lineHeight, says, false)
	here := lineEdge
	switch {
	case len(past) == 0:
		here = lineEdge + 40
	case len(future) == 0 && end.At.IsZero():
		here = lineWidth - lineEdge - 40
	default:
		share := float64(len(past)) / float64(len(past)+len(future)+1)
		here = lineWidth * min(max(share, .25), .7)
	}
	d.put(`<line class="axis" x1="%s" x2="%s" y1="%s" y2="%s"/>`, n(lineEdge/2), n(lineWidth-lineEdge/2), n(lineY), n(lineY))
	d.past(now, here, past)
	d.put(`<line class="now" x1="%s" x2="%s" y1="18" y2="%s"/>`, n(here), n(here), n(lineHeight-10))
	d.label("nowlabel", "start", here+6, 24, "now")
	d.future(now, here, future, end)
	return d.end()
}

func (d *drawing) past(now time.Time, here float64, past []Past) {
	if len(past) == 0 {
		return
	}
	longest := now.Sub(past[0].At)
	xs := make([]float64, len(past))
	for i, p := range past {
		xs[i] = here - 26 - scale(now.Sub(p.At), longest)*(here-26-lineEdge)
	}
	spread(xs, lineEdge, here-26)
	labelled := math.Inf(-1)
	for i, p := range past {
		d.put(`<g>%s`, hint(p.Says))
		if p.Manual {
			d.put(`<path class="dot %s" d="M%s %sl7 7-7 7-7-7z"/>`, p.Tone, n(xs[i]), n(lineY-7))
		} else {
			d.put(`<circle class="dot %s" cx="%s" cy="%s" r="6"/>`, p.Tone, n(xs[i]), n(lineY))
		}
		if room(xs, i, &labelled) {
			d.label("strong", "middle", xs[i], lineY+25, p.Label)
			when := p.At.UTC().Format("15:04:05")
			if now.Sub(p.At) > 20*time.Hour {
				when = p.At.UTC().Format("Mon 15:04")
			}
			d.label("", "middle", xs[i], lineY+40, when)
		}
		d.put(`</g>`)
	}
}

func (d *drawing) future(now time.Time, here float64, future []Future, end End) {
	longest := time.Duration(0)
	for _, f := range future {
		longest = max(longest, f.Latest.Sub(now), f.At.Sub(now))
	}
	width := lineWidth - lineEdge - here - 34
	if !end.At.IsZero() {
		longest = max(longest, end.At.Sub(now))
	}
	total := len(future)
	if !end.At.IsZero() {
		total++
	}
	xs := make([]float64, total)
	for i, f := range future {
		xs[i] = here + 34 + scale(f.At.Sub(now), longest)*width
	}
	if !end.At.IsZero() {
		xs[total-1] = here + 34 + scale(end.At.Sub(now), longest)*width
	}
	spread(xs, here+34, lineWidth-lineEdge)
	labelled := math.Inf(-1)
	for i, f := range future {
		d.put(`<g>%s`, hint(f.Says))
		if jitter := scale(f.Latest.Sub(now), longest) - scale(f.At.Sub(now), longest); jitter > 0 {
			late := min(xs[i]+max(jitter*width, 9), lineWidth)
			d.put(`<line class="jitter" x1="%s" x2="%s" y1="%s" y2="%s"/>`, n(xs[i]), n(late), n(lineY), n(lineY))
		}
		d.put(`<circle class="plan" cx="%s" cy="%s" r="5.2"/>`, n(xs[i]), n(lineY))
		if room(xs, i, &labelled) {
			d.label("", "middle", xs[i], lineY+25, f.Label)
		}
		d.put(`</g>`)
	}
	if end.At.IsZero() {
		return
	}
	x := xs[total-1]
	d.put(`<g>%s<path class="end" d="M%s %sl12 12m0-12-12 12"/></g>`, hint(end.Label), n(x-6), n(lineY-6))
	d.label("strong", "middle", min(x, lineWidth-45), lineY-16, end.Label)
}

// scale is where a distance lies between none (0) and the longest (1).
func scale(d, longest time.Duration) float64 {
	if longest <= 0 || d <= 0 {
		return 0
	}
	return min(math.Log1p(float64(d)/float64(grain))/math.Log1p(float64(longest)/float64(grain)), 1)
}

// spread moves ascending positions apart until they are leastGap from each other, or evenly if the
// space is too small for that.
func spread(xs []float64, from, to float64) {
	if len(xs) < 2 {
		return
	}
	gap := min(leastGap, (to-from)/float64(len(xs)-1))
	for i := 1; i < len(xs); i++ {
		xs[i] = max(xs[i], xs[i-1]+gap)
	}
	if last := len(xs) - 1; xs[last] > to {
		xs[last] = to
		for i := last - 1; i >= 0; i-- {
			xs[i] = min(xs[i], xs[i+1]-gap)
		}
	}
}

// room says whether dot i can have a label: the one before is far enough away, and so is the last
// dot, which always has one.
func room(xs []float64, i int, labelled *float64) bool {
	last := len(xs) - 1
	if xs[i]-*labelled < labelGap || i < last && xs[last]-xs[i] < labelGap {
		return false
	}
	*labelled = xs[i]
	return true
}
