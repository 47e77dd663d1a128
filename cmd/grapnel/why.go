package main

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func (s *session) whyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "why ID", Short: "Say why a delivery, an event's deliveries, an endpoint or an issue fail",
		Long: "Says what became of a delivery or of each delivery of an event, and what the failures of their endpoints have in common that successes " +
			"have not. A cause is something that failures are associated with; a receiver's code is not to be seen from here.",
		Example: "grapnel why dlv_…\ngrapnel why evt_…\ngrapnel why Warehouse\ngrapnel why iss_…",
	}
	tenant := c.Flags().String("tenant", "", "tenant of the event, for a key without one")
	c.RunE = s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
		w := &why{reader: r, asked: map[string]bool{}}
		err := w.explain(ctx, args[0], *tenant)
		if _, id := thingWithID(args[0]); !id && cli.Explain(err).Exit == cli.ExitNotFound { // no publisher's id of an event
			var endpoint string
			if endpoint, err = s.idOf(s.command, args[0], "ENDPOINT", "QUEUE"); err == nil {
				err = w.endpoint(ctx, endpoint)
			}
		}
		if err != nil {
			return cli.View{}, err
		}
		return single(args[0], cli.Encode(w.found()), w.parts...), nil
	})
	return c
}

// why collects answers.
type why struct {
	reader
	asked      map[string]bool // endpoints
	parts      []cli.Part
	deliveries []json.RawMessage
	endpoints  []json.RawMessage
	one        json.RawMessage // an issue
}

// found is the answer as JSON.
func (w *why) found() map[string]any {
	all := map[string]any{"deliveries": w.deliveries, "endpoints": w.endpoints}
	if w.one != nil {
		all["issue"] = w.one
	}
	return all
}

// issue explains the failures of an issue.
func (w *why) issue(ctx context.Context, id string) error {
	i, err := w.Issue(ctx, id)
	if err != nil {
		return err
	}
	w.one, w.parts = i.JSON(), append(w.parts, issueView(w.reader, i).Parts...)
	return nil
}

func (w *why) explain(ctx context.Context, id, tenant string) error {
	switch {
	case strings.HasPrefix(id, "dlv_"):
		d, err := w.Delivery(ctx, id)
		if err != nil {
			return err
		}
		return w.of(ctx, []client.Delivery{*d})
	case strings.HasPrefix(id, "ep_"):
		return w.endpoint(ctx, id)
	case strings.HasPrefix(id, "iss_"):
		return w.issue(ctx, id)
	case strings.HasPrefix(id, "lse_"), strings.HasPrefix(id, "req_"), strings.HasPrefix(id, "rpl_"), strings.HasPrefix(id, "src_"):
		return cli.Usagef("%s: only deliveries (dlv_…), events, endpoints (ep_…) and issues (iss_…) have causes", id)
	}
	e, err := w.EventOf(ctx, tenant, id) // a publisher's own id looks like nothing
	if err != nil {
		return err
	}
	return w.of(ctx, e.Deliveries)
}

// of says what became of deliveries, and explains the endpoints of those that had a failure.
func (w *why) of(ctx context.Context, all []client.Delivery) error {
	var rows [][]string
	for i := range all {
		d := &all[i]
		w.deliveries = append(w.deliveries, d.JSON())
		rows = append(rows, []string{d.ID, string(d.Status), named(d.EndpointName, d.EndpointID), strconv.Itoa(d.AttemptsMade),
			w.Time(d.NextAttemptAt), d.Reason})
	}
	w.parts = append(w.parts, cli.Part{Head: []string{"DELIVERY", "STATUS", "ENDPOINT", "TRIES", "NEXT", "WHY"}, Rows: rows})
	for i := range all {
		if d := &all[i]; d.AttemptsMade > 1 || d.AttemptsMade == 1 && d.Status != grapnel.Delivered {
			if err := w.endpoint(ctx, d.EndpointID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *why) endpoint(ctx context.Context, id string) error {
	if w.asked[id] {
		return nil
	}
	w.asked[id] = true
	c, err := w.Causes(ctx, id)
	if err != nil {
		return err
	}
	w.endpoints = append(w.endpoints, c.JSON())
	rows := [][]string{{"endpoint", id}, {"why", c.Sentence}}
	for i := range c.Causes[min(1, len(c.Causes)):] {
		rows = append(rows, []string{"also", c.Causes[i+1].Sentence})
	}
	w.parts = append(w.parts, cli.Part{Rows: rows})
	if len(c.Groups) == 0 {
		return nil
	}
	var groups [][]string
	for i := range c.Groups {
		g := &c.Groups[i]
		groups = append(groups, []string{strconv.Itoa(g.Count), string(g.ErrorClass), positive(g.StatusCode), w.Time(&g.Last), g.DeliveryID,
			g.Answer})
	}
	w.parts = append(w.parts, cli.Part{Title: "Failures that look alike", Head: []string{"COUNT", "ERROR", "STATUS", "LAST", "DELIVERY", "ANSWER"},
		Rows: groups})
	return nil
}
