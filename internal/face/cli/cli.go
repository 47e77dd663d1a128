// Package cli is shared by the commands of the grapnel binary: the source of a setting, the forms
// of output, the text and the exit code of an error, and the rows that turn flags into fields of
// the API. The commands themselves are in cmd/grapnel.
//
// A flag beats its GRAPNEL_* variable, which beats the config file, which beats the default. Data
// goes to stdout and everything else to stderr. Only a terminal gets colours. In the JSON forms an
// error is also a problem, on a second line of stderr. The exit code gives the kind of failure.
//
// Nothing here reads the process's environment, arguments or streams: they come in as a World,
// which a test makes for itself. It does not promise stable wording.
package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/charmbracelet/x/term"
)

// Process is the world of the running process.
func Process() *World {
	return &World{
		Program: os.Args[0], Args: os.Args[1:],
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Lookup: os.LookupEnv, Environ: os.Environ, Now: time.Now,
	}
}

// Colour says whether text written to f may be coloured.
func (w *World) Colour(f io.Writer) bool {
	if _, no := w.Lookup("NO_COLOR"); no {
		return false
	}
	kind, _ := w.Lookup("TERM")
	_, ok := terminal(f)
	return ok && kind != "dumb"
}

// Piped says whether standard input is a pipe or a regular file, and not a terminal or /dev/null.
func (w *World) Piped() bool {
	file, is := w.Stdin.(*os.File)
	if !is {
		return w.Stdin != nil
	}
	info, err := file.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}

// OnHangup gives SIGHUP a meaning. take returns false if the program should end after all.
func (w *World) OnHangup(take func() bool) { w.hangup.Store(&take) }

// HungUp says whether a command has taken a SIGHUP; otherwise the program ends.
func (w *World) HungUp() bool {
	take := w.hangup.Load()
	return take != nil && (*take)()
}

// AtTerminal says whether a person sees the log or can type. After the terminal's end it is false.
func (w *World) AtTerminal() bool {
	_, in := terminal(w.Stdin)
	_, out := terminal(w.Stderr)
	return in || out
}

// Columns is the width of the terminal behind f; 0: it is not a terminal, and lines have any
// length.
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

// Note prints a line on stderr that is neither data nor an error. It is a line of the log if that
// is JSON, since a program that reads JSON lines cannot read text between them.
func (w *World) Note(format string, args ...any) {
	if w.lines != nil {
		w.lines.Info(Clean(fmt.Sprintf(format, args...)))
		return
	}
	_, _ = fmt.Fprintln(w.Stderr, Clean(fmt.Sprintf(format, args...)))
}
