package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// session is one run of the program: its world and the flags that every command has.
type session struct {
	*cli.World
	server              string
	ca                  string
	key                 string
	apiKey              string
	context             string
	contextKey, keyFrom string // the context's key, if the server is its own, and its name
	output              string
	jq                  string
	timeout             time.Duration
	retries             int               // see client.Options
	fills               int               // see call
	command             *cobra.Command    // the running one; nil: none yet
	labels              map[string]string // names of objects that were given by their name, by id
}

func (s *session) machine() bool { return s.output == cli.JSON || s.output == cli.Lines || s.jq != "" }

// noteOnce prints a note about a part of the answer that no later answer has. -o name leaves that
// part out.
func (s *session) noteOnce(what, note string) {
	if s.output == cli.Names && s.jq == "" {
		note = "-o name leaves out the " + what + ", which no later answer has; -o json has it."
	}
	s.Note("%s", note)
}

// reader asks a server and prints its answer.
type reader struct {
	*client.Client
	*cli.Printer
	world   *cli.World
	limited func(context.Context) (context.Context, context.CancelFunc)
}

func (s *session) reader() (reader, error) {
	p, err := s.NewPrinter(s.output, s.jq)
	if err != nil {
		return reader{}, err
	}
	key, err := s.givenKey()
	if err != nil {
		return reader{}, err
	}
	http, err := cli.Trusting(s.ca)
	if err != nil {
		return reader{}, err
	}
	c, err := s.Connect(client.Options{Server: s.server, Key: key, HTTP: http, Timeout: s.timeout, Retries: s.retries})
	return reader{c, p, s.World, s.limited}, err
}

// givenKey is the key of the flags, else of the variable, which is read only here: a command that
// needs no key works without the file that GRAPNEL_KEY_FILE names. Else it is that of the context.
func (s *session) givenKey() (string, error) {
	if key := cmp.Or(s.key, s.apiKey); key != "" {
		return key, nil
	}
	key, err := s.SecretVariable("GRAPNEL_KEY")
	return cmp.Or(key, s.contextKey), err
}

// limited limits work that takes longer than a request, by --timeout only if that is given.
func (s *session) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.command.Flags().Changed("timeout") {
		return context.WithTimeout(ctx, s.timeout)
	}
	return context.WithCancel(ctx)
}

// withReader runs a command that talks to a server.
func (s *session) withReader(run func(ctx context.Context, r reader, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		r, err := s.reader()
		if err != nil {
			return err
		}
		return run(cmd.Context(), r, args)
	}
}

// withPrinter runs a command that prints an answer and needs no server.
func (s *session) withPrinter(run func(ctx context.Context, p *cli.Printer, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		p, err := s.NewPrinter(s.output, s.jq)
		if err != nil {
			return err
		}
		return run(cmd.Context(), p, args)
	}
}

// ask runs a command that makes one call and prints its answer.
func (s *session) ask(call func(ctx context.Context, r reader, args []string) (cli.View, error)) func(*cobra.Command, []string) error {
	return s.withReader(func(ctx context.Context, r reader, args []string) error {
		view, err := everyPage(s.command.Flags(), s.fills, func() (cli.View, error) { return call(ctx, r, args) })
		if err != nil {
			return err
		}
		return r.Print(view)
	})
}

// viewOf makes the view of a call's answer.
func viewOf[T any](r reader, view func(reader, *T) cli.View) func(*T, error) (cli.View, error) {
	return func(one *T, err error) (cli.View, error) {
		if err != nil {
			return cli.View{}, err
		}
		return view(r, one), nil
	}
}

// paged makes the view of one page of a list.
func paged[T answer](head []string, row func(reader, *T) []string) func(reader, *client.Page[T]) cli.View {
	return func(r reader, p *client.Page[T]) cli.View {
		v := list(p.JSON(), head, p.Data, func(one *T) []string { return row(r, one) })
		if p.Next != "" {
			v.Next, v.More = p.Next, "for the next page: --cursor "+p.Next+"; for all: --all"
		}
		return v
	}
}

// askEach runs a command that does the same to each id among its arguments. It continues after a
// failure, so that a deleted id does not stop the others; the exit code then says that only a part
// was done.
func (s *session) askEach(head []string,
	call func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error),
) func(*cobra.Command, []string) error {
	return s.withReader(func(ctx context.Context, r reader, ids []string) error {
		var view cli.View
		var rows [][]string
		var failures []error
		var stopped error // by a signal
		for _, id := range ids {
			answer, row, err := call(ctx, r, id)
			if err != nil && ctx.Err() != nil {
				stopped = err
				break
			}
			if err != nil {
				failures = append(failures, err)
				if len(ids) > 1 {
					s.Note("%s: %v", id, err)
				}
				continue
			}
			view.Items = append(view.Items, cli.Item{Name: nameIn(head, row), JSON: answer})
			rows = append(rows, row)
		}
		if len(view.Items) == 0 {
			return cmp.Or(stopped, errors.Join(failures...))
		}
		view.Parts = []cli.Part{{Head: head, Rows: rows}}
		view.JSON = view.Items[0].JSON
		if len(ids) > 1 {
			view.JSON = listDocument(view.Items)
		}
		return cmp.Or(r.Print(view), stopped, cli.Partial("%d of %d failed", len(failures), len(ids)).If(len(failures) > 0))
	})
}

// serverSecrets are the variables of a server that have no flag: every user of the machine sees
// flags.
var serverSecrets = []string{"GRAPNEL_ADMIN_KEY", "GRAPNEL_SESSION_KEY", "GRAPNEL_OIDC_CLIENT_SECRET"}

// tokenVariable has the token of the system that import reads.
const tokenVariable = "GRAPNEL_IMPORT_TOKEN"

// secretVariables are all variables with secrets that have no flag.
func secretVariables() []string {
	return append([]string{"GRAPNEL_KEY", "GRAPNEL_SECRET", "GRAPNEL_OUTBOX_DSN", "GRAPNEL_TORTURE_SECRET", "GRAPNEL_TORTURE_DSN", "GRAPNEL_MCP_KEY", tokenVariable}, serverSecrets...)
}

// ofHandlers are the variables that queues consume gives a handler, which may call commands.
var ofHandlers = strings.Fields("EVENT_ID EVENT_TYPE EVENT_KEY DELIVERY_ID ATTEMPT FIRST_SEEN_AT CONTENT_TYPE QUEUE LEASE")

// warnOfVariables says which variables look like a setting's and are none. Commands that check the
// settings say it themselves.
func (s *session) warnOfVariables(cmd *cobra.Command) {
	if cmd.Name() == "serve" || cmd.Name() == "doctor" || cmd.Name() == "validate" {
		return
	}
	for _, wrong := range s.unknownVariables(cmd.Root()) {
		if slices.Contains(ofHandlers, strings.TrimPrefix(wrong.Where, "GRAPNEL_")) {
			continue
		}
		s.Note("%s: %s", wrong.Where, wrong.Detail)
	}
}

func (s *session) unknownVariables(root *cobra.Command) []cli.Wrong {
	return s.UnknownVariables(cli.Variables(root, secretVariables()))
}
