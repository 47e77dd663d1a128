package cli

import (
	"fmt"
	"strings"
)

// Report prints an error on stderr as a sentence and, if a program reads the output, as a problem
// on a line of its own. It returns the exit code.
func (w *World) Report(err error, machine bool) int {
	if err == nil {
		return ExitOK
	}
	f := Explain(err)
	text := "error: " + strings.TrimSuffix(Clean(f.Text), ".")
	if f.Next != "" {
		text += ". " + f.Next
	}
	if w.lines != nil {
		w.lines.Error(strings.TrimPrefix(text, "error: "), "exit_code", f.Exit)
		return f.Exit
	}
	_, _ = fmt.Fprintln(w.Stderr, text)
	// A check with findings and a job that is partly done have printed their answer already.
	if machine && f.Exit != ExitFindings && f.Exit != ExitPartial {
		_, _ = fmt.Fprintln(w.Stderr, string(problemOf(err, f)))
	}
	return f.Exit
}
