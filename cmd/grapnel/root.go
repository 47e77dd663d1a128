package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

// run is the whole program; it returns the exit code.
func run(ctx context.Context, w *cli.World) int {
	s := &session{World: w}
	root := s.root()
	root.SetArgs(w.Args)
	root.SetIn(w.Stdin)
	root.SetOut(w.Stdout)
	root.SetErr(w.Stderr)
	return w.Report(s.inFlags(root.ExecuteContext(ctx)), s.machine())
}

func (s *session) root() *cobra.Command {
	root := group("grapnel", "Reliable webhooks: every event that is accepted arrives",
		s.serve(), s.dev(), s.send(), s.events(), s.deliveries(), s.dlq(), s.replay(), s.stats(), s.tail(), s.sources(), s.inbox(), s.queues(), s.listen(), s.outbox(), s.reconcile(), s.endpoints(), s.policies(), s.keys(), s.audit(), s.tenants(), s.cluster(), s.migrate(), s.simulate(), s.version(), s.man())
	root.SilenceErrors, root.SilenceUsage = true, true // Report says it, once
	root.Version = grapnel.Version
	root.SetHelpFunc(s.help)
	root.Long = "Grapnel takes events and delivers each to every endpoint that wants it, in order, until it has arrived.\n\n" +
		"grapnel dev shows how on your own machine, grapnel serve is the server, and the other commands talk to one."
	root.Example = "grapnel dev\n" +
		"grapnel send invoice.paid -d '{\"amount\":100}' --key inv_1\n" +
		"grapnel deliveries list --status failed -o json"
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		s.output = s.AskedOutput(s.output) // the flag may stand behind the one that is wrong
		return &cli.Fault{Exit: cli.ExitUsage, Code: "usage", Text: err.Error(), Next: "See: " + cmd.CommandPath() + " --help"}
	})
	flags := root.PersistentFlags()
	flags.StringVar(&s.server, "server", client.DefaultServer, "server to talk to")
	flags.StringVar(&s.key, "key", "", "API key; else the one that a server here has left in "+cli.KeyFile+" or "+cli.DevKeyFile)
	flags.StringVar(&s.apiKey, "api-key", "", "the same as --key, for commands where that is something else")
	flags.StringVar(&s.cell, "cell", "", "the cell of the server that is to answer; else the one that has what is asked for, and home for lists")
	flags.StringVarP(&s.output, "output", "o", cli.Table, "table, json, jsonl or name")
	flags.StringVar(&s.jq, "jq", "", "print what this jq expression makes of the JSON")
	cli.DurationVar(flags, &s.timeout, "timeout", 30*time.Second, "give up after this time")
	cli.FromVariables(flags, "server", "output", "timeout")
	// Settings are complete, and known to be right, before any command does anything.
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		s.command = cmd
		if err := s.Settle(cmd.Flags()); err != nil {
			return err
		}
		if f := cmd.Flags().Lookup("limit"); f != nil && f.Changed {
			if n, err := cmd.Flags().GetInt("limit"); err == nil && n < 1 {
				return cli.Usagef("--limit %d: it must be at least 1", n)
			}
		}
		return nil
	}
	return root
}

// group is a command that only has commands below it.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, SuggestionsMinimumDistance: 2,
		// Without this, an unknown command below a group would be answered with help and success.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			f := cli.Usagef("%q is not a command of %s", args[0], cmd.CommandPath())
			f.Next = "See: " + cmd.CommandPath() + " --help"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				f.Next = "Did you mean " + near[0] + "?"
			}
			return f
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(commands...)
	return c
}

// takes turns cobra's complaint about the number of arguments into a usage error.
func takes(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &cli.Fault{Exit: cli.ExitUsage, Code: "usage", Text: cmd.CommandPath() + ": " + err.Error(), Next: "Usage: " + cmd.UseLine()}
		}
		return nil
	}
}
