package cli

import (
	"bufio"
	"fmt"
	"strings"
)

// Confirm asks before something that touches more than one thing. Nobody can be asked when standard input is no terminal; then only yes,
// the flag, says so.
func (w *World) Confirm(yes bool, format string, args ...any) error {
	question := clean(fmt.Sprintf(format, args...))
	if yes {
		return nil
	}
	if _, there := terminal(w.Stdin); !there {
		return &Fault{Exit: ExitUsage, Code: "usage", Text: "nobody is there to be asked: " + strings.TrimSuffix(question, "?"), Next: "Say --yes if it is meant."}
	}
	return w.asked(question)
}

// ConfirmAtTerminal asks as Confirm does, but a script, which nobody watches, need not say yes.
func (w *World) ConfirmAtTerminal(yes bool, format string, args ...any) error {
	if _, there := terminal(w.Stdin); !there {
		return nil
	}
	return w.Confirm(yes, format, args...)
}

func (w *World) asked(question string) error {
	_, _ = fmt.Fprintf(w.Stderr, "%s [y/N] ", question)
	line, _ := bufio.NewReader(w.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return &Fault{Exit: ExitFailure, Code: "declined", Text: "nothing was done"}
}
