package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// export writes a whole selection to standard output or a file, as the server sends it, with
// progress on stderr.
func export(s *session, what string, anyStatus bool,
	call func(*client.Client, context.Context, client.DeliveryFilter, string, io.Writer) error,
) *cobra.Command {
	var which cli.Selection
	var format, file string
	c := &cobra.Command{
		Use: "export", Short: "Export " + what + " as JSON Lines or CSV, the newest first",
		Example: map[bool]string{true: "grapnel deliveries export --since 24h --status failed --format csv --file failed.csv",
			false: "grapnel dlq export --endpoint Warehouse --file dead.jsonl"}[anyStatus],
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != client.JSONLines && format != client.CSV {
				return cli.Usagef("--format %s: the formats are jsonl and csv", format)
			}
			r, err := s.reader()
			if err != nil {
				return err
			}
			return s.download(cmd.Context(), file, what, format == client.CSV, func(ctx context.Context, out io.Writer) error {
				return call(r.Client, ctx, which.Filter(), format, out)
			})
		},
	}
	which.Bind(c.Flags(), anyStatus)
	c.Flags().StringVar(&format, "format", client.JSONLines, "form of the file")
	cli.Form(c.Flags(), "jsonl|csv", "format")
	c.Flags().StringVar(&file, "file", "", "write to this new file instead of standard output")
	return c
}

// download writes to a new file, or to standard output if file is empty.
func (s *session) download(ctx context.Context, file, what string, heading bool, call func(context.Context, io.Writer) error) (err error) {
	out := s.Stdout
	if file != "" {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("writing the export: %w", err)
		}
		defer func() {
			if closing := f.Close(); err == nil && closing != nil {
				err = fmt.Errorf("writing the export: %w", closing)
			}
		}()
		out = f
	}
	counted := &counter{to: out, progress: s.Progress(), what: what, heading: heading}
	ctx, cancel := s.limited(ctx)
	defer cancel()
	err = call(ctx, counted)
	counted.progress.Done()
	return err
}

// counter counts the lines that pass through it, without that of the columns' names.
type counter struct {
	to       io.Writer
	progress *cli.Progress
	what     string
	heading  bool // the first line is that of the columns' names, and is still to come
	lines    int
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	if err != nil {
		return n, fmt.Errorf("writing the export: %w", err)
	}
	c.lines += bytes.Count(p, []byte("\n"))
	if c.heading && c.lines > 0 {
		c.heading, c.lines = false, c.lines-1
	}
	c.progress.Say("%d lines of %s", c.lines, c.what)
	return n, nil
}
