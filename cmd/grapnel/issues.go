package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var issues = resource[client.Issue]{
	path: "/v1/issues", id: "ISSUE_ID", filters: cli.IssueFilters, settings: cli.IssueSettings,
	head: []string{"ISSUE", "STATE", "ERROR", "STATUS", "ENDPOINT", "FAILURES", "DELIVERIES", "SINCE", "LAST", "OWNER"},
	row:  issueRow, view: issueView,
	verbs: []verb{
		{"list", "List issues: failures that look alike; the one that failed last first", "grapnel issues list --state open"},
		{"get", "Show an issue, and why its deliveries fail", ""},
		{"update", "Set an issue's owner or note", "grapnel issues update iss_… --owner ana --note 'asked them on Monday'"},
	},
}

func (s *session) issuesCommand() *cobra.Command {
	to := func(state string) func(*client.Client, context.Context, string, string) (*client.Issue, error) {
		return func(c *client.Client, ctx context.Context, id, reason string) (*client.Issue, error) {
			return c.ChangeIssue(ctx, id, client.IssueChanges{State: state, Reason: reason})
		}
	}
	return group("issues", "Look at failures that look alike; acknowledge, mute, resolve and replay them", append(append(issues.commands(s),
		issues.levers(s, []lever[client.Issue]{
			{"ack", "Acknowledge issues: a person is on it", "grapnel issues ack iss_… --reason 'asked them'", to("acknowledged"), false},
			{"resolve", "Resolve issues; another failure opens them again", "grapnel issues resolve iss_… --reason 'they deployed a fix'", to("resolved"), false},
			{"reopen", "Open issues again", "", to("open"), false},
		})...), issuesMute(s), issuesReplay(s))...)
}

func issueRow(r reader, i *client.Issue) []string {
	return []string{i.ID, i.State, string(i.ErrorClass), positive(i.StatusCode), named(i.EndpointName, i.EndpointID),
		number(i.Failures), aboutMany(i, i.Deliveries), r.Time(&i.Since), r.Time(&i.LastSeen), i.Owner}
}

// aboutMany marks an estimate.
func aboutMany(i *client.Issue, n int) string {
	if i.Approximate {
		return "~" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

func issueView(r reader, i *client.Issue) cli.View {
	rows := [][]string{
		{"issue", i.ID}, {"what", i.Sentence}, {"state", i.State}, {"muted until", r.Time(i.MutedUntil)}, {"owner", i.Owner}, {"note", i.Note},
		{"endpoint", withName(i.EndpointName, i.EndpointID)}, {"tenant", i.Tenant}, {"error", string(i.ErrorClass)},
		{"status", positive(i.StatusCode)}, {"answer", i.Answer},
		{"failures", number(i.Failures)}, {"deliveries", aboutMany(i, i.Deliveries)}, {"keys", aboutMany(i, i.Keys)},
		{"first", r.Time(&i.FirstSeen)}, {"last", r.Time(&i.LastSeen)}, {"regressions", positive(i.Regressions)},
		{"resolved", r.Time(i.ResolvedAt)}, {"because", i.Resolution},
		{"resolves after", fmt.Sprintf("%d successes of the endpoint", i.ResolvesIn)},
		{"newest", strings.Join(i.DeliveryIDs, " ")},
	}
	if i.Why != nil {
		rows = append(rows, []string{"why", i.Why.Sentence})
		for n := range i.Why.Causes[min(1, len(i.Why.Causes)):] {
			rows = append(rows, []string{"also", i.Why.Causes[n+1].Sentence})
		}
	}
	return object(i.ID, i.JSON(), rows)
}

func issuesMute(s *session) *cobra.Command {
	var span time.Duration
	c := issues.levers(s, []lever[client.Issue]{{"mute", "Mute issues for a time; then they are open again",
		"grapnel issues mute iss_… --for 72h --reason 'their migration'",
		func(c *client.Client, ctx context.Context, id, reason string) (*client.Issue, error) {
			until := time.Now().Add(span)
			return c.ChangeIssue(ctx, id, client.IssueChanges{State: "muted", MutedUntil: &until, Reason: reason})
		}, false}})[0]
	cli.DurationVar(c.Flags(), &span, "for", 24*time.Hour, "how long, at most 720h")
	c.PreRunE = func(*cobra.Command, []string) error {
		return cli.Usagef("--for: must be longer than 0s and at most 720h").If(span <= 0 || span > 30*24*time.Hour)
	}
	return c
}

// issuesReplay says how many dead letters an issue has, and replays them once that is confirmed.
func issuesReplay(s *session) *cobra.Command {
	var start starting
	c := &cobra.Command{
		Use: "replay ISSUE_ID", Short: "Redeliver the dead letters of an issue, after showing how many",
		Long: "Redeliver the dead letters of the issue's endpoint whose last attempt ended with the issue's error class and status code, of events " +
			"since the issue's oldest delivery.",
		Example: "grapnel issues replay iss_… --rate 20 --canary --watch",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			ask := client.NewIssueReplay{Rate: start.Rate, StopAfter: start.StopAfter, Canary: start.Canary, Reason: start.Reason}
			plan, err := r.PlanIssueReplay(ctx, args[0], ask)
			if err != nil {
				return err
			}
			if plan.Total == 0 && !plan.Partial {
				return &cli.Fault{Exit: cli.ExitNotFound, Code: "not_found", Text: "nothing to replay" + leftOut(plan)}
			}
			r.world.Note("%s of %s (%d keys, longest chain %d)%s", deliveriesOf(plan.Total, plan.Partial), args[0], plan.Keys, plan.LongestChain,
				overtaken(plan)+leftOut(plan))
			if plan.Total > 1 || plan.Partial {
				if err := s.Confirm("Replay %s?", deliveriesOf(plan.Total, plan.Partial)); err != nil {
					return err
				}
			}
			one, err := r.ReplayIssue(ctx, args[0], ask)
			if err != nil {
				return err
			}
			if !start.watch {
				return printReplays(r, []client.Replay{*one})
			}
			return watch(ctx, r, []client.Replay{*one})
		}),
	}
	start.pace(s, c)
	return c
}
