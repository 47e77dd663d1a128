package picture

import "html"

// Bin is a column of a histogram.
type Bin struct {
	Bar
	Chosen bool // it is in the part of time that is selected
}

// Histogram draws columns of equal parts of time, the oldest first. Each is a link that selects its
// part; the script of the page lets people select several at once. The chosen ones stand on a
// ground of their own.
func Histogram(bins []Bin, says string) SVG {
	const width, height, least = 960, 96, 2
	d := open("group", "bars histogram", width, height, says, true)
	most := 0.0
	for i := range bins {
		most = max(most, bins[i].sum())
	}
	step := float64(width) / float64(max(len(bins), 1))
	for i, b := range bins {
		x, y := float64(i)*step, float64(height)
		ground := "hit"
		if b.Chosen {
			ground = "hit chosen"
		}
		d.put(`<a href="%s">%s<rect class="%s" x="%s" y="0" width="%s" height="%d"/>`, html.EscapeString(b.Href), hint(b.Says), ground,
			n(x), n(step), height)
		for _, p := range b.Parts {
			if p.Value <= 0 || most == 0 {
				continue
			}
			h := max(p.Value/most*(height-3*least), least)
			y -= h
			d.put(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, p.Tone, n(x+step*.12), n(max(y, 0)), n(step*.76), n(h))
		}
		d.put(`</a>`)
	}
	return d.end()
}
