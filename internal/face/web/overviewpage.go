package web

import (
	"net/url"

	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// sayTrouble is the sentence about alerts and issues, which names the gravest of each.
func (v *visit) sayTrouble() (all []linked, err error) {
	t, ok := v.web.trouble(v.Request, v.session)
	if !ok {
		v.answers.add("unknown")
		return []linked{{"Alerts and issues could not be read.", ""}}, nil
	}
	v.answers.add(t.number())
	if t.Alert != nil {
		v.answers.add(t.Alert.Title)
		is := ", the gravest is "
		if t.Alerts == 1 {
			is = ", "
		}
		all = append(all, linked{say.AtLeast(t.Alerts, t.MoreAlerts, "alert fires", "alerts fire"), v.link("/alerts?state=firing")},
			linked{is + "“", ""}, linked{t.Alert.Title, v.link("/alerts/" + url.PathEscape(t.Alert.ID))}, linked{"”. ", ""})
	}
	if t.Issue != nil {
		name, err := v.nameOf(t.Issue.EndpointID)
		if err != nil {
			return nil, err
		}
		v.answers.add(t.Issue.Sentence)
		is := ". Most failures: "
		if t.Issues == 1 {
			is = ": "
		}
		all = append(all, linked{say.AtLeast(t.Issues, t.MoreIssues, "issue is open", "issues are open"), v.link("/issues?state=open")},
			linked{is, ""}, linked{words.Fails(t.Issue, name), v.link("/issues/" + url.PathEscape(t.Issue.ID))}, linked{".", ""})
	}
	return all, nil
}

func overview(v *visit) (overviewModel, error) {
	var m overviewModel
	o, err := v.client.Overview(v.Context(), "")
	if err != nil {
		return m, err
	}
	if m.Trouble, err = v.sayTrouble(); err != nil {
		return m, err
	}
	if o.Endpoints.All == 0 && o.Refuses == "" {
		m.Empty, m.Create, m.Publish = true, createCommand, publishCommand
		if v.mayDo("/endpoints/new") {
			m.Add = []act{{Label: "Add an endpoint", Href: v.link("/endpoints/new"), Main: true},
				{Label: "Add a source", Href: v.link("/sources/new")}}
		}
		return m, nil
	}
	m.Verdict = said(words.Overall(v.now, o))
	if len(o.Attention) > 0 {
		worst := &o.Attention[0]
		m.Verdict.Acts = append([]act{{Label: "Look at " + words.Name(worst), Href: v.link("/endpoints/" + worst.ID), Main: true}},
			v.remedies(worst)...)
	}
	m.Backlog, m.Dead, m.Letters = words.Pending(v.now, o), words.DeadLetters(o), v.link("/dead-letters")
	hours := hourly(o.Hours, o.HoursFrom, v.now)
	m.Figures = figures(hours, &o.Totals, say.Count(o.Pending.All))
	m.Figures[len(m.Figures)-1].Note = words.Waits(&o.Pending)
	m.Chart = v.outcomes(hours, "")
	m.Ahead = v.ahead(o)
	if m.Eyes, err = v.troubledRows(o.Attention, mostEyes); err != nil {
		return m, err
	}
	var others []string
	if bad := o.Endpoints.All - o.Endpoints.Healthy - len(m.Eyes); bad > 0 {
		others = append(others, say.Count(bad)+" more")
	}
	if n := o.Endpoints.Healthy; n > 0 {
		others = append(others, say.Count(n)+" healthy")
	}
	m.Others, m.All = say.List(others), v.link("/endpoints")
	return m, nil
}
