package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// TestExamplesCanBeCopied: help shows examples whole, and they use commands and flags that there
// are.
func TestExamplesCanBeCopied(t *testing.T) {
	seen := 0
	var walk func(root, c *cobra.Command)
	walk = func(root, c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(root, sub)
		}
		if c.Example == "" {
			return
		}
		path := strings.Fields(c.CommandPath())[1:]
		help := strings.Join(strings.Fields(invoke(t, nil, "", append(path, "--help")...).out), " ")
		for line := range strings.Lines(c.Example) {
			line = strings.TrimSpace(line)
			seen++
			if !strings.Contains(help, strings.Join(strings.Fields(line), " ")) {
				t.Errorf("%s --help does not show all of: %s", c.CommandPath(), line)
			}
			// What follows a pipe or -- is another program's.
			words := strings.Fields(strings.Split(strings.Split(line, " | ")[0], " -- ")[0])
			at := max(0, slices.Index(words, "grapnel"))
			used, _, err := root.Find(words[at+1:])
			if err != nil || used == root && len(words) > 1 && !strings.HasPrefix(words[1], "-") {
				t.Errorf("there is no such command: %s", line)
				continue
			}
			for _, word := range words {
				if name, isFlag := strings.CutPrefix(word, "--"); isFlag {
					name, _, _ = strings.Cut(name, "=")
					if used.Flags().Lookup(name) == nil && used.InheritedFlags().Lookup(name) == nil {
						t.Errorf("%s has no flag --%s: %s", used.CommandPath(), name, line)
					}
				}
			}
		}
	}
	root := (&session{World: &cli.World{Program: "grapnel"}}).rootCommand()
	walk(root, root)
	if seen < 20 {
		t.Errorf("only %d examples", seen)
	}
}
