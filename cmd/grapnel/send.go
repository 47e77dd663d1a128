package main

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func (s *session) sendCommand() *cobra.Command {
	var in client.NewEvent
	var data, contentType string
	var occurred cli.Moment
	var at cli.Ahead
	var dry bool
	c := &cobra.Command{
		Use: "send TYPE", Short: "Publish an event",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return cli.Usagef("grapnel send takes the type alone").
					Advise("The data follow -d: grapnel send " + args[0] + " -d '" + args[1] + "'")
			}
			return takes(asUsed)(cmd, args)
		},
		Long: "Publish an event. The command succeeds once the event and all its deliveries are durable.\n\n" +
			"Here --key is the event's ordering key; the API key comes from GRAPNEL_KEY or --api-key. A --key in the form of an API key " +
			"is used as one: it never becomes part of an event.",
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if cli.IsKey(in.Key) {
				in.Key, s.key = "", in.Key
			}
			if cmd.Flags().Changed("id") && in.ID == "" { // as from an unset variable: each repetition would be a new event
				return cli.Usagef("--id must not be empty: leave it out for a new one")
			}
			return nil
		},
		Example: "grapnel send invoice.paid -d '{\"amount\":100}' --key inv_1\n" +
			"grapnel send invoice.paid -d @invoice.json --id inv_1-paid\n" +
			"grapnel send invoice.paid -d @invoice.json --dry-run\n" +
			"grapnel send trial.ends -d '{}' --key acme --at 14d\n" +
			"generate | grapnel send report.ready --content-type text/csv",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			none := []byte("{}")
			if contentType != "" {
				none = nil
			}
			body, err := givenData(s.World, data, none)
			if err != nil {
				return cli.View{}, err
			}
			in.Type, in.Data, in.OccurredAt, in.DeliverAt = args[0], body, occurred.Pointer(), at.Pointer()
			if dry {
				return dryRun(ctx, r, in)
			}
			var p *client.Published
			if contentType != "" {
				p, err = r.PublishRaw(ctx, client.RawEvent{
					Type: in.Type, Key: in.Key, ID: in.ID, Tenant: in.Tenant, Data: body, ContentType: contentType, OccurredAt: occurred.Time, DeliverAt: at.Time,
				})
			} else if !json.Valid(body) {
				return cli.View{}, &cli.Fault{Exit: cli.ExitUsage, Code: "malformed", Text: "-d: the data is not JSON",
					Next: "Quote it for your shell, or give its type with --content-type."}
			} else {
				p, err = r.Publish(ctx, in)
			}
			if err != nil {
				return cli.View{}, err
			}
			return single(p.ID, p.JSON(), cli.Part{Head: []string{"EVENT", "DELIVERIES", "DUPLICATE"},
				Rows: [][]string{{p.ID, strconv.Itoa(p.Deliveries), strconv.FormatBool(p.Duplicate)}}}), nil
		}),
	}
	f := c.Flags()
	f.StringVarP(&data, "data", "d", "", "the event's data; if not given, standard input when it is piped, else {}; with --content-type nothing")
	cli.Form(f, "JSON|@FILE|-", "data")
	f.StringVar(&in.Key, "key", "", "ordering key: events of one key arrive in order")
	f.StringVar(&in.ID, "id", "", "id of the event; publishing the same id again changes nothing")
	f.StringVar(&in.Tenant, "tenant", "", "tenant that owns the event")
	f.StringToStringVar(&in.Metadata, "metadata", nil, "stored with the event; may be repeated")
	f.Var(&occurred, "occurred-at", "when it happened; now if not given")
	f.Var(&at, "at", "when its deliveries begin; later events of its key wait behind it")
	cli.Sets(f, "at", "deliver_at")
	f.StringVar(&contentType, "content-type", "", "publish the data as bytes of this type instead of as JSON")
	f.BoolVar(&dry, "dry-run", false, "list the endpoints that would get the event, and why; publish nothing")
	c.MarkFlagsMutuallyExclusive("dry-run", "content-type")
	c.MarkFlagsMutuallyExclusive("metadata", "content-type") // the API takes none with raw data
	return c
}

// dryRun lists who would get an event.
func dryRun(ctx context.Context, r reader, in client.NewEvent) (cli.View, error) {
	p, err := r.Preview(ctx, in, "")
	if err != nil {
		return cli.View{}, err
	}
	part := cli.Part{Head: []string{"NAME", "ENDPOINT", "GETS IT", "WHY"}}
	view := cli.View{JSON: p.JSON()}
	for _, e := range p.Endpoints {
		part.Rows = append(part.Rows, []string{e.Name, e.ID, yesNo(e.Wanted), e.Reason})
		if e.Wanted {
			view.Items = append(view.Items, cli.Item{Name: e.ID, JSON: cli.Encode(e)})
		}
	}
	view.Parts = []cli.Part{part}
	return view, nil
}

// givenData is the data of an event: the flag's or, without one, the standard input, or none.
func givenData(w *cli.World, flag string, none []byte) ([]byte, error) {
	if flag != "" {
		return w.Content("-d", flag)
	}
	if w.Piped() {
		if text, err := w.Content("-d", "-"); err != nil || len(text) > 0 {
			return text, err
		}
	}
	return none, nil
}
