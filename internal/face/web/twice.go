package web

import (
	"cmp"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// A duplicate is an event that its publisher, or a provider, sent again under the same id. The
// server stores the event once; the list of duplicates has the number of repetitions and the times.

// twiceRow is an event that came again.
type twiceRow struct {
	ID, Href    string
	Times, From string
	First, Last moment
}

// twice is the list of events that came again.
func (v *visit) twice(m *eventsModel) error {
	found, err := v.client.Duplicates(v.Context(), m.Search.Filter.Tenant, "")
	if err != nil {
		return err
	}
	for i := range found.Data {
		d := &found.Data[i]
		m.Twice = append(m.Twice, twiceRow{d.EventID, v.eventLink(d.Tenant, d.EventID), timesMore(d.Times), cmp.Or(d.Source, "the API"),
			v.at(d.FirstAt), v.at(d.LastAt)})
	}
	m.Verdict.say(many(len(m.Twice), "event came", "events came")+" again.", "", "")
	m.Hint = "Each was stored and delivered once. The list names the 200 that came again last."
	if len(m.Twice) == 0 {
		m.Verdict.say("No event came again.", "", "")
		m.Hint = "An event that is published or received again under the same id is stored once, and named here."
	}
	return nil
}

func timesMore(n int64) string {
	if n == 1 {
		return "once more"
	}
	return count(n) + " times more"
}

// cameAgain says that an event came again; empty: no repetition is recorded. A portal does not ask.
func (v *visit) cameAgain(e *client.Event) (string, error) {
	if v.session.portal {
		return "", nil
	}
	found, err := v.client.Duplicates(v.Context(), e.Tenant, e.ID)
	if err != nil || len(found.Data) == 0 {
		return "", err
	}
	d := &found.Data[0]
	what := "It was published " + timesMore(d.Times) + " under this id, the last time "
	if d.Source != "" {
		what = "It was received " + timesMore(d.Times) + ", the last time "
	}
	return what + v.at(d.LastAt).Relative() + ". It is stored and delivered once.", nil
}

// acceptedTwice names endpoints that answered 2xx more than once for an event: after a replay, or
// because an answer was lost. Their receivers have to recognise the event's id.
func acceptedTwice(e *client.Event, names map[string]string) (all []string) {
	type seen struct {
		times       int
		first, last time.Time
	}
	by, order := map[string]*seen{}, []string{}
	for i := range e.Deliveries {
		d := &e.Deliveries[i]
		if d.Status != grapnel.Delivered || d.FinishedAt == nil || isQueue(d.EndpointID) {
			continue
		}
		at := by[d.EndpointID]
		if at == nil {
			at = &seen{first: *d.FinishedAt, last: *d.FinishedAt}
			by[d.EndpointID], order = at, append(order, d.EndpointID)
		}
		at.times++
		if d.FinishedAt.Before(at.first) {
			at.first = *d.FinishedAt
		}
		if d.FinishedAt.After(at.last) {
			at.last = *d.FinishedAt
		}
	}
	for _, id := range order {
		if at := by[id]; at.times > 1 {
			all = append(all, cmp.Or(names[id], id)+" answered 2xx "+count(at.times)+" times, within "+spoken(at.last.Sub(at.first))+
				". Did its receiver do the work once? It has to remember the id.")
		}
	}
	return all
}

// eventViews are the lists of events.
func (v *visit) eventViews(here string) []savedView {
	if v.session.portal {
		return nil
	}
	return []savedView{{"All", v.link("/events"), here == ""}, {"Published twice", v.link("/events?" + url.Values{"twice": {"1"}}.Encode()), here == "1"}}
}
