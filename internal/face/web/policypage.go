package web

import (
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/policy"
)

func policyPage(v *visit, p *client.Policy) (policyModel, error) {
	v.title = p.Name
	m := policyModel{ID: p.ID, Name: p.Name}
	if p.ID == "" {
		for _, a := range v.formLinks("/policies/", "new", "Copy it into a policy of your own") {
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
