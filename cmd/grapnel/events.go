package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) events() *cobra.Command {
	return group("events", "Look at events", s.eventsList(), s.eventsShow())
}

func (s *session) eventsList() *cobra.Command {
	var f client.EventFilter
	var from, to moment
	c := paging(&cobra.Command{
		Use: "list", Short: "List events, the newest first",
		Example: "grapnel events list --type 'invoice.*' --from 6h",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			f.From, f.To = from.Time, to.Time
			p, err := r.Events(ctx, f)
			if err != nil {
				return cli.View{}, err
			}
			return page(p, []string{"EVENT", "TYPE", "KEY", "TENANT", "ACCEPTED"}, func(e client.Event) []string {
				return []string{e.ID, e.Type, e.Key, e.Tenant, r.Time(&e.AcceptedAt)}
			}), nil
		}),
	}, &f.Limit, &f.Cursor)
	selecting(c, &f.Type, &f.Key, &f.Tenant, &from, &to)
	c.Flags().StringVar(&f.Source, "source", "", "only what came in through this source")
	return c
}

func (s *session) eventsShow() *cobra.Command {
	var tenant string
	c := &cobra.Command{
		Use: "show EVENT_ID", Short: "Show an event, its data and its deliveries", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			e, err := r.EventOf(ctx, tenant, args[0])
			if err != nil {
				return cli.View{}, err
			}
			rows := make([][]string, len(e.Deliveries))
			for i := range e.Deliveries {
				rows[i] = deliveryRow(r, &e.Deliveries[i])
			}
			return object(e.ID, e.JSON(), [][]string{
				{"event", e.ID}, {"type", e.Type}, {"key", e.Key}, {"tenant", e.Tenant}, {"source", e.Source},
				{"occurred", r.Time(&e.OccurredAt)}, {"accepted", r.Time(&e.AcceptedAt)},
				{"metadata", compact(cli.Encode(e.Metadata))}, {"data", dataOf(e)},
			}, cli.Part{Title: "Deliveries", Head: deliveryHead, Rows: rows}), nil
		}),
	}
	c.Flags().StringVar(&tenant, "tenant", "", "whose event it is, if several tenants have one with this id")
	return c
}

func dataOf(e *client.Event) string {
	if e.Data == nil {
		return string(e.DataBase64)
	}
	return compact(e.Data)
}

// compact is a document on one line; one without content is not worth a place.
func compact(doc json.RawMessage) string {
	switch text := strings.Join(strings.Fields(string(doc)), " "); text {
	case "null", "{}":
		return ""
	default:
		return text
	}
}

// selecting adds the flags that choose events and deliveries.
func selecting(c *cobra.Command, eventType, key, tenant *string, from, to *moment) {
	f := c.Flags()
	f.StringVar(eventType, "type", "", "only this event type; * stands for any part of it")
	f.StringVar(key, "event-key", "", "only this ordering key")
	f.StringVar(tenant, "tenant", "", "only this tenant")
	f.Var(begin(from), "from", "only what was accepted at or after this time: 2026-01-31T12:00:00Z, or 6h for six hours ago")
	f.Var(to, "to", "only what was accepted before this time")
}
