package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/tell/monitoring"
)

func (s *session) monitoringCommand() *cobra.Command {
	var dir string
	export := &cobra.Command{
		Use: "export", Short: "Write rules for Prometheus and a dashboard for Grafana",
		Long: "Writes grapnel.rules.yaml (promises of 28 days with alerts on their budgets, and signs of trouble) and grapnel.dashboard.json. " +
			"It talks to no server.",
		Example: "grapnel monitoring export --dir /etc/prometheus/grapnel",
		RunE: func(*cobra.Command, []string) error {
			if err := os.MkdirAll(dir, 0o755); err != nil { // another program reads it
				return fmt.Errorf("--dir: %w", err)
			}
			for name, write := range map[string]func() ([]byte, error){
				"grapnel.rules.yaml": monitoring.Rules, "grapnel.dashboard.json": monitoring.Dashboard,
			} {
				text, err := write()
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, name), text, 0o644) //nolint:gosec // another program reads it
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	export.Flags().StringVar(&dir, "dir", ".", "directory to write to")
	return group("monitoring", "Files for programs that watch Grapnel", export)
}
