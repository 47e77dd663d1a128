//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// docs/scale.md shows the command's output. The test runs the command as a reader would, without
// the race detector, in half a minute.
func TestScaleIsWhatIsPlayed(t *testing.T) {
	page, err := os.ReadFile("../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command("go", "run", ".", "capacity").Output()
	if err != nil {
		t.Fatal(err)
	}
	rest, lines := string(page), 0
	for line := range strings.Lines(string(said)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		lines++
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Fatalf("docs/scale.md does not have, or not in this order:\n%s\nThis is what go run ./bench capacity says:\n%s", line, said)
		}
		rest = after
	}
	if lines < 20 {
		t.Errorf("the command says only %d lines:\n%s", lines, said)
	}
}
