package main

import (
	"cmp"
	"context"
	"net"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func (s *session) configCommand() *cobra.Command {
	return group("config", "Show the settings of commands and of grapnel serve, and check them", configShow(s), configValidate(s))
}

func configShow(s *session) *cobra.Command {
	var f serveFlags
	var origin bool
	c := &cobra.Command{
		Use: "show [--origin]", Aliases: []string{"get"},
		Short: "Show the settings that commands, and grapnel serve, have here",
		Long: "Show the server and key of commands here, with their origin, and the settings that grapnel serve would have: it reads the same flags, GRAPNEL_* variables and config file, " +
			"and asks no server. Secrets are hidden. RELOAD says which settings a running server takes over at SIGHUP.",
		Example: "grapnel config show --origin --config /etc/grapnel.yaml",
	}
	f.add(c.Flags())
	cli.Conceal(c.Flags(), "config") // serve has them in its help
	c.Flags().BoolVar(&origin, "origin", false, "say where each value was found: a flag, a variable, a line of the file, or the default")
	c.RunE = s.withPrinter(func(_ context.Context, p *cli.Printer, _ []string) error {
		mine, all := s.clientSettings(), s.Settings(c.Flags(), serverSecrets)
		head := []string{"SETTING", "VALUE", "RELOAD"}
		if origin {
			head = append(head, "ORIGIN")
		}
		doc := cli.Encode(struct {
			Client   []cli.Given `json:"client"`
			Settings []cli.Given `json:"settings"`
		}{mine, all})
		view := list(doc, head, all, func(g *cli.Given) []string {
			row := []string{g.Name, g.Value, map[bool]string{true: "yes", false: "restart"}[g.Reload]}
			if origin {
				row = append(row, g.Origin)
			}
			return row
		})
		view.Parts[0].Title = "grapnel serve"
		here := cli.Part{Title: "Commands that talk to a server", Head: []string{"SETTING", "VALUE", "ORIGIN"}}
		for _, g := range mine {
			here.Rows = append(here.Rows, []string{g.Name, g.Value, g.Origin})
		}
		view.Parts = append([]cli.Part{here}, view.Parts...)
		return p.Print(view)
	})
	return c
}

func configValidate(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE", Short: "Name every fault of a config file",
		Long: "Name every fault of a config file, with its line, and GRAPNEL_* variables that no command reads. " +
			"Exits with 8 when it finds some.",
		Example: "grapnel config validate /etc/grapnel.yaml",
		RunE: s.withPrinter(func(_ context.Context, p *cli.Printer, args []string) error {
			faults := slices.Concat([]cli.Wrong{}, s.faultsOf(args[0]), s.unknownVariables(s.command.Root()))
			doc := cli.Encode(struct {
				Faults []cli.Wrong `json:"faults"`
			}{faults})
			head := []string{"LINE", "SETTING", "FAULT"}
			view := list(doc, head, faults, func(w *cli.Wrong) []string {
				return []string{positive(w.Line), w.Setting, w.Detail}
			})
			if len(faults) == 0 {
				view.Parts = []cli.Part{{Text: args[0] + ": no faults"}}
			}
			return cmp.Or(p.Print(view), cli.Findings("%s found", say.Many(len(faults), "fault", "faults")).If(len(faults) > 0))
		}),
	}
}

// faultsOf are the faults of a config file.
func (s *session) faultsOf(path string) []cli.Wrong {
	return s.CheckFile(path, func() (*pflag.FlagSet, func() error) {
		var f serveFlags
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		f.add(flags)
		return flags, func() error { return f.check(s) }
	})
}

// check returns all faults of settings, joined, and makes nothing.
func (f *serveFlags) check(s *session) error {
	var faults cli.Faults
	_, _, err := net.SplitHostPort(cli.ListenAddress("", f.Listen))
	faults.When(err != nil, "--listen %s: write HOST:PORT, such as 127.0.0.1:8420", f.Listen)
	_, err = f.options(s)
	faults.Add(err)
	return faults.Err()
}
