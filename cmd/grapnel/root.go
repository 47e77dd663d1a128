package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// runProgram is the whole program; it returns the exit code.
func runProgram(ctx context.Context, w *cli.World) int {
	w.Interrupted = ctx.Done()
	s := &session{World: w, labels: map[string]string{}}
	root := s.rootCommand()
	root.SetArgs(w.Args)
	root.SetIn(w.Stdin)
	root.SetOut(w.Stdout)
	root.SetErr(w.Stderr)
	return w.Report(cli.InFlags(s.command, root.ExecuteContext(ctx)), s.machine())
}

func (s *session) rootCommand() *cobra.Command {
	root := group("grapnel", "Reliable webhooks: every event that is accepted arrives",
		s.serveCommand(), s.devCommand(), s.sendCommand(), s.eventsCommand(), s.deliveriesCommand(), s.feedCommand(),
		s.dlqCommand(), s.replayCommand(), s.whyCommand(), s.issuesCommand(), s.statsCommand(), s.topCommand(), s.tailCommand(),
		s.alertsCommand(), s.sloCommand(), s.statusCommand(), s.incidentsCommand(),
		s.sourcesCommand(), s.inboxCommand(),
		s.channelsCommand(), s.contactsCommand(), s.queuesCommand(), s.listenCommand(), s.outboxCommand(), s.reconcileCommand(), s.endpointsCommand(),
		s.policiesCommand(), s.typesCommand(), s.keysCommand(), s.rotateCommand(), s.auditCommand(), s.tenantsCommand(),
		s.erasuresCommand(), s.clusterCommand(),
		s.triggerCommand(), s.signCommand(), s.verifyCommand(),
		s.configCommand(), s.loginCommand(), s.contextCommand(), s.openCommand(), s.migrateCommand(), s.backupCommand(),
		s.restoreCommand(), s.holdCommand(), s.importCommand(), s.monitoringCommand(),
		s.simulateCommand(), s.tortureCommand(), s.mcpCommand(), s.healthCommand(), s.doctorCommand(), s.versionCommand(), man(s))
	root.SilenceErrors, root.SilenceUsage = true, true // Report says it, once
	root.Version = grapnel.Version
	root.SetHelpFunc(s.help)
	help := s.helpCommand()
	root.AddCommand(help)
	furnish(root)
	root.SetHelpCommand(help)
	root.Long = "Grapnel accepts events and delivers each to every endpoint that matches it, in order, until it has arrived.\n\n" +
		"grapnel dev shows that on your own machine, grapnel serve runs the server, and the other commands talk to one."
	root.Example = "grapnel dev\n" +
		"grapnel send invoice.paid -d '{\"amount\":100}' --key inv_1\n" +
		"grapnel deliveries list --status failed -o json"
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		s.output = s.AskedOutput(s.output) // the flag may stand behind the one that is wrong
		return misused(cmd, "%s", wrongFlag(err))
	})
	flags := root.PersistentFlags()
	flags.StringVar(&s.server, "server", client.DefaultServer, "server to talk to")
	flags.StringVar(&s.context, "context", "", "name of the context whose server and key are used; see grapnel login")
	flags.StringVar(&s.ca, "ca", "", "file with certificates of authorities, by which alone the server's is verified; empty: those of this machine")
	flags.StringVar(&s.key, "key", "", "API key; if not given, that of a server here, in "+cli.KeyFile+" or "+cli.DevKeyFile)
	flags.StringVar(&s.apiKey, "api-key", "", "the same as --key, for commands whose --key is something else")
	flags.StringVarP(&s.output, "output", "o", cli.Table, "form of the output")
	cli.Form(flags, "table|json|jsonl|name", "output")
	flags.StringVar(&s.jq, "jq", "", "print the results of this jq expression on the JSON")
	cli.DurationVar(flags, &s.timeout, "timeout", 30*time.Second, "give up after this time")
	cli.FromVariables(flags, "context", "server", "ca", "output", "timeout")
	root.SetGlobalNormalizationFunc(cli.NamesOfTimes)
	// Settings are complete and checked before a command does anything.
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		s.command = cmd
		if cmd.Flags().Changed("output") && s.output == cli.Names && s.jq != "" {
			return cli.Usagef("-o name: --jq gives the output its own form; leave one of them out")
		}
		if cmd.Flags().Changed("output") || cmd.Flags().Changed("jq") { // also for commands that print nothing
			if _, err := s.NewPrinter(s.output, s.jq); err != nil {
				return err
			}
		}
		if err := s.Settle(cmd.Flags()); err != nil {
			return err
		}
		if err := s.inContext(cmd); err != nil {
			return err
		}
		s.warnOfVariables(cmd)
		if err := cmd.ValidateFlagGroups(); err != nil { // cobra's own check comes later, with another exit code
			return misused(cmd, "%s", wrongGroup(err))
		}
		if s.timeout == 0 {
			return cli.Usagef("--timeout 0s: it must be greater than 0")
		}
		if f := cmd.Flags().Lookup("limit"); f != nil && f.Changed {
			if n, err := cmd.Flags().GetInt("limit"); err == nil && n < 1 {
				return cli.Usagef("--limit %d: it must be at least 1", n)
			}
		}
		return s.resolve(cmd, args)
	}
	if len(s.Args) > 0 && strings.HasPrefix(s.Args[0], cobra.ShellCompRequestCmd) {
		s.completes(root)
	}
	return root
}
