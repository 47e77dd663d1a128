package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) dlq() *cobra.Command {
	return group("dlq", "Look at dead letters, replay or discard them",
		s.dlqList(), s.dlqShow(), s.dlqReplay(), s.dlqDiscard(), s.dlqNote(), s.dlqExport())
}

func (s *session) dlqList() *cobra.Command {
	var which choice
	c := paging(&cobra.Command{
		Use: "list", Short: "List dead letters, the newest first, and how long they are still kept",
		Example: "grapnel dlq list --endpoint ep_… --reason-code exhausted\ngrapnel dlq list --error-class status_4xx -o name | xargs grapnel dlq replay",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			p, err := r.DeadLetters(ctx, which.filter())
			if err != nil {
				return cli.View{}, err
			}
			return page(p, deadLetterHead, func(d client.Delivery) []string { return deadLetterRow(r, &d) }), nil
		}),
	}, &which.Limit, &which.Cursor)
	which.flags(c, false)
	return c
}

var deadLetterHead = []string{"DELIVERY", "TYPE", "KEY", "ENDPOINT", "WHY", "TRIES", "LAST", "DIED", "DAYS LEFT", "REPLAYED", "NOTE"}

func deadLetterRow(r reader, d *client.Delivery) []string {
	left := ""
	if d.DaysLeft != nil {
		left = strconv.Itoa(*d.DaysLeft)
	}
	return []string{d.ID, d.Type, d.Key, d.EndpointID, string(d.ReasonCode), strconv.Itoa(d.AttemptsMade), last(d), r.Time(d.FinishedAt), left,
		string(d.ReplayResult), d.Note}
}

func (s *session) dlqShow() *cobra.Command {
	c := s.deliveriesShow()
	c.Short = "Show a dead letter and its attempts"
	return c
}

func (s *session) dlqDiscard() *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use: "discard DELIVERY_ID…", Short: "Put dead letters away; that they failed stays on record", Args: takes(cobra.MinimumNArgs(1)),
		Example: "grapnel dlq discard dlv_… --reason 'their customer is gone'",
	}
	discard := s.askEach(deadLetterHead, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
		d, err := r.Discard(ctx, id, reason)
		if err != nil {
			return nil, nil, err
		}
		return d.JSON(), deadLetterRow(r, d), nil
	})
	c.RunE = func(cmd *cobra.Command, ids []string) error {
		if len(ids) > 1 {
			if err := s.Confirm(yes, "Discard %d dead letters?", len(ids)); err != nil {
				return err
			}
		}
		return discard(cmd, ids)
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for whoever reads the history")
	confirmed(c, &yes)
	return needs(c, "reason")
}

// confirmed adds the flag that answers before it is asked.
func confirmed(c *cobra.Command, yes *bool) {
	c.Flags().BoolVar(yes, "yes", false, "do not ask")
}

// deletes makes a command ask before it deletes what its arguments name.
func (s *session) deletes(what string, c *cobra.Command) *cobra.Command {
	var yes bool
	confirmed(c, &yes)
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, ids []string) error {
		if err := s.ConfirmAtTerminal(yes, "Delete %s %s?", what, strings.Join(ids, ", ")); err != nil {
			return err
		}
		return run(cmd, ids)
	}
	return c
}

func (s *session) dlqNote() *cobra.Command {
	return &cobra.Command{
		Use: "note DELIVERY_ID TEXT", Short: "Put a note on a delivery that is over; an empty one takes it away", Args: takes(cobra.ExactArgs(2)),
		Example: "grapnel dlq note dlv_… 'asked them on Monday'",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			d, err := r.Note(ctx, args[0], args[1])
			if err != nil {
				return cli.View{}, err
			}
			return deliveryView(r, d), nil
		}),
	}
}

// dlqReplay replays dead letters that are named, or those of an endpoint that flags choose.
func (s *session) dlqReplay() *cobra.Command {
	var start starting
	var endpoint string
	c := &cobra.Command{
		Use: "replay [DELIVERY_ID…]", Short: "Deliver dead letters again, as replays: those named, or all of an endpoint",
		Example: "grapnel dlq replay dlv_… dlv_…\ngrapnel dlq replay --endpoint ep_… --type 'invoice.*' --rate 20 --canary --watch",
		RunE: func(cmd *cobra.Command, ids []string) error {
			switch {
			case len(ids) == 0 && endpoint == "":
				return &cli.Fault{Exit: cli.ExitUsage, Code: "usage", Text: cmd.CommandPath() + " needs the ids of dead letters, or --endpoint", Next: "See: " + cmd.CommandPath() + " --help"}
			case len(ids) > 0 && (endpoint != "" || start.chosen(cmd)):
				return cli.Usagef("give either the ids of dead letters or what chooses them, not both")
			}
			r, err := s.reader()
			if err != nil {
				return err
			}
			orders := []order{{endpoint: endpoint, NewReplay: start.request()}}
			if len(ids) > 0 {
				if orders, err = ordersFor(cmd.Context(), r, ids, start.request()); err != nil {
					return err
				}
			}
			return s.replayAll(cmd.Context(), r, orders, &start)
		},
	}
	start.flags(c)
	c.Flags().StringVar(&endpoint, "endpoint", "", "all of this endpoint, or what other flags choose of them")
	return c
}

// ordersFor makes an order for each endpoint that deliveries belong to. One that is not there or did not fail spoils all: nothing has been done yet.
func ordersFor(ctx context.Context, r reader, ids []string, like client.NewReplay) (orders []order, err error) {
	var failures []error
	for _, id := range ids {
		d, err := r.Delivery(ctx, id)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if d.Status != "failed" {
			failures = append(failures, &cli.Fault{Exit: cli.ExitConflict, Code: "conflict", Text: id + " is no dead letter: it is " + string(d.Status)})
			continue
		}
		at := slices.IndexFunc(orders, func(o order) bool { return o.endpoint == d.EndpointID })
		if at < 0 {
			at = len(orders)
			orders = append(orders, order{endpoint: d.EndpointID, NewReplay: like})
			orders[at].Status = nil
		}
		orders[at].Deliveries = append(orders[at].Deliveries, id)
	}
	return orders, errors.Join(failures...)
}
