package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var replays = resource[client.Replay]{
	path: "/v1/replays", id: "REPLAY_ID", filters: cli.ReplayFilters,
	head: replayHead, row: replayRow, view: replayView,
	verbs: []verb{{"list", "List replays, the newest first", ""}, {"get", "Show a replay and its progress", ""}},
}

func (s *session) replayCommand() *cobra.Command {
	return group("replay", "Redeliver finished deliveries in the background", slices.Concat(
		[]*cobra.Command{replayPlan(s), replayStart(s), replayWatch(s), replayReport(s)}, replays.commands(s),
		replays.levers(s, []lever[client.Replay]{
			{"pause", "Pause replays", "", (*client.Client).PauseReplay, false},
			{"resume", "Continue paused replays", "", (*client.Client).ResumeReplay, false},
			{"cancel", "Cancel replays; the deliveries that they have created continue", "", (*client.Client).CancelReplay, false},
		}))...)
}

// starting is the selection of a replay and how it runs, as flags give it.
type starting struct {
	client.NewReplay
	from, to cli.Moment
	statuses []string
	watch    bool
	only     string // see narrowness
}

func (w *starting) selection(c *cobra.Command) {
	c.PreRunE = narrows(selecting...)
	f := c.Flags()
	f.Var(w.from.Past(), "since", "events accepted at or after this time: 2026-01-31T12:00:00Z, or 6h for six hours ago")
	f.Var(&w.to, "until", "events accepted before this time")
	f.StringSliceVar(&w.EventTypes, "type", nil, "only these event types; * stands for any part of one")
	f.StringSliceVar(&w.Keys, "event-key", nil, "only these ordering keys")
	f.StringVar((*string)(&w.ErrorClass), "error-class", "", "only those whose last attempt ended in this: timeout, status_5xx, …")
	f.IntVar(&w.StatusCode, "status-code", 0, "only those whose last attempt got this response")
	cli.Sets(f, "type", "event_types")
	cli.Sets(f, "event-key", "keys")
	f.BoolVar(&w.Again, "again", false, "also deliveries that were discarded or replayed with success already")
}

func (w *starting) flags(s *session, c *cobra.Command) {
	w.selection(c)
	w.pace(s, c)
}

// pace are the flags that say how a replay runs.
func (w *starting) pace(s *session, c *cobra.Command) {
	f := c.Flags()
	f.Float64Var(&w.Rate, "rate", 0, "deliveries created per second; 100 if not given")
	f.IntVar(&w.StopAfter, "stop-after", 0, "end the replay after this many failures in a row")
	f.BoolVar(&w.Canary, "canary", false, "create the others only once the first one has arrived")
	f.BoolVar(&w.watch, "watch", false, "wait until the replay is finished")
	reasoned(c, &w.Reason)
	s.confirmed(c)
}

// selecting are the flags that select deliveries.
var selecting = []string{"since", "until", "type", "event-key", "status", "error-class", "status-code"}

// chosen says whether a flag that selects deliveries was given.
func (w *starting) chosen(c *cobra.Command) bool {
	return slices.ContainsFunc(selecting, c.Flags().Changed)
}

// narrows refuses an empty value of flags that narrow what a command does, as from an unset
// variable: it would do it to all.
func narrows(flags ...string) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		for _, name := range flags {
			if f := c.Flags().Lookup(name); f != nil && f.Changed && strings.Trim(f.Value.String(), "[]") == "" {
				return cli.Usagef("--%s must not be empty: leave it out to select all", name)
			}
		}
		return nil
	}
}

func (w *starting) request() client.NewReplay {
	r := w.NewReplay
	r.From, r.To, r.Status = w.from.Pointer(), w.to.Pointer(), cli.StatusesOf(w.statuses)
	return r
}

// withStatus adds the flag of the statuses that are replayed.
func (w *starting) withStatus(c *cobra.Command) {
	c.Flags().StringSliceVar(&w.statuses, "status", nil, "only these statuses; failed if not given")
	cli.Form(c.Flags(), "failed|delivered|dropped|discarded|skipped", "status")
}

func replayPlan(s *session) *cobra.Command {
	var which starting
	var c *cobra.Command
	c = &cobra.Command{
		Use: "plan ENDPOINT", Short: "Count what a replay would redeliver, and start nothing",
		Example: "grapnel replay plan ep_… --since 6h --type invoice.paid",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			p, err := r.PlanReplay(ctx, args[0], which.request())
			if err != nil {
				return cli.View{}, err
			}
			return object(args[0], p.JSON(), [][]string{
				{"endpoint", args[0]}, {"deliveries", count(p.Total, p.Partial)}, {"by status", p.ByStatus.String()}, {"keys", strconv.Itoa(p.Keys)},
				{"longest chain", strconv.Itoa(p.LongestChain)},
				{"overtaken", strconv.Itoa(p.Overtaken)},
				{"left out", strings.TrimPrefix(leftOut(p), "; left out: ")}, {"not replayed", onTheWay(p)}, {"selection", which.narrowness(c)},
			}), nil
		}),
	}
	which.selection(c)
	which.withStatus(c)
	return c
}

// overtaken says how many would arrive after newer events of their key; empty: none.
func overtaken(p *client.ReplayPlan) string {
	if p.Overtaken == 0 {
		return ""
	}
	return fmt.Sprintf("; %d would arrive after newer events of their key", p.Overtaken)
}

// leftOut says how many match and are left out, by reason; empty: none.
func leftOut(p *client.ReplayPlan) string {
	var parts []string
	for _, part := range []struct {
		n   int
		why string
	}{{p.Excluded.AlreadyReplayed, "replayed already"}, {p.Excluded.Discarded, "discarded"}, {p.Excluded.OnItsWay, "being redelivered"},
		{p.Excluded.Superseded, "replaced by later copies"}, {p.Excluded.Tests, "tests"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.why))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; left out: " + strings.Join(parts, ", ")
}

// onTheWay says how many match and are not finished; empty: none.
func onTheWay(p *client.ReplayPlan) string {
	if p.Waiting == 0 {
		return ""
	}
	return fmt.Sprintf("%d pending or held: they are on their way", p.Waiting)
}

// narrowness says which statuses are selected because no flag names any; empty: a flag does.
func (w *starting) narrowness(c *cobra.Command) string {
	if f := c.Flags().Lookup("status"); f == nil || f.Changed {
		return ""
	}
	return "only failed ones; for all that the endpoint should have had: --status failed,delivered,dropped"
}

func replayStart(s *session) *cobra.Command {
	var start starting
	var c *cobra.Command
	c = &cobra.Command{
		Use: "start ENDPOINT", Short: "Start a replay, after showing what it would redeliver",
		Long: "Redeliver finished deliveries: the original bytes under the original event ids, in the original order within " +
			"each key, behind its pending deliveries. Without --status, the failed ones.",
		Example: "grapnel replay start ep_… --since 6h --type invoice.paid --rate 20 --canary --watch\ngrapnel replay start ep_… --yes",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			start.only = start.narrowness(c)
			return replayAll(ctx, r, []order{{endpoint: args[0], NewReplay: start.request()}}, &start)
		}),
	}
	start.flags(s, c)
	start.withStatus(c)
	return c
}

// order is one replay to start.
type order struct {
	endpoint string
	client.NewReplay
}

// replayAll says what replays would do, starts them once that is confirmed, and watches them with
// --watch.
func replayAll(ctx context.Context, r reader, orders []order, w *starting) error {
	total, more := 0, false
	for i, o := range orders {
		plan, err := r.PlanReplay(ctx, o.endpoint, o.NewReplay)
		if err != nil {
			return err
		}
		var by, way string
		if plan.Total > 0 {
			by = ": " + plan.ByStatus.String()
		}
		if plan.Waiting > 0 {
			way = "; not replayed: " + onTheWay(plan)
		}
		r.world.Note("%s to %s (%d keys, longest chain %d)%s%s", deliveriesOf(plan.Total, plan.Partial), o.endpoint, plan.Keys,
			plan.LongestChain, by, overtaken(plan)+leftOut(plan)+way)
		total, more = total+plan.Total, more || plan.Partial
		if plan.Total == 0 && !plan.Partial {
			orders[i].endpoint = ""
		}
	}
	if w.only != "" {
		r.world.Note("selected: %s", w.only)
	}
	if total == 0 && !more {
		return &cli.Fault{Exit: cli.ExitNotFound, Code: "not_found", Text: "nothing to replay"}
	}
	if total > 1 || more {
		if err := r.world.Confirm("Replay %s?", deliveriesOf(total, more)); err != nil {
			return err
		}
	}
	var started []client.Replay
	for _, o := range orders {
		if o.endpoint == "" {
			continue
		}
		one, err := r.StartReplay(ctx, o.endpoint, o.NewReplay)
		if err != nil {
			if len(started) == 0 {
				return err
			}
			r.world.Note("%s: %v", o.endpoint, err)
			if err := printReplays(r, started); err != nil {
				return err
			}
			return cli.Partial("%d replays were started, then one could not be started", len(started))
		}
		started = append(started, *one)
	}
	if !w.watch {
		r.world.Note("To see its end: grapnel replay watch %s", started[0].ID)
		return printReplays(r, started)
	}
	return watch(ctx, r, started)
}

// replayReport prints the outcome of every delivery of a replay, page by page.
func replayReport(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "report REPLAY_ID", Short: "List every delivery of a replay and its outcome",
		Example: "grapnel replay report rpl_…\ngrapnel replay report rpl_… -o jsonl | jq 'select(.status != \"delivered\")'",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			view := paged([]string{"ORIGINAL", "DELIVERY", "STATUS", "MADE"}, func(r reader, i *client.ReplayItem) []string {
				return []string{i.OriginalID, i.DeliveryID, string(i.Status), r.Time(&i.MadeAt)}
			})
			for cursor, more := "", false; ; more = true {
				p, err := r.ReplayItems(ctx, args[0], 500, cursor)
				if err != nil {
					return err
				}
				v := view(r, p)
				v.More, v.Parts[0].More = "", more
				if err := r.Print(v); err != nil || p.Next == "" {
					return err
				}
				cursor = p.Next
			}
		}),
	}
}
