package web

import (
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// compareModel compares the data of two events, which can be named by a delivery.
type compareModel struct {
	Verdict verdict
	With    string // the other id, as it was given
	Sides   []compareSide
	Lines   []diffLine
}

// compareSide is one of the two.
type compareSide struct {
	Name, ID, Href string
	Type, Key      string
	At             moment
}

func compare(v *visit) (compareModel, error) {
	m := compareModel{With: strings.TrimSpace(v.URL.Query().Get("with"))}
	m.Verdict.say("Compare its data with those of another.", "",
		"Give the id of a delivery or an event. In a list, select two rows and choose Compare two.")
	var texts []string
	for i, id := range []string{v.PathValue("id"), m.With} {
		if id == "" {
			return m, nil
		}
		e, err := v.eventBehind(id)
		if err != nil {
			return m, err
		}
		if e == nil {
			m.Sides = nil
			m.Verdict.say("Retention has deleted the data of "+id+".", "", "There is nothing left to compare.")
			return m, nil
		}
		name := []string{"First", "Second"}[i]
		m.Sides = append(m.Sides, compareSide{name, e.ID, v.eventLink(e.Tenant, e.ID), e.Type, e.Key, v.at(e.AcceptedAt)})
		if e.DataBase64 != nil {
			m.Verdict.say("These data are no text.", "", "Only text can be compared by lines.")
			return m, nil
		}
		texts = append(texts, lined(e.Data))
	}
	lines, differs := difference(texts[0], texts[1])
	if !differs {
		m.Verdict.say("The data are the same.", "", "")
		return m, nil
	}
	less, more := 0, 0
	for _, l := range lines {
		switch l.Tone {
		case "less":
			less++
		case "more":
			more++
		}
	}
	m.Verdict.say("The data differ: "+say.Many(less, "line is", "lines are")+" only in the first, "+say.Count(more)+" only in the second.", "", "")
	m.Lines = folded(lines)
	return m, nil
}

// eventBehind is the event with an id, or of the delivery with it; nil: it is deleted.
func (v *visit) eventBehind(id string) (*client.Event, error) {
	tenant := ""
	if strings.HasPrefix(id, grapnel.DeliveryPrefix+"_") {
		d, err := v.client.Delivery(v.Context(), id)
		if err != nil {
			return nil, err
		}
		tenant, id = d.Tenant, d.EventID
	}
	return optional(v.client.EventOf(v.Context(), tenant, id))
}
