package cli

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestEachLineLeavesScriptsAlone: a pipe has the lines of the program that started this one, and all
// of them stay in it.
func TestEachLineLeavesScriptsAlone(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	(&World{Stdin: in}).EachLine(t.Context(), func(line string) { t.Errorf("read %q", line) })
	if _, err := out.WriteString("next command\n"); err != nil || out.Close() != nil {
		t.Fatal(err)
	}
	left := make([]byte, 100)
	if err := in.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := in.Read(left); err != nil || string(left[:n]) != "next command\n" {
		t.Errorf("left is %q, %v", left[:n], err)
	}
	typed := make(chan string, 2)
	(&World{Stdin: strings.NewReader("r\n\n")}).EachLine(t.Context(), func(line string) { typed <- line })
	if a, b := <-typed, <-typed; a != "r" || b != "" {
		t.Errorf("typed are %q and %q", a, b)
	}
}
