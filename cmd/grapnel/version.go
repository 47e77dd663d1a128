package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func (s *session) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: takes(cobra.NoArgs),
		RunE: s.withPrinter(func(_ context.Context, p *cli.Printer, _ []string) error {
			commit := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, setting := range info.Settings {
					if setting.Key == "vcs.revision" {
						commit = setting.Value
					}
				}
			}
			doc := cli.Encode(struct {
				Version  string `json:"version"`
				Commit   string `json:"commit"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{grapnel.Version, commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
			return p.Print(object(grapnel.Version, doc, [][]string{
				{"grapnel", grapnel.Version}, {"commit", commit}, {"go", runtime.Version()},
			}))
		}),
	}
}
