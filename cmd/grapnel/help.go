package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	mango "github.com/muesli/mango-cobra"
	"github.com/muesli/roff"
	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// help prints what a command is for, how it is called, and its flags. It is plain text and asks the
// terminal nothing: a question about its colours costs seconds where none answers.
func (s *session) help(c *cobra.Command, _ []string) {
	out := c.OutOrStdout()
	width := s.Columns(out)
	_, _ = fmt.Fprintf(out, "%s\n", cli.Wrap(cmp.Or(c.Long, c.Short), width))
	section(out, "Usage", indented(usage(c)))
	section(out, "Examples", indented(c.Example))
	var commands strings.Builder
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&commands, "  %-*s  %s\n", c.NamePadding(), sub.Name(), sub.Short)
		}
	}
	section(out, "Commands", commands.String())
	section(out, "Flags", cli.Usages(c.LocalFlags(), width))
	section(out, "Flags of every command", cli.Usages(c.InheritedFlags(), width))
}

// usage is how a command is called.
func usage(c *cobra.Command) string {
	if c.HasAvailableSubCommands() {
		return c.CommandPath() + " COMMAND [flags]"
	}
	return c.UseLine()
}

func section(out io.Writer, title, text string) {
	if text != "" {
		_, _ = fmt.Fprintf(out, "\n%s:\n%s\n", title, strings.TrimRight(text, "\n"))
	}
}

func indented(text string) string {
	if text == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

// man prints the manual page of all commands.
func man(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "man", Short: "Print the manual page", Hidden: true, Args: takes(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := mango.NewManPage(1, cmd.Root())
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(s.Stdout, page.Build(&dated{roff.NewDocument()}))
			return err
		},
	}
}

// dated is a manual page with the date of the release instead of today's, so that two builds of a
// release are the same.
type dated struct{ *roff.Document }

// Heading writes the page's first line.
func (d *dated) Heading(section uint, title, description string, _ time.Time) {
	released, _ := time.Parse(time.RFC3339, date) // the year 1 in other builds
	d.Document.Heading(section, title, description, released)
}
