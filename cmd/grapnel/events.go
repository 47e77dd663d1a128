package main

import (
	"github.com/spf13/cobra"

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
			{"event", e.ID}, {"type", e.Type}, {"key", e.Key}, {"tenant", e.Tenant}, {"source", e.Source},
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
	return group("events", "Look at events", events.commands(s)...)
}
