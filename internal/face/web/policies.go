package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
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
	m := policiesModel{Verdict: verdict{Acts: v.formLinks("/policies/", "new", "Add a policy")}}
	f := v.listed()
	found, err := v.client.Policies(v.Context(), f)
	if err != nil || len(found.Data) == 0 && v.unfound(&m.Verdict, "policy") {
		return m, err
	}
	for i := range found.Data {
		p := &found.Data[i]
		r := policyRow{Href: v.link(policyPath(p)), Name: p.Name, Tenant: p.Tenant}
		if rules, err := policyRules(p); err == nil {
			reach := rules.Reach()
			r.Attempts, r.Reach, r.Then = attemptsWord(reach.Attempts), say.Spoken(reach.Nominal), thenWords(&rules)
		}
		if p.ID == "" {
			m.Preset = append(m.Preset, r)
		} else {
			m.Own = append(m.Own, r)
		}
	}
	m.pager = v.pager("/policies", f.Cursor, found.Next, "q", f.Search)
	here := m.here()
	m.Verdict.say("A policy says when a failed delivery is attempted again.", "",
		say.Many(len(m.Own), "policy"+here+" is your own", "policies"+here+" are your own")+" beside "+say.Many(len(m.Preset), "preset", "presets")+".")
	if len(m.Own) == 0 {
		m.Verdict.Next = fmt.Sprintf("There are %s. An endpoint names one of them, or has a policy of its own.", say.Many(len(m.Preset), "preset", "presets"))
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

// scheduledRow is one attempt if all before it fail at once.
type scheduledRow struct {
	Number      int
	Wait, Since string
}

const mostAttempts = 40

func policyVerdict(p *policy.Policy, reach policy.Reach) (out verdict) {
	times := say.Many(reach.Attempts, "attempt", "attempts") + " within " + say.Spoken(reach.Nominal) + "."
	if reach.Attempts == 0 {
		times = "Attempts without end."
		if p.MaxAge > 0 {
			times = "Attempts for " + say.Spoken(p.MaxAge.Std()) + "."
		}
	}
	out.Pieces = []piece{{times, ""}}
	switch {
	case reach.Attempts != 0:
		out.Next = fmt.Sprintf("A delivery that fails each time is a dead letter after at most %s.", say.Spoken(reach.Longest))
		if p.OnExhausted == policy.Discard {
			out.Next = fmt.Sprintf("A delivery that fails each time is discarded after at most %s.", say.Spoken(reach.Longest))
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
			row.Wait = say.Spoken(at - before)
		}
		if at > 0 {
			row.Since = say.Spoken(at)
		}
		m.Attempts = append(m.Attempts, row)
		before = at
	}
	if n := len(reach.Table) - len(m.Attempts); n > 0 {
		m.More = say.Many(n, "further attempt is not shown", "further attempts are not shown")
	}
}

func (m *policyModel) rules(v *visit, p *client.Policy, rules *policy.Policy) {
	kind := "your own, made from " + words.Base(p.Preset, p.Changes)
	if p.ID == "" {
		kind = "a preset"
	}
	shape := rules.RequestShape()
	m.Facts.add("Requests", words.Request(shape.Headers, shape.Transform, shape.Format, shape.Ordering))
	m.Facts.add("It is", kind, "Timeout", say.Spoken(rules.Timeout.Std()), "Jitter", rules.Jitter.String())
	m.Facts.add("Success", strings.Join(rules.Success, ", "), "Retry-After", string(rules.RetryAfter))
	m.Facts.add("Exceptions", pairs(rules.Classify))
	for _, l := range rules.Limits {
		m.Facts.add("After an answer", l.String())
	}
	if rules.MaxAge > 0 {
		m.Facts.add("Oldest delivery", say.Spoken(rules.MaxAge.Std()))
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
		say.Many(b.Failures, "failure", "failures"), 100*b.Ratio, say.Spoken(b.Window.Std()), say.Spoken(b.Probe.Std()), say.Spoken(b.ProbeMax.Std()))
}

// disableWords says when an endpoint is disabled, and what happens to its pending deliveries.
func disableWords(d *policy.Disable) string {
	var when []string
	if d.Consecutive > 0 {
		row := say.Many(d.Consecutive, "delivery", "deliveries")
		when = append(when, fmt.Sprintf("after %s in a row whose first attempt failed by %s", row, d.Of))
	}
	if d.After > 0 {
		when = append(when, "after "+say.Spoken(d.After.Std())+" without a success")
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
