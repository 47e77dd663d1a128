//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
)

// docs/scale.md shows the command's output.
func TestScaleIsWhatIsPlayed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if status := capacityMain(nil, &out); status != 0 {
		t.Fatalf("the command ends with status %d", status)
	}
	said := out.String()
	rest, lines := string(page), 0
	for line := range strings.Lines(said) {
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
