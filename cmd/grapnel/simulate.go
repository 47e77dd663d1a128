package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/policy"
)

func (s *session) simulateCommand() *cobra.Command {
	var names []string
	var outage, after, kind, rate, duration, failIf string
	var keys int
	var seed uint64
	c := &cobra.Command{
		Use: "simulate", Short: "Show what policies do during an outage",
		Long: "Show what policies do to events during an outage of the endpoint, and below each what its schedule alone would " +
			"do. The rules are the server's, no server is needed, and the result is the same each time.\n\n" +
			"With --fail-if it exits with 8 when a jq expression over a report is true.",
		Example: "grapnel simulate --outage 6h --policy paylera --policy standard\n" +
			"grapnel simulate --outage 72h --policy @ours.json --fail-if '.dead_letters > 0'\n" +
			"grapnel simulate --outage 1h --kind flaky:0.3 --rate 10/s --duration 2h --keys 50",
		RunE: s.withPrinter(func(ctx context.Context, p *cli.Printer, _ []string) error {
			failed, err := cli.Condition(failIf)
			if err != nil {
				return cli.Usagef("--fail-if: %v", err)
			}
			question := scenario{Outage: outageOf(kind, outage, after), Rate: rate, Duration: duration, Keys: keys, Seed: seed}
			var reports []policy.Report
			for _, name := range names {
				report, err := simulated(ctx, s, question, name)
				if err != nil {
					return err
				}
				reports = append(reports, report)
			}
			if err := p.Print(simulationView(reports)); err != nil {
				return err
			}
			var bad []string
			for _, r := range reports {
				holds, err := failed(cli.Encode(r))
				if err != nil {
					return cli.Usagef("--fail-if: %v", err)
				}
				if holds {
					bad = append(bad, r.Policy)
				}
			}
			return cli.Findings("--fail-if is true for %s", strings.Join(bad, ", ")).If(len(bad) > 0)
		}),
	}
	f := c.Flags()
	f.StringArrayVar(&names, "policy", []string{policy.DefaultPreset}, "name of a policy, a policy as JSON, @FILE or -; may be repeated to compare")
	f.StringVar(&outage, "outage", "", "how long the outage lasts")
	f.StringVar(&after, "after", "0s", "time before the outage")
	f.StringVar(&kind, "kind", "down", "flaky:0.3 fails this share of attempts; slow:12s delays responses; status:422 answers this")
	f.StringVar(&rate, "rate", "4/min", "rate of events, such as 4/min or 10/s")
	f.StringVar(&duration, "duration", "", "how long events arrive; if not given, until the outage ends")
	f.IntVar(&keys, "keys", 0, "number of ordering keys of the events; 0: no order")
	f.Uint64Var(&seed, "seed", 1, "jitter seed")
	cli.Form(f, "down|flaky:SHARE|slow:DURATION|status:CODE", "kind")
	cli.Sets(f, "outage", "outage/duration")
	cli.Sets(f, "after", "outage/after")
	cli.Sets(f, "kind", "outage/kind", "outage/error_rate", "outage/latency", "outage/status")
	f.StringVar(&failIf, "fail-if", "", "jq expression over a report; when it is true the command exits with 8")
	return needs(c, "outage")
}

// scenario is the JSON that the policy package reads a scenario from.
type scenario struct {
	Policy   policy.Policy  `json:"policy"`
	Outage   map[string]any `json:"outage"`
	Rate     string         `json:"rate"`
	Duration string         `json:"duration,omitempty"`
	Keys     int            `json:"keys"`
	Seed     uint64         `json:"seed"`
}

// outageOf reads "flaky:0.3", "slow:12s" and "status:422".
func outageOf(kind, duration, after string) map[string]any {
	name, value, _ := strings.Cut(kind, ":")
	o := map[string]any{"kind": name, "duration": duration, "after": after}
	switch policy.OutageKind(name) {
	case policy.OutageFlaky:
		o["error_rate"] = json.Number(value)
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			o["error_rate"] = value // the parser reports it
		}
	case policy.OutageSlow:
		o["latency"] = value
	case policy.OutageStatus:
		o["status"] = json.Number(value)
		if _, err := strconv.Atoi(value); err != nil {
			o["status"] = value // the parser reports it
		}
	}
	return o
}

func simulated(ctx context.Context, s *session, question scenario, argument string) (policy.Report, error) {
	p, err := policyArgument(ctx, s, argument)
	if err != nil {
		return policy.Report{}, err
	}
	question.Policy = p
	sc, err := policy.ParseScenario(cli.Encode(question), nil)
	if err != nil {
		return policy.Report{}, cli.FaultsInFlags(s.command, err)
	}
	report := policy.Simulate(sc)
	report.Policy = cmp.Or(report.Policy, argument)
	return report, nil
}

func simulationView(reports []policy.Report) cli.View {
	var v cli.View
	table := cli.Part{Head: []string{"POLICY", "EVENTS", "LOST", "TRIES/EVENT", "WAIT P50", "P95", "MAX", "DRAINED", "NOTICED", "PROBES",
		"BACKLOG", "SURVIVES"}}
	for _, r := range reports {
		doc := cli.Encode(r)
		v.Items = append(v.Items, cli.Item{Name: r.Policy, JSON: doc})
		noticed := seconds(r.NoticedAfter)
		if r.NoticedAfter == 0 {
			noticed = "-"
		}
		table.Rows = append(table.Rows, []string{
			r.Policy, strconv.Itoa(r.Events), lostOf(r), tries(r.AttemptsPerEvent),
			seconds(r.ExtraWait.P50), seconds(r.ExtraWait.P95), seconds(r.ExtraWait.Max), seconds(r.DrainedAfter),
			noticed, strconv.Itoa(r.Probes), strconv.Itoa(r.PeakBacklog), seconds(r.Survives),
		})
		if s := r.BySchedule; r.Opened > 0 || r.DisabledAfter > 0 {
			table.Rows = append(table.Rows, []string{
				"  by schedule alone", "", portion(s.DeadLetters+s.Discarded, r.Events), tries(s.AttemptsPerEvent),
				seconds(s.ExtraWait.P50), seconds(s.ExtraWait.P95), seconds(s.ExtraWait.Max), seconds(s.DrainedAfter),
			})
		}
	}
	v.Parts = []cli.Part{table}
	if len(reports) == 1 {
		v.JSON = v.Items[0].JSON
		v.Parts = append(v.Parts, picture(reports[0]))
	} else {
		v.JSON = listDocument(v.Items)
	}
	return v
}

// seconds is a duration, rounded for people.
func seconds(d policy.Duration) string {
	unit := time.Second
	if d.Std() < time.Minute {
		unit /= 10
	}
	return policy.Duration(d.Std().Round(unit)).String()
}

func tries(each float64) string { return strconv.FormatFloat(each, 'f', 1, 64) }

// lostOf counts the events that need a person afterwards.
func lostOf(r policy.Report) string {
	text := portion(r.DeadLetters+r.Discarded, r.Events)
	if r.Blocked > 0 {
		text += fmt.Sprintf(", %d blocked", r.Blocked)
	}
	if r.DisabledAfter > 0 {
		text += fmt.Sprintf(", disabled after %s: %d held, %d dropped", seconds(r.DisabledAfter), r.Held, r.Dropped)
	}
	return text
}

// portion is a number with its share of the whole.
func portion(n, of int) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s %%)", n, say.Percent(int64(n), int64(of)))
}

// picture draws the time line of a report.
func picture(r policy.Report) cli.Part {
	var outage strings.Builder
	var attempts, backlog []int
	end := policy.Duration(0)
	for _, p := range r.Series {
		outage.WriteString(map[bool]string{true: " ", false: "▒"}[p.Healthy])
		attempts, backlog, end = append(attempts, p.Attempts), append(backlog, p.Backlog), p.At
	}
	return cli.Part{Title: "Over " + seconds(end), Rows: [][]string{
		{"outage", outage.String()}, {"attempts", bars(attempts, 1)}, {"backlog", bars(backlog, 1)},
	}}
}

// bars draws numbers as a line of bars, each some columns wide. The largest is a full bar, and every
// other number above zero is at least the lowest one.
func bars[N int | int64](values []N, columns int) string {
	levels := []rune(" ▁▂▃▄▅▆▇█")
	most := slices.Max(append([]N{1}, values...))
	var line strings.Builder
	for _, v := range values {
		level := v * N(len(levels)-1) / most
		if v > 0 {
			level = max(level, 1)
		}
		line.WriteString(strings.Repeat(string(levels[level]), columns))
	}
	return strings.TrimRight(line.String(), " ")
}
