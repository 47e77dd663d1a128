// Package cli is what every command of the grapnel binary shares: where a setting comes from, the forms in which an answer is
// printed, and what an error says and exits with. The commands themselves are in cmd/grapnel.
//
// The rules it keeps: a flag beats its GRAPNEL_* variable, which beats the config file, which beats the default. Data goes to
// stdout and everything else to stderr. There is no colour unless stdout is a terminal. In the JSON forms an error is on
// stdout too, as a problem. The exit code says what kind of failure it was.
//
// Nothing here reads the process's own environment, arguments or streams: they come in as a World, so that a test is one.
package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/charmbracelet/x/term"
)

// World is what a command may touch of the process that it runs in.
type World struct {
	Program string // as the user called it, for examples to paste
	Args    []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Lookup  func(name string) (string, bool) // an environment variable
	Now     func() time.Time
}

// Process is the world of the running process.
func Process() *World {
	return &World{
		Program: os.Args[0], Args: os.Args[1:],
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Lookup: os.LookupEnv, Now: time.Now,
	}
}

// Colour says whether what is written to f may be coloured.
func (w *World) Colour(f io.Writer) bool {
	if _, no := w.Lookup("NO_COLOR"); no {
		return false
	}
	kind, _ := w.Lookup("TERM")
	_, ok := terminal(f)
	return ok && kind != "dumb"
}

// terminal returns the file behind f, a reader or a writer, when that is a terminal.
func terminal(f any) (*os.File, bool) {
	file, ok := f.(*os.File)
	return file, ok && term.IsTerminal(file.Fd())
}

// Piped says whether standard input is a pipe or a file that somebody chose: not a terminal, and not
// /dev/null, where nothing comes from.
func (w *World) Piped() bool {
	file, is := w.Stdin.(*os.File)
	if !is {
		return w.Stdin != nil
	}
	info, err := file.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}

// Columns is the width of the terminal behind f, or 0 when there is none and lines may be as long as they are.
func (*World) Columns(f io.Writer) int {
	file, ok := terminal(f)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(file.Fd())
	if err != nil {
		return 0
	}
	return width
}

// Note says something on stderr that is neither data nor an error.
func (w *World) Note(format string, args ...any) {
	_, _ = fmt.Fprintln(w.Stderr, clean(fmt.Sprintf(format, args...)))
}
