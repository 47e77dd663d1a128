package web

import (
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/wire"
)

// rulesModel lists the rules by which alerts fire.
type rulesModel struct {
	Verdict verdict
	Rules   []ruleRow
}

// ruleRow is one rule.
type ruleRow struct {
	Name, Href string
	Title      string
	Pill       pill
	Severity   string
	Threshold  string
}

func alertRules(v *visit) (rulesModel, error) {
	var m rulesModel
	rules, err := v.client.AlertRules(v.Context(), "")
	if err != nil {
		return m, err
	}
	on := 0
	for i := range rules.Data {
		r := &rules.Data[i]
		row := ruleRow{Name: r.Name, Href: v.ruleHref(r.Name), Title: sentenceCase(r.Title), Pill: pill{toneOK, "on"}, Severity: r.Severity,
			Threshold: thresholdOf(r)}
		if r.Enabled {
			on++
		} else {
			row.Pill = pill{toneNone, "off"}
		}
		m.Rules = append(m.Rules, row)
	}
	next := "Rules are evaluated every 10 seconds."
	if v.mayDo("/alert-rules/{id}/edit") {
		next += " Open one to see how often it would have fired, and to change it."
	}
	m.Verdict.say(say.Count(on)+" of "+say.Many(len(m.Rules), "rule is", "rules are")+" on.", "", next)
	return m, nil
}

// ruleHref leads to the form of a rule; empty: the session may not change rules.
func (v *visit) ruleHref(name string) string {
	if !v.mayDo("/alert-rules/{id}/edit") {
		return ""
	}
	return v.link("/alert-rules/" + url.PathEscape(name) + "/edit")
}

// thresholdUnits are the words behind the number of a threshold, and those in its place if it is 1.
var thresholdUnits = map[string]struct{ behind, one string }{
	"number": {}, "percent": {behind: " %"}, "days": {" days", "1 day"},
	"times the usual": {" times as many as usual", "as many as usual"}, "percentage points": {" percentage points", "1 percentage point"},
}

// thresholdOf is a rule's threshold in words.
func thresholdOf(r *client.AlertRule) string {
	number := strconv.FormatFloat(r.Threshold, 'f', -1, 64)
	unit, known := thresholdUnits[r.Unit]
	switch {
	case r.Unit == "yes or no":
		return "as soon as it is so"
	case r.Unit == "seconds":
		number = say.Spoken(time.Duration(r.Threshold * float64(time.Second)))
	case !known:
		number += " " + r.Unit
	case r.Threshold == 1 && unit.one != "":
		number = unit.one
	default:
		number += unit.behind
	}
	if r.Below {
		return number + " or less"
	}
	return number + " or more"
}

// ruleBlank is the form of a rule.
func ruleBlank(r *client.AlertRule) *blank {
	b := &blank{of: reflect.TypeFor[wire.AlertRuleSettings](), rows: []input{{at: "enabled", label: "On", help: "when it is switched off, its alerts are resolved"}}}
	if r.Unit != "yes or no" {
		threshold := input{at: "threshold", label: "Threshold, " + r.Unit, help: "it fires at this value and above"}
		if r.Unit == "number" {
			threshold.label = "Threshold"
		}
		if r.Below {
			threshold.help = "it fires at this value and below"
		}
		b.rows = append(b.rows, threshold)
	}
	b.rows = append(b.rows, input{at: "severity", label: "Severity"})
	return b
}

func editRule(v *visit) (formModel, error) {
	r, err := v.client.AlertRule(v.Context(), "", v.PathValue("id"))
	if err != nil {
		return formModel{}, err
	}
	m := v.formPage("Rule "+r.Name, v.form(ruleBlank(r), r.JSON(), nil), "Save", crumb{r.Name, ""})
	past, err := v.client.BacktestAlertRule(v.Context(), "", r.Name, client.NewBacktest{For: "28d"})
	if err != nil {
		return m, err
	}
	m.Verdict.Pieces = []piece{{past.Sentence, ""}}
	if m.Verdict.Next = r.About; !past.Known && !r.Backtest {
		m.Verdict.say("How often this rule would have fired is unknown.", "",
			"What it measures is not kept: "+strings.ToLower(r.About[:1])+r.About[1:])
	}
	if v.session.Tenant == "" {
		m.Notes = []string{"A change here holds for the operator's alerts, and for every tenant that has not changed the same field."}
	}
	return m, nil
}

func saveRule(v *visit) (string, error) {
	r, err := v.client.AlertRule(v.Context(), "", v.PathValue("id"))
	if err != nil {
		return "", err
	}
	return saves(ruleBlank(r), "/v1/alert-rules/{id}", "/alert-rules/{id}/edit", "Saved.")(v)
}
