package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) deliveriesExport() *cobra.Command {
	return s.export("deliveries", true, (*client.Client).ExportDeliveries)
}

func (s *session) dlqExport() *cobra.Command {
	return s.export("dead letters", false, (*client.Client).ExportDeadLetters)
}

// export writes all of a selection to standard output or a file, as the server sends it, and says on stderr how far it is.
func (s *session) export(what string, anyStatus bool, call func(*client.Client, context.Context, client.DeliveryFilter, string, io.Writer) error) *cobra.Command {
	var which choice
	var format, file string
	c := &cobra.Command{
		Use: "export", Short: "Export " + what + " as JSON Lines or CSV, the newest first", Args: takes(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if format != client.JSONLines && format != client.CSV {
				return cli.Usagef("--format %s: the formats are jsonl and csv", format)
			}
			r, err := s.reader()
			if err != nil {
				return err
			}
			out := s.Stdout
			if file != "" {
				f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
				if err != nil {
					return fmt.Errorf("the export cannot be written: %w", err)
				}
				defer func() {
					if closing := f.Close(); err == nil && closing != nil {
						err = fmt.Errorf("the export cannot be written: %w", closing)
					}
				}()
				out = f
			}
			counted := &counter{to: out, progress: s.Progress(), what: what}
			err = call(r.Client, cmd.Context(), which.filter(), format, counted)
			counted.progress.Done()
			return err
		},
	}
	which.flags(c, anyStatus)
	c.Flags().StringVar(&format, "format", client.JSONLines, "jsonl or csv")
	c.Flags().StringVar(&file, "file", "", "write to this new file instead of standard output")
	return c
}

// counter says how many lines have passed through it.
type counter struct {
	to       io.Writer
	progress *cli.Progress
	what     string
	lines    int
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	if err != nil {
		return n, fmt.Errorf("the export cannot be written: %w", err)
	}
	c.lines += bytes.Count(p, []byte("\n"))
	c.progress.Say("%d lines of %s", c.lines, c.what)
	return n, nil
}
