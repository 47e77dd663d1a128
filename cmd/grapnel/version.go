package main

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
)

// Release builds set these with -ldflags "-X main.commit=…". Other builds have what Go stamped.
var commit, date string

func (s *session) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version, its commit and the commit's date",
		RunE: s.withPrinter(func(_ context.Context, p *cli.Printer, _ []string) error {
			stamped := map[string]string{}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, setting := range info.Settings {
					stamped[setting.Key] = setting.Value
				}
			}
			is := struct {
				Version  string   `json:"version"`
				Commit   string   `json:"commit"`
				Date     string   `json:"date"`
				Go       string   `json:"go"`
				Platform string   `json:"platform"`
				Brokers  []string `json:"brokers"` // kinds of targets that this flavour has
			}{grapnel.Version, cmp.Or(commit, stamped["vcs.revision"]), cmp.Or(date, stamped["vcs.time"]),
				runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, brokers.Linked()}
			return p.Print(object(is.Version, cli.Encode(is), [][]string{
				{"grapnel", is.Version}, {"commit", is.Commit}, {"date", is.Date}, {"go", is.Go}, {"platform", is.Platform},
				{"brokers", strings.Join(is.Brokers, ", ")},
			}))
		}),
	}
}
