package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var deadLetters = resource[client.Delivery]{
	path: "/v1/deliveries", id: "DELIVERY_ID", head: deadLetterHead, row: deadLetterRow, view: deliveryView,
	verbs: []verb{{"get", "Show a dead letter and its attempts", ""}},
}

func (s *session) dlqCommand() *cobra.Command {
	return group("dlq", "Look at dead letters, replay or discard them", append(deadLetters.commands(s),
		deadLetters.selected(s, false, "List dead letters, the newest first, and how long they are retained",
			"grapnel dlq list --endpoint ep_… --reason-code exhausted\n"+
				"grapnel dlq list --error-class status_4xx -o name | xargs grapnel dlq replay", (*client.Client).DeadLetters),
		dlqReplay(s), dlqDiscard(s), dlqNote.command(s),
		export(s, "dead letters", false, (*client.Client).ExportDeadLetters))...)
}

var deadLetterHead = []string{"DELIVERY", "TYPE", "KEY", "ENDPOINT", "WHY", "TRIES", "LAST", "DIED", "DAYS LEFT", "REPLAYED", "NOTE"}

func deadLetterRow(r reader, d *client.Delivery) []string {
	left := ""
	if d.DaysLeft != nil {
		left = strconv.Itoa(*d.DaysLeft)
	}
	return []string{d.ID, d.Type, d.Key, named(d.EndpointName, d.EndpointID), string(d.ReasonCode),
		strconv.Itoa(d.AttemptsMade), lastOutcome(d), r.Time(d.FinishedAt), left, string(d.ReplayResult), d.Note}
}

// dlqDiscard asks before it discards several.
func dlqDiscard(s *session) *cobra.Command {
	c := deadLetters.levers(s, []lever[client.Delivery]{{"discard", "Discard dead letters; that they failed stays on record",
		"grapnel dlq discard dlv_… --reason 'their customer has left'", (*client.Client).Discard, true}})[0]
	s.confirmed(c)
	discard := c.RunE
	c.RunE = func(cmd *cobra.Command, ids []string) error {
		if len(ids) > 1 && cmd.Flags().Changed("reason") {
			if err := s.Confirm("Discard %d dead letters?", len(ids)); err != nil {
				return err
			}
		}
		return discard(cmd, ids)
	}
	return c
}

var dlqNote = call[client.Delivery]{
	use: "note DELIVERY_ID TEXT", short: "Put a note on a finished delivery; an empty one removes it",
	example: "grapnel dlq note dlv_… 'asked them on Monday'",
	method:  http.MethodPatch, path: "/v1/deliveries/*", argument: "note", view: deliveryView,
}

// dlqReplay replays the given dead letters, or those of an endpoint that flags select.
func dlqReplay(s *session) *cobra.Command {
	var start starting
	var endpoint string
	c := &cobra.Command{
		Use: "replay [DELIVERY_ID…]", Short: "Redeliver dead letters as replays: the given ones, or those of an endpoint",
		Example: "grapnel dlq replay dlv_… dlv_…\ngrapnel dlq replay --endpoint ep_… --type 'invoice.*' --rate 20 --canary --watch",
		RunE: func(cmd *cobra.Command, ids []string) error {
			switch {
			case len(ids) == 0 && endpoint == "":
				return misused(cmd, "%s needs the ids of dead letters, or --endpoint", cmd.CommandPath())
			case len(ids) > 0 && (endpoint != "" || start.chosen(cmd)):
				return cli.Usagef("give either ids of dead letters or flags that select them, not both")
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
			return replayAll(cmd.Context(), r, orders, &start)
		},
	}
	start.flags(s, c)
	c.Flags().StringVar(&endpoint, "endpoint", "", "all dead letters of this endpoint, or those that other flags select")
	return c
}

// ordersFor makes an order for each endpoint that deliveries belong to. If one does not exist or
// did not fail, it refuses all of them: nothing has been done yet.
func ordersFor(ctx context.Context, r reader, ids []string, like client.NewReplay) (orders []order, err error) {
	var failures []error
	for _, id := range ids {
		d, err := r.Delivery(ctx, id)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if d.Status != "failed" {
			failures = append(failures, &cli.Fault{Exit: cli.ExitConflict, Code: "conflict",
				Text: id + " is not a dead letter: its status is " + string(d.Status)})
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
