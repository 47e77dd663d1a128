package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

// session is one call of the binary: its world and the flags that every command has.
type session struct {
	*cli.World
	server  string
	key     string
	apiKey  string
	cell    string
	output  string
	jq      string
	timeout time.Duration
	command *cobra.Command // that runs; nil: none yet
}

func (s *session) machine() bool { return s.output == cli.JSON || s.output == cli.Lines || s.jq != "" }

// reader is what a command asks a server with, and what it prints the answer with.
type reader struct {
	*client.Client
	*cli.Printer
}

func (s *session) reader() (reader, error) {
	p, err := s.NewPrinter(s.output, s.jq)
	if err != nil {
		return reader{}, err
	}
	key := cmp.Or(s.key, s.apiKey)
	if key == "" {
		// Only here: a command that needs no key does not care whether the one in the environment is there.
		if key, err = s.SecretVariable("GRAPNEL_KEY"); err != nil {
			return reader{}, err
		}
	}
	c, err := s.Connect(client.Options{Server: s.server, Key: key, Cell: s.cell, Timeout: s.timeout})
	return reader{c, p}, err
}

// ask runs a command that makes one call and prints its answer.
func (s *session) ask(call func(ctx context.Context, r reader, args []string) (cli.View, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		r, err := s.reader()
		if err != nil {
			return err
		}
		view, err := call(cmd.Context(), r, args)
		if err != nil {
			return err
		}
		return r.Print(view)
	}
}

// askEach runs a command that does the same to every id among its arguments. It goes on after a failure, so that one id that
// is gone does not keep the others from what was asked; the exit code then says that only a part was done.
func (s *session) askEach(head []string, call func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, ids []string) error {
		r, err := s.reader()
		if err != nil {
			return err
		}
		var view cli.View
		var rows [][]string
		var failures []error
		for _, id := range ids {
			answer, row, err := call(cmd.Context(), r, id)
			if err != nil {
				failures = append(failures, err)
				if len(ids) > 1 {
					s.Note("%s: %v", id, err)
				}
				continue
			}
			view.Items = append(view.Items, cli.Item{Name: row[0], JSON: answer})
			rows = append(rows, row)
		}
		if len(view.Items) == 0 {
			return errors.Join(failures...)
		}
		view.Parts = []cli.Part{{Head: head, Rows: rows}}
		view.JSON = view.Items[0].JSON
		if len(ids) > 1 {
			view.JSON = list(view.Items)
		}
		if err := r.Print(view); err != nil || len(failures) == 0 {
			return err
		}
		return cli.Partial("%d of %d failed", len(failures), len(ids))
	}
}

func list(items []cli.Item) json.RawMessage {
	data := make([]json.RawMessage, len(items))
	for i, item := range items {
		data[i] = item.JSON
	}
	return cli.Encode(map[string]any{"data": data})
}

// object is the view of one object: a form of names and values for people, parts after it. What has no value is left out.
func object(name string, doc json.RawMessage, form [][]string, more ...cli.Part) cli.View {
	form = slices.DeleteFunc(form, func(row []string) bool { return row[1] == "" })
	return cli.View{JSON: doc, Items: []cli.Item{{Name: name, JSON: doc}}, Parts: append([]cli.Part{{Rows: form}}, more...)}
}

// page is the view of one page of a list; the first cell of a row is its name.
func page[T interface{ JSON() json.RawMessage }](p *client.Page[T], head []string, row func(T) []string) cli.View {
	v := cli.View{JSON: p.JSON()}
	rows := make([][]string, len(p.Data))
	for i, object := range p.Data {
		rows[i] = row(object)
		v.Items = append(v.Items, cli.Item{Name: rows[i][0], JSON: object.JSON()})
	}
	v.Parts = []cli.Part{{Head: head, Rows: rows}}
	if p.Next != "" {
		v.More = "there is more: --cursor " + p.Next
	}
	return v
}

// paging adds the flags that every list has.
func paging(cmd *cobra.Command, limit *int, cursor *string) *cobra.Command {
	cmd.Args = takes(cobra.NoArgs)
	cmd.Flags().IntVar(limit, "limit", 50, "at most this many, up to 500")
	cmd.Flags().StringVar(cursor, "cursor", "", "go on where the last page ended")
	return cmd
}

// needs makes flags required; leaving one out is a usage error that names it.
func needs(cmd *cobra.Command, flags ...string) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, name := range flags {
			if !cmd.Flags().Changed(name) {
				return &cli.Fault{Exit: cli.ExitUsage, Code: "usage", Text: cmd.CommandPath() + " needs --" + name, Next: "See: " + cmd.CommandPath() + " --help"}
			}
		}
		return run(cmd, args)
	}
	return cmd
}
