package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/policy"
)

// policyRequest has the members of the request that makes a policy.
type policyRequest struct {
	policy.Policy
	Tenant string `json:"tenant"`
}

var policyBlank = blank{of: reflect.TypeFor[policyRequest](), rows: []input{
	{group: "The policy", at: "name", label: "Name", sample: "patient", help: "endpoints name it. It cannot change while one does"},
	{at: "preset", label: "Made from", kind: kindText, sample: "standard",
		help: "a preset, or a policy of yours. Headers, transform, format and order of the preset apply where an endpoint says nothing"},
	{at: "tenant", label: "Tenant", when: "create", owner: true, sample: "default"},
	{group: "Attempts", at: "schedule/mode", label: "Pauses", kind: kindChoice},
	{at: "schedule/delays", label: "Table of pauses", sample: "0s\n5s\n5m", help: "one on each line; the first is before the first attempt. Not for exponential pauses",
		pauses: pausesTable},
	{at: "schedule/tail", label: "After the table", kind: kindChoice, pauses: pausesTable},
	{at: "schedule/base", label: "First pause", kind: kindText, sample: "5s", help: "exponential only", pauses: pausesExponential},
	{at: "schedule/factor", label: "Factor", kind: kindNumber, sample: "2", help: "exponential only", pauses: pausesExponential},
	{at: "schedule/max", label: "Longest pause", kind: kindText, sample: "1h", help: "exponential only", pauses: pausesExponential},
	{at: "max_attempts", label: "Most attempts", kind: kindNumber, help: "Empty: no limit"},
	{at: "max_age", label: "Oldest delivery", kind: kindText, sample: "72h",
		help: "an older delivery is not attempted again. Empty: no limit"},
	{at: "jitter", label: "Jitter", kind: kindValue, sample: "0.1", help: "0.1 adds up to 10 % to a pause, so that retries do not come all at once"},
	{at: "timeout", label: "Timeout", kind: kindText, sample: "15s", help: "of one attempt, from the connection to the end of the answer"},
	{group: "Answers", at: "success", label: "Success", kind: kindLines, sample: "2xx", help: "one on each line: 200, 2xx or 200-299"},
	{at: "classify", label: "Exceptions", kind: kindPairs, sample: "410: disable", help: "one on each line: a status or an error, and deliver, retry, fail, throttle or disable"},
	{at: "limits", label: "Limits", kind: kindJSON, sample: `[{"codes": ["422"], "attempts": 3, "within": "10m"}]`,
		help: "as JSON: after an answer with one of the codes, fewer attempts and less time"},
	{at: "retry_after", label: "Retry-After", kind: kindChoice},
	{group: "After the last attempt", at: "on_exhausted", label: "The delivery", kind: kindChoice},
	{at: "then", label: "Its key", kind: kindChoice, help: "with block, no later event of the key overtakes one that failed"},
	{group: "When an endpoint fails", at: "breaker", label: "Circuit", kind: kindValue, sample: `{"failures": 5}`, help: "as JSON. Empty: the default circuit. false: none"},
	{at: "disable/consecutive", label: "Disable after failed deliveries in a row", kind: kindNumber, help: "0: never"},
	{at: "disable/of", label: "Failures that count for it", kind: kindChoice, help: "the kind of failure of a delivery's first attempt"},
	{at: "disable/after", label: "Disable after time without a success", kind: kindText, sample: "120h", help: "0s: never"},
	{at: "disable/pending", label: "Pending deliveries of a disabled endpoint", kind: kindChoice},
}}

var policyChoices = map[string][]option{
	"schedule/mode": {{Value: "since_previous", Word: "a table, from attempt to attempt"}, {Value: "since_first", Word: "a table, from the first attempt on"},
		{Value: pausesExponential, Word: "exponential"}},
	"schedule/tail": {{Value: "stop", Word: "stop"}, {Value: "repeat", Word: "repeat the last pause"}, {Value: "", Word: "not set"}},
	"retry_after":   {{Value: "extend", Word: "may lengthen a pause"}, {Value: "ignore", Word: "is ignored"}},
	"on_exhausted":  {{Value: "dead_letter", Word: "is a dead letter, to be replayed"}, {Value: "discard", Word: "is discarded"}},
	"then": {{Value: "advance", Word: "advance: its next event goes out"},
		{Value: "block", Word: "block: the key waits for an operator"}},
	"disable/of":      failures(),
	"disable/pending": {{Value: "hold", Word: "are held"}, {Value: "drop", Word: "are dropped"}},
}

// failures are the kinds of failures that a choice offers.
func failures() []option {
	all := []option{{Value: "", Word: "not set"}}
	for _, c := range policy.Classes() {
		if c != policy.ClassNone && c != policy.ClassInternal {
			all = append(all, option{Value: string(c), Word: string(c)})
		}
	}
	return all
}

var foldedOfPolicies = []string{"Answers", "When an endpoint fails"}

// policyFormModel is the form of a policy, with what it would do.
type policyFormModel struct {
	formModel
	Shown    policyModel // empty: the policy cannot be used as it is
	Rehearse bool
}

// fill puts the values of an object into a new form.
func (f *form) fill(doc json.RawMessage) {
	for i := range f.Groups {
		for j := range f.Groups[i].Fields {
			at := &f.Groups[i].Fields[j]
			at.set(textOf(at.Kind, descend(doc, at.Name)))
		}
	}
}

func newPolicy(v *visit) (policyFormModel, error) {
	var m policyFormModel
	f := v.form(&policyBlank, nil, policyChoices, foldedOfPolicies...)
	m.formModel = v.formPage("Add a policy", f, "Add the policy")
	m.Form.Preview = "Preview"
	m.Verdict.say("When should a failed delivery be attempted again?", "",
		"Begin with a preset. The picture shows an outage of 6 h under the policy that you type in; nothing is saved before the button.")
	if v.again() {
		return m, m.rehearse(v)
	}
	from := v.URL.Query().Get("from")
	preset, known := policy.Preset(from)
	if !known {
		from = policy.DefaultPreset
		preset, _ = policy.Preset(from)
	}
	for _, p := range policy.Presets() {
		m.Views = append(m.Views, savedView{p.Name, v.link("/policies/new" + withQuery("from", p.Name)), p.Name == from})
	}
	preset.Name = ""
	doc, err := json.Marshal(preset)
	if err != nil {
		return m, err
	}
	m.Form.fill(doc)
	return m, m.show(v, &preset)
}

func editPolicy(v *visit, p *client.Policy) (policyFormModel, error) {
	var m policyFormModel
	if p.ID == "" {
		return m, refused(http.StatusConflict, "A preset cannot be changed.", "Add a policy of your own that begins with it.")
	}
	f := v.form(&policyBlank, p.JSON(), policyChoices, foldedOfPolicies...)
	m.formModel = v.formPage("Change "+p.Name, f, "Save", v.below("/policies", p.Name, p.ID, "Change")...)
	m.Form.Preview = "Preview"
	m.Verdict.say("Change "+p.Name+".", "",
		"Endpoints that name it use the change at once, also for deliveries that are pending. The picture shows an outage of 6 h under it.")
	if v.again() {
		return m, m.rehearse(v)
	}
	rules, err := policyRules(p)
	if err != nil {
		return m, nil // the form shows what this server knows of it
	}
	return m, m.show(v, &rules)
}

// typedPolicy is the policy in the form as a whole document. Limits that are empty are no limits.
func (v *visit) typedPolicy() (map[string]any, error) {
	doc, own := v.creation(&policyBlank)
	for _, limit := range []string{"max_attempts", "max_age"} {
		if _, given := doc[limit]; !given {
			doc[limit] = nil
		}
	}
	if _, given := doc["limits"]; !given {
		doc["limits"] = []any{}
	}
	return doc, own
}

// rehearse shows what the policy in the form would do, or puts its faults at the inputs.
func (m *policyFormModel) rehearse(v *visit) error {
	doc, own := v.typedPolicy()
	delete(doc, "tenant")
	delete(doc, "name")
	delete(doc, "preset") // the form has every rule
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	rules, err := policy.Parse(text)
	if err == nil {
		return m.show(v, &rules)
	}
	if v.refusal != nil { // the form has its faults already
		return nil
	}
	var wrong policy.Errors
	if errors.As(err, &wrong) {
		var fields []client.Field
		for _, e := range wrong {
			fields = append(fields, client.Field{Pointer: e.Pointer, Detail: e.Detail})
		}
		err = invalid(fields...)
	}
	var told *client.Error
	if err = joined(own, err); !errors.As(err, &told) {
		return err
	}
	m.Form.place(told)
	return nil
}

// show simulates the policy, and finds its contradictions.
func (m *policyFormModel) show(v *visit, rules *policy.Policy) error {
	reach := rules.Reach()
	m.Rehearse = true
	m.Shown.Verdict = policyVerdict(rules, reach)
	m.Shown.schedule(reach)
	m.Shown.Findings = policy.Lint(rules.Claims())
	if err := m.Shown.simulate(v, rules); err != nil {
		var told *client.Error
		if !errors.As(err, &told) {
			return err
		}
		m.Shown.Picture = &chart{Title: "An outage", Empty: sentence(strings.TrimSpace(told.Error()))}
	}
	m.Shown.Choices, m.Shown.Kinds, m.Shown.Others = nil, nil, nil // a link would lose the inputs
	return nil
}

func addPolicy(v *visit) (string, error) {
	if v.PostForm.Get("preview") != "" {
		return "", errPreview
	}
	doc, own := v.typedPolicy()
	var made client.Policy
	if err := joined(own, v.postOnce("/v1/policies", doc, &made)); err != nil {
		return "", err
	}
	v.goTo("/policies/" + url.PathEscape(made.ID))
	return "The policy is added. An endpoint can name it now.", nil
}

func savePolicy(v *visit) (string, error) {
	if v.PostForm.Get("preview") != "" {
		return "", errPreview
	}
	return saves(&policyBlank, "/v1/policies/{id}", "/policies/{id}", "Saved. Endpoints that name the policy use it now.")(v)
}

func deletePolicyForm(v *visit, p *client.Policy) (formModel, error) {
	f := v.consentForm(deleteWord, "")
	m := v.formPage("Delete "+p.Name, f, "Delete the policy", v.below("/policies", p.Name, cmp.Or(p.ID, p.Name), "Delete")...)
	m.Verdict.say("Delete the policy "+p.Name+"?", "",
		"A policy that an endpoint names cannot be deleted: give the endpoint another one first.")
	return m, nil
}
