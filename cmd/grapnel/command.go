package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// group is a command that only has commands below it.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, SuggestionsMinimumDistance: 2,
		// Without this, an unknown command below a group would be answered with help and success.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return wrongWord(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, sub := range commands {
		if sub.Name() == "get" {
			sub.Aliases = append(sub.Aliases, "show") // for those who expect that word
		}
	}
	c.AddCommand(commands...)
	return c
}

// paging adds the flags that every list has.
func paging(cmd *cobra.Command, limit *int, cursor *string) *cobra.Command {
	cmd.Flags().IntVar(limit, "limit", 50, "at most this many, up to 500")
	cmd.Flags().StringVar(cursor, "cursor", "", "continue after the page that printed this cursor")
	cmd.Flags().Bool("all", false, "all pages; at most --limit rows, or 10000 if that is not given")
	return cmd
}

// needs makes flags required; "a|b" requires one of the two. One that is left out, or empty, is a
// usage error that names it.
func needs(cmd *cobra.Command, flags ...string) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := func(name string) bool { // an empty one is that of a variable that is not set, perhaps
			flag := cmd.Flags().Lookup(name)
			return flag != nil && flag.Changed && flag.Value.String() != ""
		}
		for _, names := range flags {
			if !slices.ContainsFunc(strings.Split(names, "|"), given) {
				return misused(cmd, "%s needs --%s", cmd.CommandPath(), strings.ReplaceAll(names, "|", " or --"))
			}
		}
		return run(cmd, args)
	}
	return cmd
}

// reasoned adds the flag that says why.
func reasoned(c *cobra.Command, reason *string) {
	c.Flags().StringVar(reason, "reason", "", "why, for the audit")
}

// confirmed adds the flag that answers before it is asked.
func (s *session) confirmed(c *cobra.Command) {
	c.Flags().BoolVar(&s.Yes, "yes", false, "do not ask")
}

// misused is a usage error that leads to the command's help.
func misused(cmd *cobra.Command, format string, args ...any) error {
	return cli.Usagef(format, args...).Advise("See: " + cmd.CommandPath() + " --help")
}

// argumentWords are the words of a usage that stand for arguments, such as "[ENDPOINT…]".
func argumentWords(use string) []string {
	return slices.DeleteFunc(strings.Fields(use)[1:], func(word string) bool { return strings.Contains(word, "--") })
}

// asUsed refuses a number of arguments that differs from that of the usage.
func asUsed(cmd *cobra.Command, args []string) error {
	words := argumentWords(cmd.Use)
	least, endless := 0, false
	for _, word := range words {
		if !strings.HasPrefix(word, "[") {
			least++
		}
		endless = endless || strings.Contains(word, "…")
	}
	switch {
	case len(words) == 0:
		return cobra.NoArgs(cmd, args)
	case endless:
		return cobra.MinimumNArgs(least)(cmd, args)
	case least == 0:
		return cobra.MaximumNArgs(len(words))(cmd, args)
	case least == len(words):
		return cobra.ExactArgs(least)(cmd, args)
	}
	return cobra.RangeArgs(least, len(words))(cmd, args)
}

// takes turns cobra's complaint about the number of arguments into a usage error. It refuses an
// empty argument, as from an unset variable, too, except an empty TEXT: requests would go to the
// path of a list.
func takes(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		for i, words := 0, argumentWords(cmd.Use); err == nil && i < len(args) && len(words) > 0; i++ {
			word := strings.Trim(words[min(i, len(words)-1)], "[…]")
			if word != "TEXT" && strings.TrimSpace(args[i]) == "" {
				err = errors.New(word + " must not be empty")
			}
		}
		if err != nil {
			return cli.Usagef("%s: %v", cmd.CommandPath(), err).Advise("Usage: " + cmd.UseLine())
		}
		return nil
	}
}
