package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

// Confirm asks a question, unless Yes answers it. It fails if standard input is not a terminal: then
// no person can answer.
func (w *World) Confirm(format string, args ...any) error {
	question := Clean(fmt.Sprintf(format, args...))
	if w.Yes {
		return nil
	}
	if _, there := terminal(w.Stdin); !there {
		return &Fault{Exit: ExitUsage, Code: "usage",
			Text: "cannot ask for confirmation, stdin is not a terminal: " + strings.TrimSuffix(question, "?"),
			Next: "Pass --yes to confirm."}
	}
	return w.asked(question)
}

// ConfirmAtTerminal asks as Confirm does; without a terminal the answer is yes.
func (w *World) ConfirmAtTerminal(format string, args ...any) error {
	if _, there := terminal(w.Stdin); !there {
		return nil
	}
	return w.Confirm(format, args...)
}

func (w *World) asked(question string) error {
	_, _ = fmt.Fprintf(w.Stderr, "%s [y/N] ", question)
	line, err := w.typed(func() ([]byte, error) { return bufio.NewReader(w.Stdin).ReadBytes('\n') })
	if errors.Is(err, context.Canceled) {
		_, _ = fmt.Fprintln(w.Stderr) // the question's line
		return err
	}
	switch strings.ToLower(strings.TrimSpace(string(line))) {
	case "y", "yes":
		return nil
	}
	return &Fault{Exit: ExitFailure, Code: "declined", Text: "cancelled; nothing was changed"}
}
