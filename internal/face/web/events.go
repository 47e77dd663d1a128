package web

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	grammar "github.com/grapnelhq/grapnel/internal/base/search"
)

// eventsModel is a list of events under a search.
type eventsModel struct {
	listing
	Rows  []eventRow
	Twice []twiceRow // events that came again, in the place of Rows
}

// eventRow is one event in a list.
type eventRow struct {
	Whose    whose
	ID, Href string
	Type     string
	Key      string
	Source   string
	Start    string // of its data
	Age      moment
}

const startOfData = 90 // bytes of an event's data in a list

// eventSearch is the filter of the events page: a search with the conditions that events have, and
// the source.
func eventSearch(v *visit) (search, client.EventFilter, error) {
	s, err := v.search()
	if err != nil {
		return s, client.EventFilter{}, err
	}
	f := s.Filter
	f.Filter = grammar.With(f.Filter, "source", "")
	if f.Status != nil || f.Endpoint != "" || f.ErrorClass != "" || f.StatusCode != 0 || f.ReasonCode != "" || f.Filter != "" {
		s.Faults = append(s.Faults, "Events are found by type, key, source, tenant, time and text. The other conditions are of deliveries.")
	}
	return s, client.EventFilter{Type: f.Type, Key: f.Key, Tenant: f.Tenant, From: f.From, To: f.To, Text: f.Text,
		Source: cmp.Or(s.Source, v.URL.Query().Get("source")), Limit: v.web.Bounds.Page, Cursor: v.URL.Query().Get("cursor")}, nil
}

func events(v *visit) (eventsModel, error) {
	s, f, err := eventSearch(v)
	if err != nil {
		return eventsModel{}, err
	}
	m := eventsModel{listing: listing{Search: s}}
	if s.Jump != "" {
		return m, jumped(s.Jump)
	}
	twice := v.URL.Query().Get("twice")
	m.Views = v.eventViews(twice)
	if twice == "1" && !v.session.portal {
		return m, v.twice(&m)
	}
	if len(s.Faults) > 0 {
		m.Verdict.say("No events are selected.", "", "")
		m.Hint, m.Clear = "Correct the search in the box above.", v.link("/events")
		m.filters = v.filters("/events", &s, nil)
		return m, nil
	}
	found, err := v.client.Events(v.Context(), f)
	if err != nil {
		return m, err
	}
	seen := map[string][]grammar.Named{"source": nil, "type": nil, "since": nil}
	for i := range found.Data {
		e := &found.Data[i]
		seen["type"], seen["source"] = named(seen["type"], e.Type, ""), named(seen["source"], e.Source, e.SourceName)
		m.Rows = append(m.Rows, eventRow{ID: e.ID, Whose: v.whose(e.Tenant), Href: v.eventLink(e.Tenant, e.ID), Type: e.Type, Key: e.Key,
			Source: cmp.Or(e.SourceName, e.Source),
			Start:  startOf(e), Age: v.at(e.AcceptedAt)})
	}
	m.filters = v.filters("/events", &s, seen)
	m.pager = v.pager("/events", f.Cursor, found.Next, "q", s.Text, "source", f.Source)
	m.answer(v, f)
	return m, nil
}

// answer is the sentence above the list.
func (m *eventsModel) answer(v *visit, f client.EventFilter) {
	if n := len(m.Rows); n > 0 {
		newest := m.Rows[0].Age.Relative()
		switch {
		case m.Newest != "":
			m.Verdict.say(m.Search.about(say.Many(n, "older event", "older events")+"."), "", "")
		case m.Older != "":
			m.Verdict.say(m.Search.about("The newest "+say.Many(n, "event", "events")+"; the last one "+newest+"."), "", "")
		default:
			m.Verdict.say(m.Search.about(say.Many(n, "event", "events")+", the newest "+newest+"."), "", "")
		}
		return
	}
	m.Verdict.say(m.Search.about("No events."), "", "")
	m.Hint, m.Clear = "Retention may have deleted older ones.", v.link("/events")
	if m.Older != "" {
		m.Hint = "A search for text looks at one part of the events at a time; older ones may match."
	}
	if m.Search.Text == "" && f.Source == "" && m.Newest == "" {
		m.Verdict.say("No event was published yet.", "", "")
		m.Clear = ""
		m.Hint, m.Publish = v.teach("Publish one with this command:", publishCommand)
	}
}

// startOf is how an event's data begin, in one line.
func startOf(e *client.Event) string {
	switch {
	case e.PayloadHidden:
		return "hidden"
	case e.ErasedAt != nil || e.Erased:
		return "erased"
	case e.Damaged:
		return "damaged: its stored bytes do not match their checksum"
	case e.DataBase64 != nil:
		return say.Many(len(e.DataBase64), "byte", "bytes") + " of " + e.ContentType
	}
	text := strings.Join(strings.Fields(string(e.Data[:min(len(e.Data), 4*startOfData)])), " ")
	return say.Cut(strings.ToValidUTF8(text, ""), startOfData)
}

func eventsTwin(v *visit) (string, url.Values) {
	_, f, err := eventSearch(v)
	if err != nil { // the page says so
		return "/v1/events", nil
	}
	if v.URL.Query().Get("twice") == "1" && !v.session.portal {
		return "/v1/duplicates", given("tenant", f.Tenant)
	}
	q := given("limit", fmt.Sprint(f.Limit), "type", f.Type, "key", f.Key, "tenant", f.Tenant, "source", f.Source, "text", f.Text, "cursor", f.Cursor)
	for name, at := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return "/v1/events", q
}

func eventsCommand(v *visit) string {
	s := parseSearch(v.URL.Query().Get("q"), v.now)
	if is := v.meant; is != nil && is.Word == s.Bare {
		_ = v.understood(&s) // the API has said it
	}
	f := &s.Filter
	same := client.DeliveryFilter{Type: f.Type, Key: f.Key, Tenant: f.Tenant, From: f.From, To: f.To}
	words := append([]string{"grapnel events list"}, filterFlags(same)...)
	if source := cmp.Or(s.Source, v.URL.Query().Get("source")); source != "" {
		words = append(words, "--source "+shellQuote(source))
	}
	return strings.Join(words, " ")
}

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
	m.Verdict.say(say.Many(len(m.Twice), "event came", "events came")+" again.", "", "")
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
	return say.Count(n) + " times more"
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
func acceptedTwice(e *client.Event) (all []string) {
	type seen struct {
		name        string
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
			at = &seen{name: cmp.Or(d.EndpointName, d.EndpointID), first: *d.FinishedAt, last: *d.FinishedAt}
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
			all = append(all, at.name+" answered 2xx "+say.Count(at.times)+" times, within "+say.Spoken(at.last.Sub(at.first))+
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
