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

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var deliveries = resource[client.Delivery]{
	path: "/v1/deliveries", id: "DELIVERY_ID", head: deliveryHead, row: deliveryRow, view: deliveryView,
}

func (s *session) deliveriesCommand() *cobra.Command {
	levers := deliveries.levers(s, []lever[client.Delivery]{
		{"retry", "Try deliveries now; a finished one gets a new delivery",
			"grapnel deliveries list --status failed -o name | xargs grapnel deliveries retry\n" +
				"grapnel deliveries retry --filter 'status:held endpoint:acme code:422' --reason 'they fixed it'", (*client.Client).Retry, false},
		{"skip", "End pending deliveries without delivering them, so that their keys move on",
			"grapnel deliveries skip dlv_… --reason 'fixed by hand at the customer'", (*client.Client).Skip, true},
	})
	retryFound(s, levers[0])
	return group("deliveries", "Look at deliveries, retry or skip them", slices.Concat(
		[]*cobra.Command{deliveriesGet(s)},
		levers,
		[]*cobra.Command{
			deliveries.selected(s, true, "List deliveries, the newest first",
				"grapnel deliveries list --status failed --since 24h\n"+
					"grapnel deliveries list --error-class timeout --type 'invoice.*'\n"+
					"grapnel deliveries list --endpoint ep_… -o name", (*client.Client).Deliveries),
			export(s, "deliveries", true, (*client.Client).ExportDeliveries), deliveriesVerify(s),
		})...)
}

// retryFound lets retry take the pending deliveries that a search finds, in the place of ids.
func retryFound(s *session, c *cobra.Command) {
	var filter string
	c.Use, c.PreRunE = "retry [DELIVERY_ID…]", narrows("filter")
	c.Flags().StringVar(&filter, "filter", "", "in the place of ids: all pending deliveries that this search finds, as 'status:held endpoint:acme'")
	each, all := c.RunE, s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
		sum, which := client.RetriedFound{}, client.DeliveryFilter{Filter: filter, Limit: 500}
		for {
			done, err := r.RetryFound(ctx, which, c.Flag("reason").Value.String())
			if err != nil {
				return cli.View{}, err
			}
			sum.Matched, sum.Retried, sum.Probed = sum.Matched+done.Matched, sum.Retried+done.Retried, sum.Probed+done.Probed
			if done.Next == nil {
				break
			}
			which.Cursor = *done.Next
		}
		said, err := json.Marshal(sum)
		return object("retried", said, [][]string{{"matched", strconv.Itoa(sum.Matched)}, {"retried", strconv.Itoa(sum.Retried)},
			{"probed endpoints", strconv.Itoa(sum.Probed)}}), err
	})
	c.RunE = func(cmd *cobra.Command, ids []string) error {
		switch {
		case len(ids) == 0 && filter == "":
			return misused(cmd, "%s needs DELIVERY_ID, or --filter", cmd.CommandPath())
		case len(ids) > 0 && filter != "":
			return cli.Usagef("give either ids of deliveries or --filter, not both")
		case filter != "":
			return all(cmd, ids)
		}
		return each(cmd, ids)
	}
}

// deliveriesGet shows a delivery, or prints the body that an attempt sent.
func deliveriesGet(s *session) *cobra.Command {
	var body bool
	var attempt int
	c := deliveries.command(s, verb{"get", "Show a delivery, its attempts and its next ones",
		"grapnel deliveries get dlv_…\ngrapnel deliveries get dlv_… --body --attempt 2 > body.json"})
	show, whole := c.RunE, s.withReader(func(ctx context.Context, r reader, args []string) error {
		n, err := attemptOrLast(ctx, r, args[0], attempt)
		if err != nil {
			return err
		}
		is, err := r.SentBody(ctx, args[0], n)
		if err != nil {
			return err
		}
		sent, some := is.Content()
		if !some {
			return fmt.Errorf("attempt %d of %s: %s", n, args[0], is.Sentence)
		}
		if is.Verdict != "signed" {
			s.Note("%s", is.Sentence)
		}
		_, err = s.Stdout.Write(sent)
		return err
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case body:
			return whole(cmd, args)
		case attempt != 0:
			return cli.Usagef("--attempt: needs --body; without it all attempts are shown")
		}
		return show(cmd, args)
	}
	c.Flags().BoolVar(&body, "body", false, "print the body that was sent, and nothing else")
	c.Flags().IntVar(&attempt, "attempt", 0, "number of the attempt whose body is printed; 0: the last one")
	return c
}

// attemptOrLast is the number of an attempt; for 0 that of the delivery's last one.
func attemptOrLast(ctx context.Context, r reader, id string, number int) (int, error) {
	if number != 0 {
		return number, nil
	}
	d, err := r.Delivery(ctx, id)
	if err != nil {
		return 0, err
	}
	if len(d.Attempts) == 0 {
		return 0, cli.Usagef("%s: no attempt was made", id)
	}
	return d.Attempts[len(d.Attempts)-1].Number, nil
}

// deliveriesVerify computes the signature of an attempt again.
func deliveriesVerify(s *session) *cobra.Command {
	var attempt int
	c := &cobra.Command{
		Use: "verify DELIVERY_ID", Short: "Compute an attempt's signature again, and say which secret makes it",
		Long: "Compute an attempt's signature again, and say which secret makes it. If the receiver refuses a request that is right here, " +
			"grapnel verify says what changed on the way.",
		Example: "grapnel deliveries verify dlv_… --attempt 2",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			n, err := attemptOrLast(ctx, r, args[0], attempt)
			if err != nil {
				return cli.View{}, err
			}
			return viewOf(r, signatureView)(r.Signature(ctx, args[0], n))
		}),
	}
	c.Flags().IntVar(&attempt, "attempt", 0, "number of the attempt; 0: the last one")
	return c
}

func signatureView(_ reader, sc *client.SignatureCheck) cli.View {
	form := [][]string{{"delivery", sc.DeliveryID}, {"attempt", strconv.Itoa(sc.Attempt)}, {"result", sc.Sentence}}
	var parts []cli.Part
	if p := sc.Signed; p != nil {
		form = append(form, []string{"signed", fmt.Sprintf("%s.%d.BODY", p.ID, p.Timestamp)},
			[]string{"body", fmt.Sprintf("%d bytes", p.BodyBytes)}, []string{"SHA-256", p.BodySHA256})
	}
	sent := cli.Part{Title: "Signatures sent", Head: []string{"SIGNATURE", "MATCHES"}}
	for _, one := range sc.Signatures {
		sent.Rows = append(sent.Rows, []string{one.Signature, one.Matches})
	}
	if len(sent.Rows) > 0 {
		parts = append(parts, sent)
	}
	if sc.Signed != nil && sc.Signed.Body != "" {
		title := "Body"
		if sc.Signed.BodyCut {
			title = "Body, its beginning"
		}
		parts = append(parts, cli.Part{Title: title, Text: "\n" + sc.Signed.Body})
	}
	return object(sc.DeliveryID, sc.JSON(), form, parts...)
}

// selected is the command that lists deliveries selected by flags.
func (t *resource[T]) selected(s *session, anyStatus bool, short, example string,
	call func(*client.Client, context.Context, client.DeliveryFilter) (*client.Page[T], error),
) *cobra.Command {
	var which cli.Selection
	c := paging(&cobra.Command{Use: "list", Short: short, Example: example}, &which.Limit, &which.Cursor)
	which.Bind(c.Flags(), anyStatus)
	c.RunE = s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
		return viewOf(r, paged(t.head, t.row))(call(r.Client, ctx, which.Filter()))
	})
	return c
}

var deliveryHead = []string{"DELIVERY", "STATUS", "TYPE", "KEY", "ENDPOINT", "TRIES", "LAST", "NEXT", "CREATED"}

func deliveryRow(r reader, d *client.Delivery) []string {
	return []string{d.ID, statusOf(d), d.Type, d.Key, named(d.EndpointName, d.EndpointID), strconv.Itoa(d.AttemptsMade),
		lastOutcome(d), r.Time(d.NextAttemptAt), r.Time(&d.CreatedAt)}
}

// statusOf is the status of a delivery, and whether it is of a test.
func statusOf(d *client.Delivery) string {
	if d.ReasonCode == grapnel.ReasonTest {
		return string(d.Status) + " (test)"
	}
	return string(d.Status)
}

// lastOutcome is the result of a delivery's last attempt in a word: the status of the response, or
// the class of the error.
func lastOutcome(d *client.Delivery) string {
	switch {
	case d.Last == nil:
		return ""
	case d.Last.StatusCode > 0:
		return strconv.Itoa(d.Last.StatusCode)
	}
	return string(d.Last.ErrorClass)
}

// exchanged shows the last request that was sent, and the last response.
func exchanged(d *client.Delivery) []cli.Part {
	var parts []cli.Part
	for _, a := range slices.Backward(d.Attempts) {
		if len(a.RequestHeaders) > 0 {
			parts = append(parts, cli.Part{Title: fmt.Sprintf("Sent by attempt %d", a.Number), Rows: headerRows(a.RequestHeaders)})
			break
		}
	}
	if m := d.Message; m != nil {
		parts = append(parts, cli.Part{Title: "Message to the channel, without credentials",
			Text: fmt.Sprintf("\n%s %s\n\n%s", m.Method, m.URL, m.Body)})
	}
	return append(parts, answered(d)...)
}

func headerRows(headers map[string]string) (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		rows = append(rows, []string{name, headers[name]})
	}
	return rows
}

// answered shows the receiver's last response.
func answered(d *client.Delivery) []cli.Part {
	for _, a := range slices.Backward(d.Attempts) {
		if a.StatusCode == 0 {
			continue
		}
		part := cli.Part{Title: fmt.Sprintf("Answer to attempt %d: %d %s", a.Number, a.StatusCode, http.StatusText(a.StatusCode)),
			Text: a.ResponseBody, Rows: headerRows(a.ResponseHeaders)}
		switch {
		case a.Erased:
			part.Text = "\n(erased)"
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
		{"delivery", d.ID}, {"event", d.EventID}, {"endpoint", withName(d.EndpointName, d.EndpointID)}, {"type", d.Type},
		{"key", d.Key}, {"sequence", positive(d.Sequence)}, {"status", statusOf(d)}, {"why", d.Reason},
		{"created", r.Time(&d.CreatedAt)}, {"finished", r.Time(d.FinishedAt)},
	}
	if d.ReplayOf != nil {
		form = append(form, []string{"replay of", *d.ReplayOf})
	}
	replayed := r.Time(d.ReplayedAt)
	if replayed != "" && d.ReplayedBy != "" {
		replayed += " by " + d.ReplayedBy
	}
	form = append(form, [][]string{
		{"replayed", replayed}, {"replayed as", d.ReplayedAs}, {"result", string(d.ReplayResult)}, {"discarded", r.Time(d.DiscardedAt)},
		{"because", d.DiscardReason}, {"note", d.Note}, {"kept until", r.Time(d.PurgeAt)},
	}...)
	if d.AttemptsMade > 0 && d.Status != grapnel.Delivered && d.ReasonCode != grapnel.ReasonTest {
		form = append(form, []string{"causes", "grapnel why " + d.ID})
	}
	attempts := cli.Part{Title: "Attempts", Head: []string{"N", "TRIGGER", "STARTED", "TOOK", "STATUS", "RESULT", "ERROR"}}
	for _, a := range d.Attempts {
		attempts.Rows = append(attempts.Rows, []string{strconv.Itoa(a.Number), string(a.Trigger), r.Time(&a.StartedAt),
			a.Duration.Std().Round(100 * time.Microsecond).String(), positive(a.StatusCode), string(a.Decision), a.Error})
	}
	parts := append([]cli.Part{attempts}, exchanged(d)...)
	if len(d.Planned) > 0 {
		planned := cli.Part{Title: "Planned, if every attempt fails", Head: []string{"N", "AT", "JITTER"}}
		for _, p := range d.Planned {
			jitter := fmt.Sprintf("up to %v", p.Latest.Sub(p.At).Round(time.Millisecond))
			planned.Rows = append(planned.Rows, []string{strconv.Itoa(p.Number), r.Time(&p.At), jitter})
		}
		parts = append(parts, planned)
	}
	return object(d.ID, d.JSON(), form, parts...)
}
