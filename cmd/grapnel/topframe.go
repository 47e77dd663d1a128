package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// topFrame is what grapnel top shows at one moment. Its lines follow from it alone.
type topFrame struct {
	server  string
	now     time.Time
	seen    *client.Overview // nil: no answer yet
	at      time.Time        // of seen
	rates   *rates           // nil: they need two answers
	trouble string           // why there is no newer answer
}

// rates are changes between two answers, per second.
type rates struct{ created, delivered, failed float64 }

// ratesOf compares two answers. Hours that the later one no longer covers are left out of both.
func ratesOf(before, after *client.Overview, took time.Duration) *rates {
	if before == nil || took <= 0 {
		return nil
	}
	type sums struct{ ended, delivered, failed int64 }
	add := func(o *client.Overview) (s sums) {
		for i := range o.Hours {
			if h := &o.Hours[i]; !h.At.Before(after.HoursFrom) {
				s.delivered, s.failed = s.delivered+h.Delivered, s.failed+h.Failed
				s.ended += h.Delivered + h.Failed + h.Dropped + h.Discarded + h.Skipped
			}
		}
		return s
	}
	was, is := add(before), add(after)
	per := func(n int64) float64 { return float64(max(n, 0)) / took.Seconds() }
	return &rates{created: per(is.ended - was.ended + after.Pending.All - before.Pending.All),
		delivered: per(is.delivered - was.delivered), failed: per(is.failed - was.failed)}
}

// topLines draws a frame for a terminal of this width. paint is nil without colours.
func topLines(f *topFrame, width int, paint func(tone, text string) string) (lines []string) {
	if paint == nil {
		paint = func(_, text string) string { return text }
	}
	add := func(tone, text string) {
		for line := range strings.SplitSeq(cli.Wrap(cli.Clean(text), width), "\n") {
			lines = append(lines, paint(tone, cli.Cut(line, width)))
		}
	}
	clock := f.now.UTC().Format("15:04:05 UTC")
	title := cli.Cut("grapnel top  "+cli.Clean(f.server), max(width-len(clock)-1, 1))
	lines = append(lines, paint("faint", title+strings.Repeat(" ", max(width-cli.Columns(title)-len(clock), 1))+clock))
	if f.trouble != "" {
		add(words.Bad, f.trouble)
	}
	o := f.seen
	if o == nil {
		return lines
	}
	if f.trouble != "" {
		add(words.Wait, "The numbers below are "+say.Roughly(max(f.now.Sub(f.at), 0))+" old.")
	}
	verdict := words.Overall(f.at, o)
	lines = append(lines, "")
	add(words.Tone(o), verdict.Say())
	if verdict.Next != "" {
		add("", verdict.Next)
	}
	lines = append(lines, "")
	row := func(name, text string) {
		const left = 24
		first := true
		for line := range strings.SplitSeq(cli.Wrap(cli.Clean(text), max(width-left, 1)), "\n") {
			head := strings.Repeat(" ", left)
			if first {
				head, first = name+strings.Repeat(" ", max(left-cli.Columns(name), 1)), false
			}
			lines = append(lines, paint("faint", head)+cli.Cut(line, max(width-left, 1)))
		}
	}
	for _, figure := range words.Figures(&o.Totals, say.Count(o.Pending.All)) {
		text := strings.TrimSpace(figure.Value + " " + figure.Unit)
		if figure.Note != "" {
			text += ", " + figure.Note
		}
		row(figure.Name, text)
	}
	if f.rates != nil {
		row("Per second", fmt.Sprintf("%.1f created, %.1f delivered, %.1f failed", f.rates.created, f.rates.delivered, f.rates.failed))
	}
	row("Backlog", words.Backlog(f.at, o))
	row("Dead letters", words.DeadLetters(o))
	row("Endpoints", words.States(&o.Endpoints))
	lines = append(lines, "")
	return append(lines, topRest(f, width, paint)...)
}

// topRest draws the attempts ahead and the endpoints that need attention.
func topRest(f *topFrame, width int, paint func(tone, text string) string) (lines []string) {
	wave := words.Ahead(f.at, f.seen)
	lines = append(lines, paint("bold", "Attempts ahead"))
	if wave.Empty != "" {
		lines = append(lines, wave.Empty)
	} else {
		lines = append(lines,
			paint("faint", "next hour, by 5 min     ")+paint(words.Hold, cli.Cut(bars(wave.Soon, 2), max(width-24, 1))),
			paint("faint", "next 24 h, by hour      ")+paint(words.Hold, cli.Cut(bars(wave.Hours[:], 2), max(width-24, 1))))
		for line := range strings.SplitSeq(cli.Wrap(wave.Says, width), "\n") {
			lines = append(lines, line)
		}
	}
	if len(f.seen.Attention) == 0 {
		return lines
	}
	lines = append(lines, "", paint("bold", "Endpoints that need attention"))
	names := 0
	for i := range f.seen.Attention {
		names = max(names, min(cli.Columns(cli.Clean(words.Name(&f.seen.Attention[i]))), 28))
	}
	for i := range f.seen.Attention {
		e := &f.seen.Attention[i]
		state := words.Health(e.Health.State)
		name := cli.Cut(cli.Clean(words.Name(e)), names)
		name += strings.Repeat(" ", names-cli.Columns(name))
		text := fmt.Sprintf("%10s  %s  ", say.Capped(e.Health.Held, e.Health.HeldMore), name)
		text = cli.Cut(text+cli.Clean(words.Consequence(f.at, e)), max(width-13, 1))
		lines = append(lines, paint(state.Tone, fmt.Sprintf("%-13s", state.Word))+text)
	}
	return lines
}
