package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/policy"
)

type simulateInput struct {
	Policy   any    `json:"policy,omitempty" jsonschema:"name of a policy, or a policy as an object; the default policy if not given"`
	Outage   string `json:"outage" jsonschema:"how long the outage lasts, such as 6h"`
	Kind     string `json:"kind,omitempty" jsonschema:"down, flaky:0.3 (this share of attempts fails), slow:12s or status:422; down if not given"`
	After    string `json:"after,omitempty" jsonschema:"time before the outage"`
	Rate     string `json:"rate,omitempty" jsonschema:"rate of events, such as 4/min or 10/s; 4/min if not given"`
	Duration string `json:"duration,omitempty" jsonschema:"how long events arrive; until the outage ends if not given"`
	Keys     int    `json:"keys,omitempty" jsonschema:"number of ordering keys of the events; 0: no order"`
	Seed     uint64 `json:"seed,omitempty" jsonschema:"jitter seed; 1 if not given"`
}

type simulated struct {
	Policy           quoted  `json:"policy"`
	Events           int     `json:"events"`
	Delivered        int     `json:"delivered"`
	Lost             int     `json:"lost" jsonschema:"dead letters and discarded events"`
	Blocked          int     `json:"blocked,omitempty" jsonschema:"held behind a dead letter of their key"`
	Held             int     `json:"held,omitempty" jsonschema:"held at the disabled endpoint"`
	Dropped          int     `json:"dropped,omitempty"`
	Attempts         int     `json:"attempts"`
	AttemptsPerEvent float64 `json:"attempts_per_event"`
	WaitP50          string  `json:"extra_wait_p50"`
	WaitP95          string  `json:"extra_wait_p95"`
	WaitMax          string  `json:"extra_wait_max"`
	Drained          string  `json:"drained_after" jsonschema:"from the end of the outage"`
	Disabled         string  `json:"disabled_after,omitempty" jsonschema:"when the endpoint was disabled"`
	PeakBacklog      int     `json:"peak_backlog"`
	Survives         string  `json:"survives" jsonschema:"the longest complete outage in which no event is lost"`
}

// simulate asks the server what a policy does during an outage. Durations, rates and the policy go
// to it as they came; it names those that it refuses.
func simulate(ctx context.Context, c *call, in simulateInput) (*simulated, error) {
	name, value, _ := strings.Cut(in.Kind, ":")
	outage := map[string]any{"duration": in.Outage}
	switch policy.OutageKind(name) {
	case "", policy.OutageDown:
		name = string(policy.OutageDown)
	case policy.OutageFlaky:
		share, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, wrong("kind", "%q has no share of attempts, as flaky:0.3 has", in.Kind)
		}
		outage["error_rate"] = share
	case policy.OutageSlow:
		outage["latency"] = value
	case policy.OutageStatus:
		code, err := strconv.Atoi(value)
		if err != nil {
			return nil, wrong("kind", "%q has no status code, as status:422 has", in.Kind)
		}
		outage["status"] = code
	default:
		return nil, wrong("kind", "%q is unknown; give down, flaky:0.3, slow:12s or status:422", in.Kind)
	}
	outage["kind"] = name
	question := map[string]any{"outage": outage}
	if in.After != "" {
		outage["after"] = in.After
	}
	raw, err := c.policyArgument()
	if err != nil {
		return nil, err
	}
	if raw != nil {
		question["policy"] = raw
	}
	for member, text := range map[string]string{"rate": in.Rate, "duration": in.Duration} {
		if text != "" {
			question[member] = text
		}
	}
	if in.Keys != 0 {
		question["keys"] = in.Keys
	}
	if in.Seed != 0 {
		question["seed"] = in.Seed
	}
	doc, err := c.Client.SimulatePolicy(ctx, question)
	if err != nil {
		return nil, err
	}
	var r policy.Report
	if err := json.Unmarshal(doc, &r); err != nil {
		return nil, fmt.Errorf("the server's report cannot be read: %w", err)
	}
	out := &simulated{Policy: c.text(r.Policy), Events: r.Events, Delivered: r.Delivered, Lost: r.DeadLetters + r.Discarded,
		Blocked: r.Blocked, Held: r.Held, Dropped: r.Dropped, Attempts: r.Attempts, AttemptsPerEvent: r.AttemptsPerEvent, WaitP50: r.ExtraWait.P50.String(),
		WaitP95: r.ExtraWait.P95.String(), WaitMax: r.ExtraWait.Max.String(), Drained: r.DrainedAfter.String(), PeakBacklog: r.PeakBacklog,
		Survives: r.Survives.String()}
	if r.DisabledAfter > 0 {
		out.Disabled = r.DisabledAfter.String()
	}
	return out, nil
}

// policyArgument is the argument policy as it came; nil: it was not given.
func (c *call) policyArgument() (json.RawMessage, error) {
	var in struct {
		Policy json.RawMessage `json:"policy"`
	}
	err := json.Unmarshal(c.arguments, &in)
	if string(in.Policy) == "null" {
		in.Policy = nil
	}
	return in.Policy, err
}

func (s *simulated) say(p *prose) {
	p.say("Policy %s: of %s, %d are delivered and %d lost, with %.1f attempts for each event that the outage concerns.", s.Policy,
		say.Many(s.Events, "event", "events"), s.Delivered, s.Lost, s.AttemptsPerEvent)
	p.say("Delayed events wait %s longer than the outage forces (half of them), %s (95 %%), %s at most; the backlog is delivered %s after the outage.",
		s.WaitP50, s.WaitP95, s.WaitMax, s.Drained)
	p.say("The policy survives a complete outage of %s without a loss.", s.Survives)
	if s.Disabled != "" {
		p.say("The endpoint is disabled after %s: %d events are held, %d are dropped.", s.Disabled, s.Held, s.Dropped)
	}
	if s.Blocked > 0 {
		p.say("%d events are blocked behind a dead letter of their key.", s.Blocked)
	}
}

func (*simulated) shorten() bool { return false }

type lintInput struct {
	Policy       any    `json:"policy" jsonschema:"name or id of a policy, or a policy as an object"`
	SaysAttempts int    `json:"says_attempts,omitempty" jsonschema:"number of attempts that users are told"`
	SaysWindow   string `json:"says_window,omitempty" jsonschema:"time span of the attempts that users are told, such as 36h"`
	DedupeWindow string `json:"dedupe_window,omitempty" jsonschema:"how long receivers remember events"`
	Kept         string `json:"dead_letters_kept,omitempty" jsonschema:"how long dead letters are retained, from acceptance on"`
}

type linted struct {
	Policy   quoted        `json:"policy"`
	Attempts int           `json:"attempts" jsonschema:"0: more than 10000"`
	Reaches  string        `json:"reaches" jsonschema:"from the first attempt to the last, without jitter"`
	Longest  string        `json:"longest" jsonschema:"the same with all jitter"`
	Table    []string      `json:"table,omitempty" jsonschema:"when each attempt is made, since the first one"`
	Findings []findingFact `json:"findings,omitempty" jsonschema:"contradictions"`
	Omitted  int           `json:"omitted,omitempty" jsonschema:"rows that were left out to keep the answer short"`
}

type findingFact struct {
	Code   string `json:"code"`
	Rule   string `json:"rule"`
	Detail quoted `json:"detail"`
}

// lint compares a policy with what its users are told. It needs the server for named policies only.
func lint(ctx context.Context, c *call, in lintInput) (*linted, error) {
	p, err := policyOf(ctx, c)
	if err != nil {
		return nil, err
	}
	claims := p.Claims()
	if in.SaysAttempts > 0 {
		claims.Schedule.Attempts = in.SaysAttempts
	}
	for _, told := range []struct {
		argument, text string
		take           func(policy.Duration)
	}{
		{"says_window", in.SaysWindow, func(d policy.Duration) { claims.Schedule.Window = d }},
		{"dedupe_window", in.DedupeWindow, func(d policy.Duration) {
			claims.Receive = append(claims.Receive, policy.ReceiveClaims{Name: "receivers", Window: d})
		}},
		{"dead_letters_kept", in.Kept, func(d policy.Duration) { claims.Keeping = policy.KeepingClaims{DeadLetters: d, From: "dispatch"} }},
	} {
		if told.text == "" {
			continue
		}
		d, err := policy.ParseDuration(told.text)
		if err != nil {
			return nil, wrong(told.argument, "%q is no duration; give one such as 36h or 30d", told.text)
		}
		told.take(policy.Duration(d))
	}
	reach := p.Reach()
	out := &linted{Policy: c.text(p.Name), Attempts: reach.Attempts, Reaches: policy.Duration(reach.Nominal).String(),
		Longest: policy.Duration(reach.Longest).String()}
	n := min(len(reach.Table), c.Bounds.Rows)
	out.Omitted = len(reach.Table) - n
	for _, after := range reach.Table[:n] {
		out.Table = append(out.Table, policy.Duration(after).String())
	}
	for _, f := range policy.Lint(claims) {
		out.Findings = append(out.Findings, findingFact{f.Code, f.Rule, c.text(f.Detail)})
	}
	return out, nil
}

// policyOf is the policy of the argument: a preset or a policy of the tenant by its name or id, or
// an object.
func policyOf(ctx context.Context, c *call) (p policy.Policy, err error) {
	raw, err := c.policyArgument()
	if err != nil {
		return p, err
	}
	var name string
	if json.Unmarshal(raw, &name) != nil {
		return cli.ParsePolicy(raw)
	}
	if p, known := policy.Preset(name); known {
		return p, nil
	}
	if strings.HasPrefix(name, "pol_") {
		kept, err := c.Client.Policy(ctx, name)
		if err != nil {
			return p, err
		}
		return cli.ReadPolicy(kept.JSON())
	}
	page, err := c.Client.Policies(ctx, client.ListFilter{Search: name, Limit: c.Bounds.Rows})
	if err != nil {
		return p, err
	}
	for i := range page.Data {
		if page.Data[i].Name == name {
			return cli.ReadPolicy(page.Data[i].JSON())
		}
	}
	return p, wrong("policy", "no preset and no policy has the name %q", name)
}

func (l *linted) say(p *prose) {
	attempts := say.Many(l.Attempts, "attempt", "attempts")
	if l.Attempts == 0 {
		attempts = "more than 10000 attempts"
	}
	p.say("Policy %s makes %s within %s (%s with all jitter).", l.Policy, attempts, l.Reaches, l.Longest)
	if len(l.Findings) == 0 {
		p.say("No contradiction was found.")
	}
	for _, f := range l.Findings {
		p.say("%s, %s: %s", f.Code, f.Rule, f.Detail)
	}
	p.left(l.Omitted, "")
}

func (l *linted) shorten() bool {
	if len(l.Table) > 0 {
		return halve(&l.Table, &l.Omitted)
	}
	return halve(&l.Findings, &l.Omitted)
}
