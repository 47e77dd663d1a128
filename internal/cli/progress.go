package cli

import (
	"fmt"
	"time"
)

// Progress says on stderr how far something is. On a terminal it keeps rewriting one line; elsewhere it writes a line now and then.
type Progress struct {
	world *World
	text  string    // what was said last
	shown bool      // it has been written
	last  time.Time // when something was
}

// everySoOften is how often a log gets a line.
const everySoOften = 10 * time.Second

// Progress begins one.
func (w *World) Progress() *Progress { return &Progress{world: w, shown: true} }

// Say tells how far it is.
func (p *Progress) Say(format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...))
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

// Done ends it, with what was said last.
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
