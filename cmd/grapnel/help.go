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
	section(out, "Flags", cli.Usages(c.LocalNonPersistentFlags(), width))
	_, _ = fmt.Fprintf(out, "\nFlags of every command: grapnel help flags\n")
}

// topic is a page of help that belongs to no command.
type topic struct{ name, short, text string }

var topics = []topic{
	{"flags", "flags of every command", ""},
	{"names", "objects by name", "Where a usage says ENDPOINT, SOURCE, QUEUE, CHANNEL, POLICY, KEY, TYPE or TENANT, a name will do as well as an id, " +
		"and so it will for --endpoint, --source, --queue and --policy. An endpoint's and a channel's name is its description, else its URL; " +
		"a part of a name will do if nothing else has it, except to delete. A name that several have is refused, with their ids.\n\n" +
		"Shells complete names, ids and values: grapnel completion --help"},
	{"output", "forms of output", "-o table   for people; a narrow terminal hides ids and dates first, and says which\n" +
		"-o json    the server's answer\n-o jsonl   one object per line\n-o name    ids only, one per line, for xargs\n" +
		"--jq EXPR  results of a jq expression on the JSON, texts without quotes\n\n" +
		"Lists are pages of 50; --limit N up to 500, --cursor the next one, --all all of them."},
	{"exit-codes", "exit codes", "0 done\n1 failure of another kind\n2 invalid usage\n3 not found\n4 no key, or one that may not do this\n" +
		"5 conflict with the present state\n6 the server cannot be reached, or cannot answer now\n7 a limit is reached\n" +
		"8 a check found problems\n9 partly done, or the receiver did not take it\n124 --timeout has passed\n130 interrupted"},
}

// helpCommand explains commands and topics.
func (s *session) helpCommand() *cobra.Command {
	names := make([]string, len(topics))
	var list strings.Builder
	for i, t := range topics {
		names[i] = t.name
		fmt.Fprintf(&list, "  %-12s%s\n", t.name, t.short)
	}
	return &cobra.Command{
		Use: "help [COMMAND…|TOPIC]", Short: "Explain a command, or a topic: " + strings.Join(names, ", "),
		Example: "grapnel help endpoints create\ngrapnel help flags",
		RunE: func(cmd *cobra.Command, args []string) error {
			out, root := cmd.OutOrStdout(), cmd.Root()
			for _, t := range topics {
				if len(args) == 1 && args[0] == t.name {
					_, _ = fmt.Fprintln(out, cli.Wrap(cmp.Or(t.text, cli.Usages(root.PersistentFlags(), s.Columns(out))), s.Columns(out)))
					return nil
				}
			}
			if len(args) == 1 && args[0] == "topics" {
				_, _ = fmt.Fprint(out, list.String())
				return nil
			}
			found, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return wrongWord(cmp.Or(found, root), rest[0])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// furnish has the commands below one check their arguments by their usage, and makes an example of
// it for those that have none.
func furnish(c *cobra.Command) {
	for _, sub := range c.Commands() {
		furnish(sub)
	}
	if c.Args == nil {
		c.Args = takes(asUsed)
	}
	if c.HasSubCommands() || c.Example != "" {
		return
	}
	c.Example = c.CommandPath()
	for _, word := range strings.Fields(c.Use)[1:] {
		if t, is := thingOf(word); is {
			c.Example += " " + t.sample
		}
	}
	if c.Name() == "list" && c.Flags().Lookup("all") != nil {
		c.Example += " --all"
	}
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
		Use: "man", Short: "Print the manual page", Hidden: true,
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
