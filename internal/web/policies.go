package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/web/picture"
	"github.com/grapnelhq/grapnel/internal/words"
	"github.com/grapnelhq/grapnel/policy"
)

// policiesModel is the list of policies.
type policiesModel struct {
	pager
	Verdict verdict
	Own     []policyRow
	Preset  []policyRow
}

// policyRow is one policy in a list.
type policyRow struct {
	Href, Name, Tenant string
	Attempts           string
	Reach              string
	Then               string
}

func policies(v *visit) (policiesModel, error) {
	m := policiesModel{Verdict: verdict{Acts: v.offers("Add a policy", "/policies/new")}}
	found, err := v.client.Policies(v.Context(), v.web.Bounds.Page, v.URL.Query().Get("cursor"))
	if err != nil {
		return m, err
	}
	for i := range found.Data {
		p := &found.Data[i]
		r := policyRow{Href: v.link(policyPath(p)), Name: p.Name, Tenant: p.Tenant}
		if rules, err := policyRules(p); err == nil {
			reach := rules.Reach()
			r.Attempts, r.Reach, r.Then = attemptsWord(reach.Attempts), spoken(reach.Nominal), thenWords(&rules)
		}
		if p.ID == "" {
			m.Preset = append(m.Preset, r)
		} else {
			m.Own = append(m.Own, r)
		}
	}
	m.pager = v.pager("/policies", v.URL.Query().Get("cursor"), found.Next)
	here := m.here()
	m.Verdict.say("A policy says when a failed delivery is attempted again.", "",
		many(len(m.Own), "policy"+here+" is your own", "policies"+here+" are your own")+" beside "+many(len(m.Preset), "preset", "presets")+".")
	if len(m.Own) == 0 {
		m.Verdict.Next = fmt.Sprintf("There are %s. An endpoint names one of them, or has a policy of its own.", many(len(m.Preset), "preset", "presets"))
	}
	return m, nil
}

// policyPath leads to a policy: a preset by its name, another by its id.
func policyPath(p *client.Policy) string {
	if p.ID == "" {
		return "/policies/" + url.PathEscape(p.Name)
	}
	return "/policies/" + url.PathEscape(p.ID)
}

// policyLink leads to the policy that an endpoint names, if it is a preset.
func (v *visit) policyLink(raw json.RawMessage) string {
	var name string
	if json.Unmarshal(raw, &name) != nil {
		return ""
	}
	if _, known := policy.Preset(name); !known {
		return ""
	}
	return v.link("/policies/" + url.PathEscape(name))
}

// policyRules reads the rules of a policy from the API's answer, which has its owner besides.
func policyRules(p *client.Policy) (policy.Policy, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(p.JSON(), &fields); err != nil {
		return policy.Policy{}, err
	}
	for _, name := range []string{"id", "tenant", "changes", "created_at", "updated_at", "revision"} {
		delete(fields, name)
	}
	doc, err := json.Marshal(fields)
	if err != nil {
		return policy.Policy{}, err
	}
	var rules policy.Policy
	return rules, json.Unmarshal(doc, &rules)
}

func attemptsWord(n int) string {
	if n == 0 {
		return "no limit"
	}
	return strconv.Itoa(n)
}

func thenWords(p *policy.Policy) string {
	if p.OnExhausted == policy.Discard {
		return "discarded"
	}
	return "dead letter"
}

// policyModel is one policy: its reach, an outage under it, its attempts, its contradictions.
type policyModel struct {
	ID, Name string
	Verdict  verdict
	Choices  []savedView
	Kinds    []savedView
	Picture  *chart
	Compared []comparedRow
	With     string      // another policy in the same outage; empty: none
	Others   []savedView // policies to compare with
	Attempts []scheduledRow
	More     string
	Findings []policy.Finding
	Facts    facts
	Links    []act // forms about it
}

// comparedRow is a figure of the simulation, as the policy does it and as its schedule alone would.
type comparedRow struct{ Name, Here, Schedule, With string }

// scheduledRow is one attempt if all before it fail at once.
type scheduledRow struct {
	Number      int
	Wait, Since string
}

// outages are the outages that the page offers, and how many events come per minute in them: the
// longer, the fewer, so that each has about as many.
var (
	outages     = []string{"15m", "1h", "6h", "24h", "72h"}
	outageRates = []int{60, 20, 4, 1, 1}
	outageKinds = []struct{ name, kind string }{{"Down", "down"}, {"30 % errors", "flaky"}, {"12 s slow", "slow"}, {"Answers 422", "status"}}
)

const mostAttempts = 40

func policyPage(v *visit) (policyModel, error) {
	p, err := v.client.Policy(v.Context(), v.PathValue("id"))
	if err != nil {
		return policyModel{}, err
	}
	v.title = p.Name
	m := policyModel{ID: p.ID, Name: p.Name}
	if p.ID == "" {
		for _, a := range v.offers("Copy it into a policy of your own", "/policies/new") {
			a.Href += withQuery("from", p.Name)
			m.Links = append(m.Links, a)
		}
	} else {
		m.Links = v.formLinks("/policies/{id}/", "edit", "Change", "delete", "Delete")
	}
	rules, err := policyRules(p)
	if err != nil {
		m.Verdict.say("This server does not know all rules of the policy.", toneBad, sentence(err.Error()))
		return m, nil
	}
	reach := rules.Reach()
	m.Verdict = policyVerdict(&rules, reach)
	m.schedule(reach)
	m.Findings = policy.Lint(rules.Claims())
	m.rules(v, p, &rules)
	return m, m.simulate(v, &rules)
}

func policyVerdict(p *policy.Policy, reach policy.Reach) (out verdict) {
	times := many(reach.Attempts, "attempt", "attempts") + " within " + spoken(reach.Nominal) + "."
	if reach.Attempts == 0 {
		times = "Attempts without end."
		if p.MaxAge > 0 {
			times = "Attempts for " + spoken(p.MaxAge.Std()) + "."
		}
	}
	out.Pieces = []piece{{times, ""}}
	switch {
	case reach.Attempts != 0:
		out.Next = fmt.Sprintf("A delivery that fails each time is a dead letter after at most %s.", spoken(reach.Longest))
		if p.OnExhausted == policy.Discard {
			out.Next = fmt.Sprintf("A delivery that fails each time is discarded after at most %s.", spoken(reach.Longest))
		}
	case p.MaxAge > 0:
		out.Next = "A delivery that is older is a dead letter."
	}
	return out
}

func (m *policyModel) schedule(reach policy.Reach) {
	before := time.Duration(0)
	for i, at := range reach.Table[:min(len(reach.Table), mostAttempts)] {
		row := scheduledRow{Number: i + 1, Wait: "at once", Since: "–"}
		if at-before > 0 {
			row.Wait = spoken(at - before)
		}
		if at > 0 {
			row.Since = spoken(at)
		}
		m.Attempts = append(m.Attempts, row)
		before = at
	}
	if n := len(reach.Table) - len(m.Attempts); n > 0 {
		m.More = many(n, "further attempt is not shown", "further attempts are not shown")
	}
}

func (m *policyModel) rules(v *visit, p *client.Policy, rules *policy.Policy) {
	kind := "your own, made from " + words.Base(p.Preset, p.Changes)
	if p.ID == "" {
		kind = "a preset"
	}
	shape := rules.RequestShape()
	m.Facts.add("Requests", words.Request(shape.Headers, shape.Transform, shape.Format, shape.Ordering))
	m.Facts.add("It is", kind, "Timeout", spoken(rules.Timeout.Std()), "Jitter", rules.Jitter.String())
	m.Facts.add("Success", strings.Join(rules.Success, ", "), "Retry-After", string(rules.RetryAfter))
	m.Facts.add("Exceptions", pairs(rules.Classify))
	for _, l := range rules.Limits {
		m.Facts.add("After an answer", l.String())
	}
	if rules.MaxAge > 0 {
		m.Facts.add("Oldest delivery", spoken(rules.MaxAge.Std()))
	}
	key := "the key goes on"
	if rules.Then == policy.Block {
		key = "the key waits for an operator"
	}
	m.Facts.add("After the last attempt", thenWords(rules)+"; "+key)
	m.Facts.add("Circuit", circuitWords(rules.BreakerRules()), "An endpoint is disabled", disableWords(&rules.Disable), "Tenant", p.Tenant)
	if !p.UpdatedAt.IsZero() {
		m.Facts.at("Changed", v.at(p.UpdatedAt))
	}
}

// circuitWords says when the circuit of a failing endpoint opens.
func circuitWords(b policy.Breaker) string {
	if b.Off {
		return "none"
	}
	return fmt.Sprintf("opens after %s in a row, or when %g %% fail within %s; probes after %s to %s",
		many(b.Failures, "failure", "failures"), 100*b.Ratio, spoken(b.Window.Std()), spoken(b.Probe.Std()), spoken(b.ProbeMax.Std()))
}

// disableWords says when an endpoint is disabled, and what happens to its pending deliveries.
func disableWords(d *policy.Disable) string {
	var when []string
	if d.Consecutive > 0 {
		row := many(d.Consecutive, "delivery", "deliveries")
		when = append(when, fmt.Sprintf("after %s in a row whose first attempt failed by %s", row, d.Of))
	}
	if d.After > 0 {
		when = append(when, "after "+spoken(d.After.Std())+" without a success")
	}
	if len(when) == 0 {
		return "only by an answer that says so"
	}
	held := "held"
	if d.Pending == policy.PendingDrop {
		held = "dropped"
	}
	return strings.Join(when, ", or ") + "; its pending deliveries are " + held
}

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
		to := url.Values{"outage": {outage}, "kind": {kind}}
		if with := q.Get("with"); with != "" {
			to.Set("with", with)
		}
		return v.link(v.URL.EscapedPath() + "?" + to.Encode())
	}
	for i, o := range outages {
		d, _ := policy.ParseDuration(o)
		m.Choices = append(m.Choices, savedView{spoken(d), address(o, outageKinds[kind].kind), i == chosen})
	}
	for i, k := range outageKinds {
		m.Kinds = append(m.Kinds, savedView{k.name, address(outages[chosen], k.kind), i == kind})
	}
	outage := map[string]any{"kind": outageKinds[kind].kind, "duration": outages[chosen]}
	switch outageKinds[kind].kind {
	case "flaky":
		outage["error_rate"] = 0.3
	case "slow":
		outage["latency"] = "12s"
	case "status":
		outage["status"] = 422
	}
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
	return []string{fmt.Sprintf("%s (%s %%)", count(r.DeadLetters), percent(int64(r.DeadLetters), int64(r.Events))),
		spoken(r.ExtraWait.P50.Std()), spoken(r.ExtraWait.P95.Std()), fmt.Sprintf("%g", r.AttemptsPerEvent), spoken(r.DrainedAfter.Std())}
}

func (m *policyModel) draw(r *policy.Report, outage string) {
	c := chart{Title: "An outage of " + outage, Hint: "simulated; attempts as columns, backlog as a line"}
	c.Says = fmt.Sprintf("Of %s, %s delivered, %s dead letters. The backlog grows to %s.", many(r.Events, "event", "events"),
		count(r.Delivered), count(r.DeadLetters), count(r.PeakBacklog))
	var parts []picture.Slice
	for _, p := range r.Series {
		state := "up"
		if !p.Healthy {
			state = "down"
		}
		parts = append(parts, picture.Slice{Down: !p.Healthy, Attempts: float64(p.Attempts), Backlog: float64(p.Backlog),
			Says: fmt.Sprintf("until %s, %s: %s, backlog %s", spoken(p.At.Std()), state, many(p.Attempts, "attempt", "attempts"), count(p.Backlog))})
	}
	c.Picture = drawn(picture.Outage(parts, c.Says))
	if len(r.Series) > 0 {
		end := r.Series[len(r.Series)-1].At.Std()
		c.Axis = []string{"0", spoken(end / 3), spoken(2 * end / 3), spoken(end)}
	}
	m.Picture = &c
	lost := fmt.Sprintf("%s (%s %%)", count(r.BySchedule.DeadLetters), percent(int64(r.BySchedule.DeadLetters), int64(r.Events)))
	here := figuresOf(r)
	m.Compared = []comparedRow{
		{Name: "Dead letters", Here: here[0], Schedule: lost},
		{Name: "Extra wait, median", Here: here[1], Schedule: spoken(r.BySchedule.ExtraWait.P50.Std())},
		{Name: "Extra wait, p95", Here: here[2], Schedule: spoken(r.BySchedule.ExtraWait.P95.Std())},
		{Name: "Attempts per event", Here: here[3], Schedule: fmt.Sprintf("%g", r.BySchedule.AttemptsPerEvent)},
		{Name: "All caught up after", Here: here[4], Schedule: spoken(r.BySchedule.DrainedAfter.Std())},
	}
	if r.Survives > 0 {
		m.Verdict.Next += fmt.Sprintf(" No event is lost in an outage of up to %s.", spoken(r.Survives.Std()))
	}
}
