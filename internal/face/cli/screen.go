package cli

import (
	"io"
	"os"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
)

// Screen is the whole terminal, which a command redraws. Close brings back the lines from before.
type Screen struct {
	out   *os.File
	in    *os.File
	state *term.State
	quit  chan struct{}
}

// Screen takes the terminal; nil: standard input or output is none.
func (w *World) Screen() *Screen {
	out, shown := terminal(w.Stdout)
	in, typed := terminal(w.Stdin)
	if kind, _ := w.Lookup("TERM"); !shown || !typed || kind == "dumb" {
		return nil
	}
	state, err := term.MakeRaw(in.Fd())
	if err != nil {
		return nil
	}
	s := &Screen{out: out, in: in, state: state, quit: make(chan struct{})}
	_, _ = io.WriteString(out, "\x1b[?1049h\x1b[?25l")
	// The goroutine ends at the key that closes the screen. If a signal closes it instead, the
	// goroutine still reads, until the process ends: a read of a terminal cannot be broken off.
	go s.read()
	return s
}

// read closes quit at q, Ctrl+C, or the end of the input.
func (s *Screen) read() {
	defer close(s.quit)
	key := make([]byte, 1)
	for {
		n, err := s.in.Read(key)
		if err != nil || n == 1 && (key[0] == 'q' || key[0] == 'Q' || key[0] == 3) {
			return
		}
	}
}

// Quit is closed when the user asks for the end.
func (s *Screen) Quit() <-chan struct{} { return s.quit }

// Size is the number of columns and lines now.
func (s *Screen) Size() (columns, lines int) {
	columns, lines, err := term.GetSize(s.out.Fd())
	if err != nil || columns <= 0 || lines <= 0 {
		return 80, 24
	}
	return columns, lines
}

// Draw replaces the shown lines. Lines beyond the height are left out.
func (s *Screen) Draw(lines []string) {
	_, height := s.Size()
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range lines[:min(len(lines), height)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, _ = io.WriteString(s.out, b.String())
}

// Close gives the terminal back.
func (s *Screen) Close() {
	_, _ = io.WriteString(s.out, "\x1b[?25h\x1b[?1049l")
	_ = term.Restore(s.in.Fd(), s.state)
}

// Cut shortens a line to a number of columns.
func Cut(line string, columns int) string { return ansi.Truncate(line, columns, "…") }

// Columns is how wide a text is.
func Columns(text string) int { return ansi.StringWidth(text) }

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

// Paint colours text by its tone (see package words), or makes it bold or faint.
func Paint(tone, text string) string {
	style, known := styles[tone]
	if !known {
		return text
	}
	return style.Render(text)
}

var styles = map[string]lipgloss.Style{
	"ok":    lipgloss.NewStyle().Foreground(lipgloss.Green),
	"bad":   lipgloss.NewStyle().Foreground(lipgloss.Red),
	"wait":  lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	"hold":  lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	"grey":  lipgloss.NewStyle().Foreground(lipgloss.BrightBlack),
	"bold":  lipgloss.NewStyle().Bold(true),
	"faint": lipgloss.NewStyle().Faint(true),
}

// terminal returns the file behind f, a reader or a writer, when that is a terminal.
func terminal(f any) (*os.File, bool) {
	file, ok := f.(*os.File)
	return file, ok && term.IsTerminal(file.Fd())
}
