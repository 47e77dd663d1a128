package web

import (
	"reflect"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/wire"
)

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
	f, err := v.form(ruleBlank(r), r.JSON(), nil)
	if err != nil {
		return formModel{}, err
	}
	m := v.formPage("Rule "+r.Name, f, "Save", crumb{"Trouble", ""}, crumb{"Alerts", v.link("/alerts")}, crumb{r.Name, ""})
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
	return v.save(ruleBlank(r), "/alert-rules/{id}/edit", "Saved.", func(name string, changes map[string]any) error {
		_, err := v.client.UpdateAlertRule(v.Context(), "", name, changes)
		return err
	})
}
