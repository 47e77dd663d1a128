package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var alerts = resource[client.Alert]{
	path: "/v1/alerts", id: "ALERT_ID", filters: cli.AlertFilters,
	head: alertHead, row: alertRow, view: alertView,
	verbs: []verb{{"list", "List alerts, open ones first", "grapnel alerts list --state firing"},
		{"get", "Show an alert and its messages", ""}},
}

var alertHead = []string{"ALERT", "STATE", "SEVERITY", "TENANT", "TITLE", "SINCE", "RESOLVED"}

func alertRow(r reader, a *client.Alert) []string {
	return []string{a.ID, a.State, a.Severity, a.Tenant, a.Title, r.Time(&a.Since), r.Time(a.ResolvedAt)}
}

func (s *session) alertsCommand() *cobra.Command {
	all := alerts.commands(s)
	all = append(all, alerts.levers(s, []lever[client.Alert]{
		{"ack", "Acknowledge alerts; they are not repeated any more", "grapnel alerts ack alr_… --reason 'on it'",
			(*client.Client).AcknowledgeAlert, false},
	})...)
	return group("alerts", "Show and acknowledge alerts, and change the rules by which they fire",
		append(all, alertsRules.command(s), alertsSet(s), alertsBacktest.command(s))...)
}

func alertView(r reader, a *client.Alert) cli.View {
	var messages []string
	for _, m := range a.Messages {
		text := m.Transition + " " + r.Time(&m.At)
		for _, d := range m.Deliveries {
			text += ", " + d.EndpointID + " " + string(d.Status)
		}
		messages = append(messages, text)
	}
	return object(a.ID, a.JSON(), [][]string{
		{"alert", a.ID}, {"rule", a.Rule}, {"state", a.State}, {"severity", a.Severity}, {"tenant", a.Tenant},
		{"subject", strings.TrimSpace(a.Subject.Kind + " " + a.Subject.ID)}, {"title", a.Title}, {"text", a.Text},
		{"since", r.Time(&a.Since)}, {"acknowledged", r.Time(a.AcknowledgedAt)}, {"by", a.AcknowledgedBy}, {"resolved", r.Time(a.ResolvedAt)},
		{"messages", strings.Join(messages, "; ")},
	})
}

// threshold is a rule's threshold with its unit.
func threshold(rule *client.AlertRule) string {
	if rule.Unit == "yes or no" {
		return ""
	}
	sign := "≥ "
	if rule.Below {
		sign = "≤ "
	}
	return sign + strconv.FormatFloat(rule.Threshold, 'f', -1, 64) + " " + rule.Unit
}

var ruleHead = []string{"RULE", "ENABLED", "SEVERITY", "THRESHOLD", "CHANGED", "CONCERNS", "BACKTEST", "TITLE"}

func ruleRow(_ reader, rule *client.AlertRule) []string {
	return []string{rule.Name, yesNo(rule.Enabled), rule.Severity, threshold(rule), strings.Join(rule.Changed, ", "),
		strings.Join(rule.Concerns, ", "), yesNo(rule.Backtest), rule.Title}
}

func ruleView(_ reader, rule *client.AlertRule) cli.View {
	return object(rule.Name, rule.JSON(), [][]string{{"rule", rule.Name}, {"enabled", yesNo(rule.Enabled)}, {"severity", rule.Severity},
		{"threshold", threshold(rule)}, {"changed", strings.Join(rule.Changed, ", ")}, {"measures", rule.About}})
}

var alertsRules = call[client.Page[client.AlertRule]]{
	use: "rules", short: "List the rules by which alerts fire", example: "grapnel alerts rules --tenant acme",
	path: "/v1/alert-rules", asks: cli.RuleOfTenant, view: paged(ruleHead, ruleRow),
}

func alertsSet(s *session) *cobra.Command {
	var limit float64
	var severity string
	var on, off, reset bool
	c := &cobra.Command{
		Use: "set RULE", Short: "Change a rule: on, off, its threshold or its severity",
		Long: "Change a rule for one tenant. Without --tenant a key that is bound to no tenant changes it for the operator's alerts and for " +
			"every tenant that has not changed the same field.",
		Example: "grapnel alerts set dead_letters --threshold 8 --tenant acme\ngrapnel alerts set disk_full --severity warning\ngrapnel alerts set backlog_age --off",
	}
	c.RunE = s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
		changes := map[string]any{}
		if reset {
			changes["enabled"], changes["threshold"], changes["severity"] = nil, nil, nil
		}
		if c.Flags().Changed("threshold") {
			changes["threshold"] = limit
		}
		if c.Flags().Changed("severity") {
			changes["severity"] = severity
		}
		if on || off {
			changes["enabled"] = on
		}
		if len(changes) == 0 {
			return cli.View{}, cli.Usagef("nothing to change: give a flag that says what")
		}
		return viewOf(r, ruleView)(r.UpdateAlertRule(ctx, c.Flag("tenant").Value.String(), args[0], changes))
	})
	f := c.Flags()
	cli.Bind(f, "set", cli.RuleOfTenant)
	f.Float64Var(&limit, "threshold", 0, "value at which it fires, in the rule's unit")
	f.StringVar(&severity, "severity", "", "page, warning or info")
	f.BoolVar(&on, "on", false, "switch it on")
	f.BoolVar(&off, "off", false, "switch it off; its alerts are resolved")
	f.BoolVar(&reset, "reset", false, "set its fields back")
	c.MarkFlagsMutuallyExclusive("on", "off")
	c.PreRunE = narrows("tenant")
	return c
}

var alertsBacktest = call[client.Backtest]{
	use: "backtest RULE", short: "Say how often a rule would have fired",
	long: "Say how often a rule would have fired, from the stored totals by the hour and the audit. For rules whose facts have no " +
		"history it says so.",
	example: "grapnel alerts backtest dead_letters --for 28d\ngrapnel alerts backtest first_attempts --tenant acme --threshold 10",
	method:  http.MethodPost, path: "/v1/alert-rules/*/backtest", asks: cli.RuleOfTenant, settings: cli.BacktestSettings,
	view: func(r reader, is *client.Backtest) cli.View {
		var times []string
		for i := range is.Times {
			times = append(times, r.Time(&is.Times[i]))
		}
		return object(is.Rule, is.JSON(), [][]string{{"rule", is.Rule}, {"result", is.Sentence}, {"times", strings.Join(times, ", ")}})
	},
}
