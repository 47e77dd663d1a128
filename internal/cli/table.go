package cli

import (
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

const gap = "  "

// layout is the colour and width of the output.
type layout struct {
	colour bool
	width  int // lines are cut to it; 0: no limit
}

func (l layout) write(out io.Writer, parts []Part) {
	for i, part := range parts {
		if i > 0 {
			l.line(out, "")
		}
		if part.Title != "" {
			l.title(out, Clean(part.Title))
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
func (l layout) title(out io.Writer, text string) {
	for line := range strings.SplitSeq(Wrap(text, l.width), "\n") {
		l.line(out, l.paint(lipgloss.NewStyle().Bold(true), line))
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
				cell = l.paint(lipgloss.NewStyle().Faint(true), cell)
			default:
				cell = l.tone(cell)
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
		text = ansi.Truncate(text, l.width, "…")
	}
	_, _ = io.WriteString(out, text+"\n")
}

// Clean replaces control characters: a text may come from a receiver, and must not steer the
// terminal.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

// tone colours the words of states.
func (l layout) tone(cell string) string {
	switch cell {
	case "delivered", "enabled", "healthy", "deliver", "completed":
		return l.paint(lipgloss.NewStyle().Foreground(lipgloss.Green), cell)
	case "failed", "failing", "disabled", "open", "fail", "disable", "stopped":
		return l.paint(lipgloss.NewStyle().Foreground(lipgloss.Red), cell)
	case "pending", "held", "paused", "running", "recovering", "throttled", "retry", "throttle":
		return l.paint(lipgloss.NewStyle().Foreground(lipgloss.Yellow), cell)
	case "dropped", "discarded", "skipped", "cancelled":
		return l.paint(lipgloss.NewStyle().Foreground(lipgloss.BrightBlack), cell)
	}
	return cell
}

func (l layout) paint(style lipgloss.Style, text string) string {
	if !l.colour {
		return text
	}
	return style.Render(text)
}
