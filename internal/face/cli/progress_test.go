package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// In a log, progress is a line now and then, and how it ended.
func TestProgressInALog(t *testing.T) {
	var log bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := (&World{Stderr: &log, Now: func() time.Time { return now }}).Progress()
	for _, text := range []string{"1 of 5", "2 of 5", "2 of 5"} {
		p.Say("%s", text)
	}
	now = now.Add(everySoOften)
	p.Say("3 of 5")
	p.Say("5 of 5\nand all is \x1b[31mwell")
	p.Done()
	p.Done()
	if got := log.String(); got != "1 of 5\n3 of 5\n5 of 5 and all is  [31mwell\n" {
		t.Errorf("the log has %q", got)
	}
}

func TestConfirm(t *testing.T) {
	ask := func(answer string) (string, error) {
		var out bytes.Buffer
		w := &World{Stdin: strings.NewReader(answer), Stderr: &out}
		err := w.asked("Replay 5 deliveries?")
		return out.String(), err
	}
	for answer, yes := range map[string]bool{
		"y\n": true, "Yes\n": true, "y": true, "\n": false, "no\n": false, "": false, "yes please\n": false,
	} {
		said, err := ask(answer)
		if (err == nil) != yes || said != "Replay 5 deliveries? [y/N] " {
			t.Errorf("%q: %v after %q", answer, err, said)
		}
	}
	w := &World{Stdin: strings.NewReader("y\n"), Stderr: &bytes.Buffer{}}
	if err := w.Confirm("Replay?"); Explain(err).Exit != ExitUsage || !strings.Contains(Explain(err).Next, "--yes") {
		t.Errorf("nobody there: %v", err)
	}
	w.Yes = true
	if err := w.Confirm("Replay?"); err != nil {
		t.Errorf("said before: %v", err)
	}
	in, typing := io.Pipe() // nothing is typed
	defer func() { _ = typing.Close() }()
	interrupted := make(chan struct{})
	close(interrupted)
	w = &World{Stdin: in, Stderr: &bytes.Buffer{}, Interrupted: interrupted}
	if err := w.asked("Replay?"); Explain(err).Exit != ExitInterrupted {
		t.Errorf("interrupted: %v", err)
	}
}
