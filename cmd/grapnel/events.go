package main

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var events = resource[client.Event]{
	path: "/v1/events", id: "EVENT_ID", filters: cli.EventFilters, asks: cli.OfTenant,
	head: []string{"EVENT", "TYPE", "KEY", "TENANT", "ACCEPTED"},
	row: func(r reader, e *client.Event) []string {
		return []string{e.ID, e.Type, e.Key, e.Tenant, r.Time(&e.AcceptedAt)}
	},
	view: func(r reader, e *client.Event) cli.View {
		rows := make([][]string, len(e.Deliveries))
		for i := range e.Deliveries {
			rows[i] = deliveryRow(r, &e.Deliveries[i])
		}
		data := string(e.DataBase64)
		if e.Data != nil {
			data = cli.Compact(e.Data)
		}
		if e.Erased {
			data = "(erased)"
		}
		return object(e.ID, e.JSON(), [][]string{
			{"event", e.ID}, {"type", e.Type}, {"key", e.Key}, {"tenant", e.Tenant}, {"source", withName(e.SourceName, e.Source)},
			{"occurred", r.Time(&e.OccurredAt)}, {"accepted", r.Time(&e.AcceptedAt)}, {"erased", r.Time(e.ErasedAt)},
			{"metadata", cli.Compact(cli.Encode(e.Metadata))}, {"data", data},
		}, cli.Part{Title: "Deliveries", Head: deliveryHead, Rows: rows})
	},
	verbs: []verb{
		{"list", "List events, the newest first", "grapnel events list --type 'invoice.*' --since 6h"},
		{"get", "Show an event, its data and its deliveries", ""},
	},
}

func (s *session) eventsCommand() *cobra.Command {
	return group("events", "Look at events, and send them again", append(events.commands(s), eventsResend(s))...)
}

// eventsResend delivers an event again to the endpoints that it went to.
func eventsResend(s *session) *cobra.Command {
	var endpoint, tenant, reason string
	c := &cobra.Command{
		Use: "resend EVENT_ID", Short: "Deliver an event again, to all endpoints that it went to or to one",
		Long: "Deliver an event again: a finished delivery gets a new one with the same event id and bytes, a pending one is attempted now. " +
			"Of several deliveries to an endpoint it is the newest.",
		Example: "grapnel events resend evt_…\ngrapnel events resend evt_… --endpoint Warehouse --reason 'they lost it'",
		PreRunE: narrows("endpoint"),
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			e, err := r.EventOf(ctx, tenant, args[0])
			if err != nil {
				return err
			}
			newest := map[string]string{} // delivery by endpoint
			for _, d := range e.Deliveries {
				if (endpoint == "" || d.EndpointID == endpoint) && d.ID > newest[d.EndpointID] && d.ReasonCode != grapnel.ReasonTest {
					newest[d.EndpointID] = d.ID
				}
			}
			ids := slices.Sorted(maps.Values(newest))
			if len(ids) == 0 {
				return &cli.Fault{Exit: cli.ExitNotFound, Code: "not_found", Text: args[0] + " has no such deliveries",
					Next: "Who would get it: grapnel send " + e.Type + " --dry-run"}
			}
			if len(ids) > 1 {
				if err := s.Confirm("Deliver %s again to %d endpoints?", args[0], len(ids)); err != nil {
					return err
				}
			}
			again := func(ctx context.Context, r reader, id string) (*client.Delivery, error) {
				return r.Retry(ctx, id, reason)
			}
			return deliveries.each(s, again)(s.command, ids)
		}),
	}
	c.Flags().StringVar(&endpoint, "endpoint", "", "only to this endpoint")
	c.Flags().StringVar(&tenant, "tenant", "", "tenant that owns the event, if several have one with this id")
	reasoned(c, &reason)
	s.confirmed(c)
	return c
}
