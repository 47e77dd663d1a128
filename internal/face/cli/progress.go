package cli

import (
	"fmt"
	"time"
)

// Progress prints the progress of a job on stderr: on a terminal in one line that it rewrites,
// elsewhere in a line every 10 s.
type Progress struct {
	world *World
	text  string    // the last text
	shown bool      // the last text is printed
	last  time.Time // when the last line was printed
}

// everySoOften is the pause between two lines of a log.
const everySoOften = 10 * time.Second

// Progress starts the progress of a job.
func (w *World) Progress() *Progress { return &Progress{world: w, shown: true} }

// Say sets the text.
func (p *Progress) Say(format string, args ...any) {
	text := Clean(fmt.Sprintf(format, args...))
	if text == p.text {
		return
	}
	p.text, p.shown = text, false
	_, there := terminal(p.world.Stderr)
	now := p.world.Now()
	switch {
	case there:
		_, _ = fmt.Fprintf(p.world.Stderr, "\r\x1b[K%s", text)
	case p.last.IsZero() || now.Sub(p.last) >= everySoOften:
		_, _ = fmt.Fprintln(p.world.Stderr, text)
	default:
		return
	}
	p.shown, p.last = true, now
}

// Done ends the progress; the last text stays.
func (p *Progress) Done() {
	_, there := terminal(p.world.Stderr)
	switch {
	case there && p.text != "":
		_, _ = fmt.Fprintln(p.world.Stderr)
	case !p.shown:
		_, _ = fmt.Fprintln(p.world.Stderr, p.text)
	}
	p.text, p.shown, p.last = "", true, time.Time{}
}
