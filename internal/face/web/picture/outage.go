package picture

// Slice is a part of a simulated time.
type Slice struct {
	Down     bool // the endpoint was out of order
	Attempts float64
	Backlog  float64
	Says     string
}

// Outage draws an outage: the time when the endpoint was down is shaded, columns are attempts, and
// the line is the backlog. Columns and line each have the whole height for their own highest value.
func Outage(slices []Slice, says string) SVG {
	const width, height, margin = 960, 160, 6
	d := open("img", "outage", width, height, says, true)
	var attempts, backlog float64
	for _, s := range slices {
		attempts, backlog = max(attempts, s.Attempts), max(backlog, s.Backlog)
	}
	step := float64(width) / float64(max(len(slices), 1))
	for i := 0; i < len(slices); i++ {
		from := i
		for i < len(slices) && slices[i].Down {
			i++
		}
		if i > from { // one shade for all of it: edges between shades would be seen
			d.put(`<rect class="down" x="%s" y="0" width="%s" height="%d"/>`, n(float64(from)*step), n(float64(i-from)*step), height)
		}
	}
	for i, s := range slices {
		x := float64(i) * step
		d.put(`<g>%s<rect class="hit" x="%s" y="0" width="%s" height="%d"/>`, hint(s.Says), n(x), n(step), height)
		if s.Attempts > 0 && attempts > 0 {
			h := max(s.Attempts/attempts*(height-2*margin), 2)
			d.put(`<rect class="hold" x="%s" y="%s" width="%s" height="%s"/>`, n(x+step*.15), n(height-h), n(step*.7), n(h))
		}
		d.put(`</g>`)
	}
	if backlog > 0 {
		d.put(`<polyline class="line wait" points="`)
		for i, s := range slices {
			d.put(`%s,%s `, n((float64(i)+.5)*step), n(height-margin-s.Backlog/backlog*(height-2*margin)))
		}
		d.put(`"/>`)
	}
	return d.end()
}
