package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) deliveries() *cobra.Command {
	return group("deliveries", "Look at deliveries, retry or skip them",
		s.deliveriesList(), s.deliveriesShow(), s.deliveriesRetry(), s.deliveriesSkip(), s.deliveriesExport())
}

func (s *session) deliveriesList() *cobra.Command {
	var which choice
	c := paging(&cobra.Command{
		Use: "list", Short: "List deliveries, the newest first",
		Example: "grapnel deliveries list --status failed --from 24h\ngrapnel deliveries list --error-class timeout --type 'invoice.*'\n" +
			"grapnel deliveries list --endpoint ep_… -o name",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			p, err := r.Deliveries(ctx, which.filter())
			if err != nil {
				return cli.View{}, err
			}
			return page(p, deliveryHead, func(d client.Delivery) []string { return deliveryRow(r, &d) }), nil
		}),
	}, &which.Limit, &which.Cursor)
	which.flags(c, true)
	return c
}

func (s *session) deliveriesShow() *cobra.Command {
	return &cobra.Command{
		Use: "show DELIVERY_ID", Short: "Show a delivery, its attempts and what is planned", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			d, err := r.Delivery(ctx, args[0])
			if err != nil {
				return cli.View{}, err
			}
			return deliveryView(r, d), nil
		}),
	}
}

func (s *session) deliveriesRetry() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "retry DELIVERY_ID…", Short: "Try deliveries now; one that is over gets a new delivery", Args: takes(cobra.MinimumNArgs(1)),
		Example: "grapnel deliveries list --status failed -o name | xargs grapnel deliveries retry",
		RunE: s.askEach(deliveryHead, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
			d, err := r.Retry(ctx, id, reason)
			if err != nil {
				return nil, nil, err
			}
			return d.JSON(), deliveryRow(r, d), nil
		}),
	}
	reasoned(c, &reason)
	return c
}

func (s *session) deliveriesSkip() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "skip DELIVERY_ID…", Short: "End waiting deliveries without delivering, so that their keys move on", Args: takes(cobra.MinimumNArgs(1)),
		Example: "grapnel deliveries skip dlv_… --reason 'fixed by hand at the customer'",
		RunE: s.askEach(deliveryHead, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
			d, err := r.Skip(ctx, id, reason)
			if err != nil {
				return nil, nil, err
			}
			return d.JSON(), deliveryRow(r, d), nil
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for whoever reads the history")
	return needs(c, "reason")
}

var deliveryHead = []string{"DELIVERY", "STATUS", "TYPE", "KEY", "ENDPOINT", "TRIES", "LAST", "NEXT", "CREATED"}

func deliveryRow(r reader, d *client.Delivery) []string {
	return []string{d.ID, string(d.Status), d.Type, d.Key, d.EndpointID, strconv.Itoa(d.AttemptsMade), last(d), r.Time(d.NextAttemptAt), r.Time(&d.CreatedAt)}
}

// last is in a word how a delivery's last attempt ended: the status of the response, or what there was instead of one.
func last(d *client.Delivery) string {
	switch {
	case d.Last == nil:
		return ""
	case d.Last.StatusCode > 0:
		return strconv.Itoa(d.Last.StatusCode)
	}
	return string(d.Last.ErrorClass)
}

// exchanged is what was sent by the last attempt that sent something, and what the receiver said to it.
func exchanged(d *client.Delivery) []cli.Part {
	var parts []cli.Part
	for _, a := range slices.Backward(d.Attempts) {
		if len(a.RequestHeaders) > 0 {
			parts = append(parts, cli.Part{Title: fmt.Sprintf("Sent by attempt %d", a.Number), Rows: headerRows(a.RequestHeaders)})
			break
		}
	}
	return append(parts, answered(d)...)
}

func headerRows(headers map[string]string) (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		rows = append(rows, []string{name, headers[name]})
	}
	return rows
}

// answered is what the receiver said to the last attempt that it answered.
func answered(d *client.Delivery) []cli.Part {
	for _, a := range slices.Backward(d.Attempts) {
		if a.StatusCode == 0 {
			continue
		}
		part := cli.Part{Title: fmt.Sprintf("Answer to attempt %d: %d %s", a.Number, a.StatusCode, http.StatusText(a.StatusCode)), Text: a.ResponseBody,
			Rows: headerRows(a.ResponseHeaders)}
		switch {
		case len(a.ResponseBase64) > 0:
			part.Text = fmt.Sprintf("\n(%d bytes that are not text; -o json has them)", len(a.ResponseBase64))
		case part.Text == "":
			part.Text = "\n(no body)"
		default:
			part.Text = "\n" + part.Text
		}
		return []cli.Part{part}
	}
	return nil
}

func deliveryView(r reader, d *client.Delivery) cli.View {
	form := [][]string{
		{"delivery", d.ID}, {"event", d.EventID}, {"endpoint", d.EndpointID}, {"type", d.Type},
		{"key", d.Key}, {"sequence", strconv.FormatInt(d.Sequence, 10)}, {"status", string(d.Status)}, {"why", d.Reason},
		{"created", r.Time(&d.CreatedAt)}, {"finished", r.Time(d.FinishedAt)},
	}
	if d.ReplayOf != nil {
		form = append(form, []string{"replay of", *d.ReplayOf})
	}
	replayed := r.Time(d.ReplayedAt)
	if replayed != "" && d.ReplayedBy != "" {
		replayed += " by " + d.ReplayedBy
	}
	form = append(form, []string{"replayed", replayed}, []string{"replayed as", d.ReplayedAs}, []string{"result", string(d.ReplayResult)},
		[]string{"discarded", r.Time(d.DiscardedAt)}, []string{"because", d.DiscardReason}, []string{"note", d.Note}, []string{"kept until", r.Time(d.PurgeAt)})
	attempts := cli.Part{Title: "Attempts", Head: []string{"N", "TRIGGER", "STARTED", "TOOK", "STATUS", "RESULT", "ERROR"}}
	for _, a := range d.Attempts {
		code := ""
		if a.StatusCode > 0 {
			code = strconv.Itoa(a.StatusCode)
		}
		attempts.Rows = append(attempts.Rows, []string{strconv.Itoa(a.Number), string(a.Trigger), r.Time(&a.StartedAt),
			a.Duration.Std().Round(100 * time.Microsecond).String(), code, string(a.Decision), a.Error})
	}
	parts := append([]cli.Part{attempts}, exchanged(d)...)
	if len(d.Planned) > 0 {
		planned := cli.Part{Title: "Planned, if every attempt fails", Head: []string{"N", "AT", "JITTER"}}
		for _, p := range d.Planned {
			planned.Rows = append(planned.Rows, []string{strconv.Itoa(p.Number), r.Time(&p.At), fmt.Sprintf("up to %v", p.Latest.Sub(p.At).Round(time.Millisecond))})
		}
		parts = append(parts, planned)
	}
	return object(d.ID, d.JSON(), form, parts...)
}
