// Package monitoring writes the files that other programs need to watch Grapnel: rules for
// Prometheus and a dashboard for Grafana. Both are made from the tables in this package, so a name
// of a metric stands in one place; a test holds every name against a running server.
//
// The promises are those of GUARANTEES.md over 28 days. An alert fires when the budget of a promise
// is used up too fast in a long window and still is in a short one: the long window keeps a spike
// from paging anybody, the short one ends the alert soon after the fault.
package monitoring

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/grapnelhq/grapnel/internal/base/promise"
)

// counted is a promise of package promise, as Prometheus counts it. A server counts the same events
// for its own GET /v1/slo, so both agree.
type counted struct{ promise.Objective }

// all and bad are the events of the promise, and those that broke it, per second over a window,
// which stands for $w.
func (p *counted) all() string { return p.events("") }
func (p *counted) bad() string { return p.events(`,result="bad"`) }

func (p *counted) events(more string) string {
	return fmt.Sprintf(`sum(rate(grapnel_promise_events_total{promise=%q%s}[$w]))`, p.Name, more)
}

// firstAttempts is the part of the first attempts that succeeded.
const firstAttempts = `sum(rate(grapnel_first_attempts_total{result="success"}[1h])) / ` +
	`(sum(rate(grapnel_first_attempts_total[1h])) > 0)`

// sign is an alert that is no promise: something is wrong or will be soon.
type sign struct {
	name, severity string
	expression     string
	lasts          time.Duration
	summary, doing string
}

func signs() []sign {
	return []sign{
		{"GrapnelDown", "page", `absent(grapnel_build_info)`, 2 * time.Minute, "no Grapnel answers", "Is the process running, and is /metrics reachable with its key?"},
		{"GrapnelAuditImbalance", "page", `grapnel_audit_imbalance != 0`, 2 * time.Minute, "the counts of deliveries do not agree",
			"This is a defect of Grapnel. Report it with the log, and keep the database."},
		{"GrapnelStoreFull", "page", `grapnel_store_full == 1`, 0, "new events are refused: there is no room", "Free some space; publishing works again by itself."},
		{"GrapnelRecordsFail", "page", `increase(grapnel_record_failures_total[10m]) > 0`, 5 * time.Minute, "outcomes cannot be stored and are repeated",
			"The store is in trouble: read the log, look at the disk and the database."},
		{"GrapnelShardsWithoutOwner", "page",
			`sum by (job) (grapnel_shards{state="held"}) < 256`, 2 * time.Minute,
			"some endpoints have no node", "grapnel cluster status says which nodes are up; check their connection to the database."},
		{"GrapnelBackupsFail", "ticket", `max by (job) (grapnel_backup_failures) > 0`, 0, "scheduled backups fail",
			"The log says why: is the directory there, and has its disk enough space?"},
		{"GrapnelStoreSlow", "ticket", `max(grapnel_commit_average_seconds) > 0.25`, 10 * time.Minute, "commits take more than 250 ms",
			"The disk or the database is too slow for the load."},
		{"GrapnelBacklogGrows", "ticket", `max by (job) (grapnel_pending) > 1000 and max by (job) (deriv(grapnel_pending[30m])) > 0`, time.Hour,
			"pending deliveries have grown for an hour", "grapnel endpoints list says which endpoint holds them and why."},
		{"GrapnelDeadLetters", "ticket",
			`sum(increase(grapnel_dead_letters_total[1h])) > 10 and sum(increase(grapnel_dead_letters_total[1h])) > 5 * sum(increase(grapnel_dead_letters_total[7d])) / 168`,
			0, "five times as many dead letters as usual",
			"grapnel why ENDPOINT says what they have in common; grapnel dlq replay --endpoint ENDPOINT delivers them again."},
		{"GrapnelCircuitsOpen", "ticket", `sum(increase(grapnel_breaker_transitions_total{to="open"}[5m])) >= 10`, 0, "many circuits opened at once",
			"Many receivers seldom fail together: look at DNS, the network and the proxy on this side."},
		{"GrapnelSignatures", "ticket", `sum(increase(grapnel_signature_failures_total[15m])) > 10`, 5 * time.Minute,
			"webhooks come in with wrong signatures", "A secret was rotated at the provider only, or requests are forged: grapnel sources get SOURCE says why they were refused, " +
				"grapnel inbox list --outcome unverified shows those that a source quarantines."},
		{"GrapnelLeasesExpire", "ticket", `sum(increase(grapnel_queue_settled_total{action="expire"}[15m])) > 10`, 5 * time.Minute, "consumers do not settle their leases in time",
			"Workers die, or are slower than their lease."},
		{"GrapnelAlertsNotSent", "page",
			`sum by (channel) (increase(grapnel_alerts_sent_total{result!="success"}[15m])) > 0 unless sum by (channel) (increase(grapnel_alerts_sent_total{result="success"}[15m])) > 0`,
			5 * time.Minute, "alerts do not reach {{ $labels.channel }}", "grapnel channels list and grapnel channels test say why; unsent alerts are tried again."},
	}
}

// The documents of Prometheus.
type (
	file  struct{ Groups []group }
	group struct {
		Name     string
		Interval string `yaml:",omitempty"`
		Rules    []rule
	}
	rule struct {
		Record      string            `yaml:",omitempty"`
		Alert       string            `yaml:",omitempty"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:",omitempty"`
		Labels      map[string]string `yaml:",omitempty"`
		Annotations map[string]string `yaml:",omitempty"`
	}
)

// Rules is a file of rules for Prometheus.
func Rules() ([]byte, error) { return encode(append(kept(), seen())...) }

func encode(groups ...group) ([]byte, error) {
	text, err := yaml.Marshal(file{groups})
	return append([]byte("# Rules for Prometheus, written by: grapnel monitoring export\n"), text...), err
}

// kept are the rules about promises with a budget that can burn. A look that finds deliveries
// missing pages at once (GrapnelAuditImbalance).
func kept() (groups []group) {
	for _, name := range []string{promise.Availability, promise.Freshness} {
		o, _ := promise.Find(name)
		groups = append(groups, (&counted{o}).rules())
	}
	return groups
}

// seen are the alerts about signs, and what people look at beside them.
func seen() group {
	g := group{Name: "grapnel-signs", Rules: []rule{{Record: "grapnel_first_attempt_success_ratio", Expr: firstAttempts}}}
	for _, s := range signs() {
		r := rule{Alert: s.name, Expr: s.expression, Labels: map[string]string{"severity": s.severity},
			Annotations: map[string]string{"summary": "Grapnel: " + s.summary, "description": s.doing}}
		if s.lasts > 0 {
			r.For = span(s.lasts)
		}
		g.Rules = append(g.Rules, r)
	}
	return g
}

// rules are the ratio of failures in each window, and the alerts about them.
func (p *counted) rules() group {
	g := group{Name: "grapnel-" + p.Name, Interval: "30s"}
	for _, w := range windows() {
		in := strings.NewReplacer("$w", span(w))
		g.Rules = append(g.Rules,
			rule{Record: p.ratio(w), Expr: "(" + in.Replace(p.bad()) + ") / (" + in.Replace(p.all()) + " > 0)"},
			rule{Record: p.count(w), Expr: "(" + in.Replace(p.all()) + ") * " + strconv.Itoa(int(w.Seconds()))})
	}
	for _, b := range promise.Burns() {
		limit := strconv.FormatFloat(b.Threshold(&p.Objective), 'g', 4, 64)
		g.Rules = append(g.Rules, rule{
			Alert: "Grapnel" + strings.ToUpper(p.Name[:1]) + p.Name[1:] + "Burns",
			Expr: fmt.Sprintf("%s > %s and %s > %s and %s >= %d", p.ratio(b.Long), limit, p.ratio(b.Short), limit, p.count(b.Short),
				promise.LeastEvents),
			Labels: map[string]string{"severity": b.Severity, "window": span(b.Long)},
			Annotations: map[string]string{
				"summary": fmt.Sprintf("Grapnel: the budget of its promise of %s is used up %g times too fast", p.Name, b.Rate),
				"description": fmt.Sprintf("The promise over 28 days: %g %% of %s. Of the last %s {{ $value | humanizePercentage }} were not.",
					100*p.Share, p.Says, span(b.Long)),
			},
		})
	}
	return g
}

func (p *counted) ratio(w time.Duration) string { return "grapnel:" + p.Name + ":bad_ratio_" + span(w) }

func (p *counted) count(w time.Duration) string { return "grapnel:" + p.Name + ":events_" + span(w) }

// windows are all windows of the alerts, the shortest first.
func windows() []time.Duration {
	return []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour}
}

// span is a duration in one unit, as Prometheus reads it.
func span(d time.Duration) string {
	if d%time.Hour == 0 {
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/time.Minute)) + "m"
}
