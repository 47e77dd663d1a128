package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/web/picture"
	"github.com/grapnelhq/grapnel/policy"
)

// outages are the outages that the page offers, and how many events come per minute in them: the
// longer, the fewer, so that each has about as many.
var (
	outages     = []string{"15m", "1h", "6h", "24h", "72h"}
	outageRates = []int{60, 20, 4, 1, 1}
	outageKinds = []struct {
		name, kind string
		with       map[string]any // what the API wants to know besides
	}{{"Down", "down", nil}, {"30 % errors", "flaky", map[string]any{"error_rate": 0.3}},
		{"12 s slow", "slow", map[string]any{"latency": "12s"}}, {"Answers 422", "status", map[string]any{"status": 422}}}
)

// simulate asks the API what the policy does in an outage, and draws it.
func (m *policyModel) simulate(v *visit, rules *policy.Policy) error {
	q := v.URL.Query()
	chosen := max(slices.Index(outages, q.Get("outage")), 0)
	if q.Get("outage") == "" {
		chosen = slices.Index(outages, "6h")
	}
	kind := 0
	for i, k := range outageKinds {
		if k.kind == q.Get("kind") {
			kind = i
		}
	}
	address := func(outage, kind string) string {
		return v.link(v.URL.EscapedPath() + withQuery("outage", outage, "kind", kind, "with", q.Get("with")))
	}
	for i, o := range outages {
		d, _ := policy.ParseDuration(o)
		m.Choices = append(m.Choices, savedView{say.Spoken(d), address(o, outageKinds[kind].kind), i == chosen})
	}
	for i, k := range outageKinds {
		m.Kinds = append(m.Kinds, savedView{k.name, address(outages[chosen], k.kind), i == kind})
	}
	outage := map[string]any{"kind": outageKinds[kind].kind, "duration": outages[chosen]}
	maps.Copy(outage, outageKinds[kind].with)
	r, err := v.simulated(rules, outage, outageRates[chosen])
	if err != nil {
		return err
	}
	if r == nil {
		m.Picture = &chart{Title: "An outage", Empty: "Other simulations are running. Reload the page in a moment."}
		return nil
	}
	m.draw(r, m.Choices[chosen].Name)
	return m.compare(v, outage, outageRates[chosen])
}

// simulated asks the API for a simulation; nil: others are running.
func (v *visit) simulated(rules *policy.Policy, outage map[string]any, rate int) (*policy.Report, error) {
	whole := *rules
	whole.Preset = "" // every field is given, and the base may be another tenant's
	text, err := v.client.SimulatePolicy(v.Context(), map[string]any{"policy": whole, "outage": outage,
		"rate": fmt.Sprintf("%d/min", rate), "seed": 1})
	if told, ok := errors.AsType[*client.Error](err); ok && told.Status >= 500 {
		return nil, nil
	}
	r := new(policy.Report)
	return r, cmp.Or(err, json.Unmarshal(text, r))
}

// compare has another policy go through the same outage, if the address names one.
func (m *policyModel) compare(v *visit, outage map[string]any, rate int) error {
	q := v.URL.Query()
	with := q.Get("with")
	for _, p := range policy.Presets() {
		if p.Name == m.Name {
			continue
		}
		q.Set("with", p.Name)
		m.Others = append(m.Others, savedView{p.Name, v.link(v.URL.EscapedPath() + "?" + q.Encode()), p.Name == with})
	}
	if with == "" {
		return nil
	}
	other, err := v.client.Policy(v.Context(), with)
	if err != nil {
		return err
	}
	rules, err := policyRules(other)
	if err != nil {
		return err
	}
	r, err := v.simulated(&rules, outage, rate)
	if err != nil || r == nil { // without it the page shows one policy
		return err
	}
	m.With = other.Name
	for i, value := range figuresOf(r) {
		m.Compared[i].With = value
	}
	return nil
}

// figuresOf are the figures of a simulation, in the order of its table.
func figuresOf(r *policy.Report) []string {
	return []string{fmt.Sprintf("%s (%s %%)", say.Count(r.DeadLetters), say.Percent(int64(r.DeadLetters), int64(r.Events))),
		say.Spoken(r.ExtraWait.P50.Std()), say.Spoken(r.ExtraWait.P95.Std()), fmt.Sprintf("%g", r.AttemptsPerEvent), say.Spoken(r.DrainedAfter.Std())}
}

func (m *policyModel) draw(r *policy.Report, outage string) {
	c := chart{Title: "An outage of " + outage, Hint: "simulated; attempts as columns, backlog as a line"}
	c.Says = fmt.Sprintf("Of %s, %s delivered, %s dead letters. The backlog grows to %s.", say.Many(r.Events, "event", "events"),
		say.Count(r.Delivered), say.Count(r.DeadLetters), say.Count(r.PeakBacklog))
	var parts []picture.Slice
	for _, p := range r.Series {
		state := "up"
		if !p.Healthy {
			state = "down"
		}
		parts = append(parts, picture.Slice{Down: !p.Healthy, Attempts: float64(p.Attempts), Backlog: float64(p.Backlog),
			Says: fmt.Sprintf("until %s, %s: %s, backlog %s", say.Spoken(p.At.Std()), state, say.Many(p.Attempts, "attempt", "attempts"), say.Count(p.Backlog))})
	}
	c.Picture = drawn(picture.Outage(parts, c.Says))
	if len(r.Series) > 0 {
		end := r.Series[len(r.Series)-1].At.Std()
		c.Axis = []string{"0", say.Spoken(end / 3), say.Spoken(2 * end / 3), say.Spoken(end)}
	}
	m.Picture = &c
	lost := fmt.Sprintf("%s (%s %%)", say.Count(r.BySchedule.DeadLetters), say.Percent(int64(r.BySchedule.DeadLetters), int64(r.Events)))
	here := figuresOf(r)
	m.Compared = []comparedRow{
		{Name: "Dead letters", Here: here[0], Schedule: lost},
		{Name: "Extra wait, median", Here: here[1], Schedule: say.Spoken(r.BySchedule.ExtraWait.P50.Std())},
		{Name: "Extra wait, p95", Here: here[2], Schedule: say.Spoken(r.BySchedule.ExtraWait.P95.Std())},
		{Name: "Attempts per event", Here: here[3], Schedule: fmt.Sprintf("%g", r.BySchedule.AttemptsPerEvent)},
		{Name: "All caught up after", Here: here[4], Schedule: say.Spoken(r.BySchedule.DrainedAfter.Std())},
	}
	if r.Survives > 0 {
		m.Verdict.Next += fmt.Sprintf(" No event is lost in an outage of up to %s.", say.Spoken(r.Survives.Std()))
	}
}
