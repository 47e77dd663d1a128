package picture

// Progress is the progress of a job: delivered, failed, under way, and the rest.
func Progress(delivered, failed, underway, total int, says string) SVG {
	const width, height = 400, 8
	d := open("img", "progress", width, height, says, true)
	d.put(`<rect class="none" x="0" y="0" width="%s" height="%s"/>`, n(width), n(height))
	x := 0.0
	whole := float64(max(total, delivered+failed+underway, 1))
	for _, part := range []Part{{"ok", float64(delivered)}, {"bad", float64(failed)}, {"wait", float64(underway)}} {
		if part.Value <= 0 {
			continue
		}
		wide := max(part.Value/whole*width, 1.5) // a single failure among a million is seen
		wide = min(wide, width-x)
		d.put(`<rect class="%s" x="%s" y="0" width="%s" height="%s"/>`, part.Tone, n(x), n(wide), n(height))
		x += wide
	}
	return d.end()
}
