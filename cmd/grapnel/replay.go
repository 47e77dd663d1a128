package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) replay() *cobra.Command {
	return group("replay", "Deliver again what is over, as a job",
		s.replayPlan(), s.replayStart(), s.replayWatch(), s.replayList(), s.replayShow(), s.replayReport(),
		s.steerReplay("pause", "Keep replays from going on", (*client.Client).PauseReplay),
		s.steerReplay("resume", "Let paused replays go on", (*client.Client).ResumeReplay),
		s.steerReplay("cancel", "End replays; what they have made goes on", (*client.Client).CancelReplay))
}

// starting is what a replay is about and how it goes, as flags say it.
type starting struct {
	client.NewReplay
	from, to   moment
	statuses   []string
	yes, watch bool
}

func (w *starting) selection(c *cobra.Command) {
	f := c.Flags()
	f.Var(begin(&w.from), "from", "events accepted at or after this time: 2026-01-31T12:00:00Z, or 6h for six hours ago")
	f.Var(&w.to, "to", "events accepted before this time")
	f.StringSliceVar(&w.EventTypes, "type", nil, "only these event types; * stands for any part of one")
	f.StringSliceVar(&w.Keys, "event-key", nil, "only these ordering keys")
	f.BoolVar(&w.Again, "again", false, "also what was replayed with success already or discarded")
}

func (w *starting) flags(c *cobra.Command) {
	w.selection(c)
	f := c.Flags()
	f.Float64Var(&w.Rate, "rate", 0, "deliveries made in a second; 100 if not given")
	f.IntVar(&w.StopAfter, "stop-after", 0, "so many failures in a row end it")
	f.BoolVar(&w.Canary, "canary", false, "the first one has to arrive before the others are made")
	f.BoolVar(&w.watch, "watch", false, "wait until it is over")
	reasoned(c, &w.Reason)
	confirmed(c, &w.yes)
}

// chosen says whether a flag was given that chooses deliveries.
func (w *starting) chosen(c *cobra.Command) bool {
	for _, name := range []string{"from", "to", "type", "event-key", "status"} {
		if c.Flags().Changed(name) {
			return true
		}
	}
	return false
}

func (w *starting) request() client.NewReplay {
	r := w.NewReplay
	r.From, r.To, r.Status = w.from.pointer(), w.to.pointer(), statusesOf(w.statuses)
	return r
}

const statusUsage = "only these: failed (if not given), delivered, dropped, discarded, skipped"

func (s *session) replayPlan() *cobra.Command {
	var which starting
	c := &cobra.Command{
		Use: "plan ENDPOINT_ID", Short: "Say what a replay would deliver again, and start nothing", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel replay plan ep_… --from 6h --type invoice.paid",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			p, err := r.PlanReplay(ctx, args[0], which.request())
			if err != nil {
				return cli.View{}, err
			}
			return object(args[0], p.JSON(), [][]string{
				{"endpoint", args[0]}, {"deliveries", count(p.Total, p.Partial)}, {"keys", strconv.Itoa(p.Keys)}, {"longest chain", strconv.Itoa(p.LongestChain)},
				{"overtaken", strconv.Itoa(p.Overtaken)},
				{"left out", strings.TrimPrefix(leftOut(p), "; left out: ")},
			}), nil
		}),
	}
	which.selection(c)
	c.Flags().StringSliceVar(&which.statuses, "status", nil, statusUsage)
	return c
}

// overtaken says what the receiver gets after something newer; empty: nothing.
func overtaken(p *client.ReplayPlan) string {
	if p.Overtaken == 0 {
		return ""
	}
	return fmt.Sprintf("; %d older than what their key got since", p.Overtaken)
}

// leftOut says what matches and is left out, and why; empty: nothing is.
func leftOut(p *client.ReplayPlan) string {
	var parts []string
	for _, part := range []struct {
		n   int
		why string
	}{{p.Excluded.AlreadyReplayed, "replayed already"}, {p.Excluded.Discarded, "discarded"}, {p.Excluded.OnItsWay, "on their way again"},
		{p.Excluded.Superseded, "replaced by later copies"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.why))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; left out: " + strings.Join(parts, ", ")
}

func (s *session) replayStart() *cobra.Command {
	var start starting
	c := &cobra.Command{
		Use: "start ENDPOINT_ID", Short: "Say what a replay would deliver again, and start it when that is confirmed", Args: takes(cobra.ExactArgs(1)),
		Long: "Deliver again what is over: the original bytes under the original event ids, in the original order within each key and behind what waits there. " +
			"Without --status it is what failed.",
		Example: "grapnel replay start ep_… --from 6h --type invoice.paid --rate 20 --canary --watch\ngrapnel replay start ep_… --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := s.reader()
			if err != nil {
				return err
			}
			return s.replayAll(cmd.Context(), r, []order{{endpoint: args[0], NewReplay: start.request()}}, &start)
		},
	}
	start.flags(c)
	c.Flags().StringSliceVar(&start.statuses, "status", nil, statusUsage)
	return c
}

// order is one replay to be started.
type order struct {
	endpoint string
	client.NewReplay
}

// replayAll says what replays would do, starts them when that is confirmed, and watches them if that is wanted.
func (s *session) replayAll(ctx context.Context, r reader, orders []order, w *starting) error {
	total := 0
	for i, o := range orders {
		plan, err := r.PlanReplay(ctx, o.endpoint, o.NewReplay)
		if err != nil {
			return err
		}
		s.Note("%s to %s (%d keys, longest chain %d)%s", deliveriesOf(plan.Total, plan.Partial), o.endpoint, plan.Keys, plan.LongestChain, overtaken(plan)+leftOut(plan))
		total += plan.Total
		if plan.Total == 0 {
			orders[i].endpoint = ""
		}
	}
	if total == 0 {
		return &cli.Fault{Exit: cli.ExitNotFound, Code: "not_found", Text: "there is nothing to replay"}
	}
	if total > 1 {
		if err := s.Confirm(w.yes, "Replay %s?", deliveriesOf(total, false)); err != nil {
			return err
		}
	}
	var started []*client.Replay
	for _, o := range orders {
		if o.endpoint == "" {
			continue
		}
		one, err := r.StartReplay(ctx, o.endpoint, o.NewReplay)
		if err != nil {
			if len(started) == 0 {
				return err
			}
			s.Note("%s: %v", o.endpoint, err)
			if err := printReplays(r, started); err != nil {
				return err
			}
			return cli.Partial("%d replays were started, then one could not be", len(started))
		}
		started = append(started, one)
	}
	if !w.watch {
		return printReplays(r, started)
	}
	return s.watch(ctx, r, started)
}

func deliveriesOf(n int, more bool) string {
	if n == 1 && !more {
		return "1 delivery"
	}
	return count(n, more) + " deliveries"
}

func printReplays(r reader, all []*client.Replay) error {
	v := cli.View{}
	var rows [][]string
	for _, one := range all {
		rows = append(rows, replayRow(r, one))
		v.Items = append(v.Items, cli.Item{Name: one.ID, JSON: one.JSON()})
	}
	v.JSON = v.Items[0].JSON
	if len(all) > 1 {
		v.JSON = list(v.Items)
	}
	v.Parts = []cli.Part{{Head: replayHead, Rows: rows}}
	return r.Print(v)
}

var replayHead = []string{"REPLAY", "STATUS", "ENDPOINT", "TOTAL", "MADE", "DONE", "DELIVERED", "FAILED", "STARTED", "ETA", "WHY"}

func replayRow(r reader, p *client.Replay) []string {
	return []string{p.ID, string(p.Status), p.EndpointID, strconv.Itoa(p.Total), strconv.Itoa(p.Made), strconv.Itoa(p.Done), strconv.Itoa(p.Delivered),
		strconv.Itoa(p.Failed), r.Time(&p.StartedAt), r.Time(p.ETA), p.Reason}
}

func (s *session) replayList() *cobra.Command {
	var f client.ReplayFilter
	c := paging(&cobra.Command{
		Use: "list", Short: "List replays, the newest first",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			p, err := r.Replays(ctx, f)
			if err != nil {
				return cli.View{}, err
			}
			return page(p, replayHead, func(one client.Replay) []string { return replayRow(r, &one) }), nil
		}),
	}, &f.Limit, &f.Cursor)
	c.Flags().StringVar(&f.Endpoint, "endpoint", "", "only of this endpoint")
	c.Flags().StringVar(&f.Tenant, "tenant", "", "only of this tenant")
	c.Flags().BoolVar(&f.Active, "active", false, "only those that are running or paused")
	return c
}

func (s *session) replayShow() *cobra.Command {
	return &cobra.Command{
		Use: "show REPLAY_ID", Short: "Show a replay and how far it is", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			p, err := r.Replay(ctx, args[0])
			if err != nil {
				return cli.View{}, err
			}
			canary, stopAfter := "", ""
			if p.Canary {
				canary = "yes"
			}
			if p.StopAfter > 0 {
				stopAfter = fmt.Sprintf("%d failures in a row", p.StopAfter)
			}
			return object(p.ID, p.JSON(), [][]string{
				{"replay", p.ID}, {"endpoint", p.EndpointID}, {"tenant", p.Tenant}, {"status", string(p.Status)}, {"why", p.Reason},
				{"total", strconv.Itoa(p.Total)}, {"made", strconv.Itoa(p.Made)}, {"done", strconv.Itoa(p.Done)}, {"delivered", strconv.Itoa(p.Delivered)},
				{"failed", strconv.Itoa(p.Failed)}, {"rate", strconv.FormatFloat(p.Rate, 'f', -1, 64) + "/s"}, {"canary", canary}, {"stops after", stopAfter},
				{"started", r.Time(&p.StartedAt)}, {"by", p.StartedBy}, {"finished", r.Time(p.FinishedAt)}, {"eta", r.Time(p.ETA)},
			}), nil
		}),
	}
}

// steerReplay is a command that does the same to each of several replays.
func (s *session) steerReplay(verb, short string, call func(*client.Client, context.Context, string, string) (*client.Replay, error)) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: verb + " REPLAY_ID…", Short: short, Args: takes(cobra.MinimumNArgs(1)),
		RunE: s.askEach(replayHead, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
			p, err := call(r.Client, ctx, id, reason)
			if err != nil {
				return nil, nil, err
			}
			return p.JSON(), replayRow(r, p), nil
		}),
	}
	reasoned(c, &reason)
	return c
}

// replayReport prints what became of every delivery of a replay, page by page.
func (s *session) replayReport() *cobra.Command {
	return &cobra.Command{
		Use: "report REPLAY_ID", Short: "List what a replay has made and what became of each, all of it", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel replay report rpl_…\ngrapnel replay report rpl_… -o jsonl | jq 'select(.status != \"delivered\")'",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := s.reader()
			if err != nil {
				return err
			}
			for cursor, more := "", false; ; more = true {
				p, err := r.ReplayItems(cmd.Context(), args[0], 500, cursor)
				if err != nil {
					return err
				}
				v := page(p, []string{"ORIGINAL", "DELIVERY", "STATUS", "MADE"}, func(i client.ReplayItem) []string {
					return []string{i.OriginalID, i.DeliveryID, string(i.Status), r.Time(&i.MadeAt)}
				})
				v.More, v.Parts[0].More = "", more
				if err := r.Print(v); err != nil || p.Next == "" {
					return err
				}
				cursor = p.Next
			}
		},
	}
}
