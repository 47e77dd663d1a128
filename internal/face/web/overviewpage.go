package web

import (
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

func overview(v *visit) (overviewModel, error) {
	var m overviewModel
	o, err := v.client.Overview(v.Context(), "")
	if err != nil {
		return m, err
	}
	if o.Endpoints.All == 0 && o.Refuses == "" {
		m.Empty, m.Create, m.Publish = true, createCommand, publishCommand
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
