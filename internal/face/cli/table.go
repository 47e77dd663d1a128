package cli

import (
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

func (l layout) write(out io.Writer, parts []Part) {
	for i, part := range parts {
		if i > 0 {
			l.line(out, "")
		}
		if part.Title != "" {
			l.title(out, Clean(part.Title), "bold")
		}
		l.table(out, part)
		if part.Text != "" {
			l.text(out, part.Text)
		}
	}
}

// Wrap breaks lines between words so that none is wider; 0: no limit.
func Wrap(text string, width int) string {
	if width <= 0 {
		return text
	}
	return ansi.Wordwrap(text, width, "")
}

// title may be a sentence, so it is wrapped instead of cut.
func (l layout) title(out io.Writer, text, tone string) {
	for line := range strings.SplitSeq(Wrap(text, l.width), "\n") {
		l.line(out, l.paint(tone, line))
	}
}

// text is wrapped, never cut.
func (l layout) text(out io.Writer, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		for part := range strings.SplitSeq(Wrap(Clean(line), l.width), "\n") {
			_, _ = io.WriteString(out, part+"\n")
		}
	}
}

func (l layout) table(out io.Writer, part Part) {
	part, hidden := l.narrow(part)
	defer func() {
		if len(hidden) > 0 {
			l.title(out, "hidden: "+strings.Join(hidden, ", ")+"; a wider terminal or -o json has them", "faint")
		}
	}()
	rows := part.Rows
	if part.Head != nil && !part.More {
		rows = append([][]string{part.Head}, rows...)
	}
	widths := slices.Clone(part.Widths)
	for _, row := range rows {
		for c, cell := range row {
			if c == len(widths) {
				widths = append(widths, 0)
			}
			widths[c] = max(widths[c], lipgloss.Width(Clean(cell)))
		}
	}
	for r, row := range rows {
		var line strings.Builder
		for c, cell := range row {
			cell = Clean(cell)
			padding := strings.Repeat(" ", widths[c]-lipgloss.Width(cell))
			switch {
			case part.Head != nil && r == 0 && !part.More, part.Head == nil && c == 0:
				cell = l.paint("faint", cell)
			default:
				cell = l.paint(tones[cell], cell)
			}
			line.WriteString(cell)
			if c < len(row)-1 {
				line.WriteString(padding + gap)
			}
		}
		l.line(out, strings.TrimRight(line.String(), " "))
	}
}

func (l layout) line(out io.Writer, text string) {
	if l.width > 0 {
		text = Cut(text, l.width)
	}
	_, _ = io.WriteString(out, text+"\n")
}

// tones are the colours of the words of states.
var tones = map[string]string{
	"delivered": "ok", "enabled": "ok", "healthy": "ok", "deliver": "ok", "completed": "ok",
	"failed": "bad", "failing": "bad", "disabled": "bad", "open": "bad", "fail": "bad", "disable": "bad", "stopped": "bad",
	"pending": "wait", "held": "wait", "paused": "wait", "running": "wait", "recovering": "wait", "throttled": "wait", "degraded": "wait",
	"retry": "wait", "throttle": "wait",
	"dropped": "grey", "discarded": "grey", "skipped": "grey", "cancelled": "grey",
}

func (l layout) paint(tone, text string) string {
	if !l.colour {
		return text
	}
	return Paint(tone, text)
}
