package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// eventModel is one event: its receivers, the others and their reasons, and the published data.
type eventModel struct {
	ID, Type string
	Key      string
	Verdict  verdict
	Again    []string // that it came again, and that an endpoint answered 2xx twice
	Rows     []deliveryRow
	Well     []deliveryRow // delivered, if there are many
	Not      []notWanted
	NotMore  string
	Payload  message
	Facts    []fact
	Curl     string // publishes the same again
}

// notWanted is an endpoint that did not get an event, with the reason as far as its settings tell.
type notWanted struct{ Name, At, Why string }

const mostOthers = 20

func eventPage(v *visit) (eventModel, error) {
	e, err := v.client.EventOf(v.Context(), v.URL.Query().Get("tenant"), v.PathValue("id"))
	if err != nil {
		return eventModel{}, err
	}
	all, err := v.client.Endpoints(v.Context(), client.EndpointFilter{Limit: v.web.Bounds.Endpoints, Tenant: e.Tenant})
	if err != nil {
		return eventModel{}, err
	}
	m := eventModel{ID: e.ID, Type: e.Type, Key: e.Key}
	v.title = m.Type
	wanted, sources := map[string]bool{}, map[string]string{}
	for i := range e.Deliveries {
		m.Rows = append(m.Rows, v.deliveryRow(&e.Deliveries[i]))
		wanted[e.Deliveries[i].EndpointID] = true
	}
	queues, err := v.queuesAsEndpoints(e.Tenant)
	if err != nil {
		return m, err
	}
	for _, ep := range append(all.Data, queues...) {
		if wanted[ep.ID] {
			continue
		}
		if ep.Source != "" && ep.Source != e.Source && sources[ep.Source] == "" {
			if sources[ep.Source], err = v.nameOf(ep.Source); err != nil {
				return m, err
			}
		}
		if len(m.Not) == mostOthers {
			m.NotMore = "the first " + say.Count(mostOthers)
			break
		}
		m.Not = append(m.Not, notWanted{endpointName(&ep), v.ownerLink(ep.ID), whyNot(e, &ep, sources)})
	}
	again, err := v.cameAgain(e)
	if err != nil {
		return m, err
	}
	if again != "" {
		m.Again = append(m.Again, again)
	}
	m.Again = append(m.Again, acceptedTwice(e)...)
	m.answer(v, e, len(all.Data)+len(queues))
	m.fold()
	m.payload(v, e)
	m.facts(v, e)
	return m, nil
}

// mostRows is how many deliveries of an event are rows of a table whatever became of them.
const mostRows = 20

// fold makes a list of names of the delivered ones, if there are many, so that the others are seen.
func (m *eventModel) fold() {
	if len(m.Rows) <= mostRows {
		return
	}
	var rest []deliveryRow
	for _, r := range m.Rows {
		if r.Pill.Tone == toneOK {
			m.Well = append(m.Well, r)
		} else {
			rest = append(rest, r)
		}
	}
	m.Rows = rest
}

// queuesAsEndpoints are the queues of a tenant, with the settings by which they want events. A
// session that is limited to endpoints sees none.
func (v *visit) queuesAsEndpoints(tenant string) (all []client.Endpoint, err error) {
	if v.session.limited {
		return nil, nil
	}
	found, err := v.client.Queues(v.Context(), client.QueueFilter{Tenant: tenant, Limit: v.web.Bounds.Page})
	if err != nil {
		return nil, err
	}
	for i := range found.Data {
		q := &found.Data[i]
		ep := client.Endpoint{ID: q.ID, CreatedAt: q.CreatedAt, UpdatedAt: q.UpdatedAt}
		ep.Description, ep.EventTypes, ep.Filter, ep.Source, ep.Status = q.Name, q.EventTypes, q.Filter, q.Source, q.Status
		all = append(all, ep)
	}
	return all, nil
}

// whyNot is the reason why an endpoint did not get an event, by its present settings. The API does
// not record the settings at that time, nor does it evaluate a filter for a page.
func whyNot(e *client.Event, ep *client.Endpoint, sources map[string]string) string {
	switch {
	case ep.CreatedAt.After(e.AcceptedAt):
		return "It was created after the event."
	case len(ep.EventTypes) > 0 && !slices.ContainsFunc(ep.EventTypes, func(p string) bool { return grapnel.MatchType(p, e.Type) }):
		return "It wants " + say.List(ep.EventTypes) + "."
	case ep.Source != "" && ep.Source != e.Source:
		return "It wants events of the source " + cmp.Or(sources[ep.Source], ep.Source) + "."
	case ep.Filter != "":
		return "Its filter did not match: " + ep.Filter
	case ep.Status == grapnel.EndpointDisabled:
		return "It is disabled."
	case ep.UpdatedAt.After(e.AcceptedAt):
		return "Its settings have changed since."
	}
	return "Its delivery is not stored any more."
}

// unwanted is about an event without a delivery. Retention deletes none before the event's time.
func unwanted(e *client.Event, now time.Time) string {
	if e.RetainedUntil == nil || now.Before(*e.RetainedUntil) {
		return "No endpoint wanted it."
	}
	return "No endpoint wanted it, or retention has deleted its deliveries."
}

// answer says what became of the event.
func (m *eventModel) answer(v *visit, e *client.Event, endpoints int) {
	var by tally[pill]
	for _, r := range m.Rows {
		by.add(r.Pill)
	}
	switch n := len(m.Rows); {
	case n == 0 && endpoints == 0:
		m.Verdict.Pieces = []piece{{"No endpoint wanted it: there is none.", ""}}
	case n == 0:
		m.Verdict.Pieces = []piece{{unwanted(e, v.now), ""}}
	case len(by.order) == 1 && n > 1:
		m.Verdict.Pieces = []piece{{say.Many(n, "endpoint", "endpoints") + " wanted it: all ", ""},
			{by.order[0].Word, by.order[0].Tone}, {".", ""}}
	default:
		m.Verdict.Pieces = []piece{{say.Many(n, "endpoint", "endpoints") + " wanted it: ", ""}}
		for i, p := range by.order {
			text := p.Word
			if n > 1 {
				text = say.Count(by.n[p]) + " " + p.Word
			}
			if i > 0 {
				m.Verdict.Pieces = append(m.Verdict.Pieces, piece{", ", ""})
			}
			m.Verdict.Pieces = append(m.Verdict.Pieces, piece{text, p.Tone})
		}
		m.Verdict.Pieces = append(m.Verdict.Pieces, piece{".", ""})
	}
	if v.mayDo("/events/{id}/publish") && !e.PayloadHidden && e.ErasedAt == nil && !e.Erased {
		m.Verdict.Acts = []act{{Label: "Publish again", Post: v.link("/events/" + url.PathEscape(e.ID) + "/publish" + v.ofTenant(e.Tenant)), Sure: "A new event with the same data goes to every endpoint that wants it now."}}
	}
	v.offerEdit(&m.Verdict, e, "")
}

func (m *eventModel) payload(v *visit, e *client.Event) {
	m.Payload.Headers = headers(e.Metadata)
	switch {
	case e.ErasedAt != nil:
		m.Payload.Note = "Its content was erased."
	case e.PayloadHidden:
		m.Payload.Note = hiddenNote
	case e.Erased:
		m.Payload.Note = erasedNote
	case e.DataBase64 != nil:
		m.Payload.Note = say.Many(len(e.DataBase64), "byte", "bytes") + " of " + e.ContentType + " are not shown."
	default:
		m.Payload.Body = v.readable(e.Data)
		if len(e.Data) <= v.web.Bounds.Body {
			m.Payload.Raw, m.Curl = string(e.Data), v.publishCurl(e)
		}
	}
}

// publishCurl is the request that publishes the same data as a new event.
func (v *visit) publishCurl(e *client.Event) string {
	body := fmt.Sprintf(`{"type":%s,"tenant":%s`, jsonText(e.Type), jsonText(e.Tenant))
	if e.Key != "" {
		body += `,"key":` + jsonText(e.Key)
	}
	body += `,"data":` + string(e.Data) + "}"
	return `curl -H "Authorization: Bearer $GRAPNEL_KEY" -H 'Content-Type: application/json' -d ` + shellQuote(body) + " " + shellQuote(v.place.URL("/v1/events"))
}

func (m *eventModel) facts(v *visit, e *client.Event) {
	m.Facts = []fact{{Name: "Accepted", At: v.at(e.AcceptedAt)}, {Name: "Happened", At: v.at(e.OccurredAt)}}
	if e.ErasedAt != nil {
		m.Facts = append(m.Facts, fact{Name: "Erased", At: v.at(*e.ErasedAt)})
	}
	if e.Key != "" {
		m.Facts = append(m.Facts, fact{Name: "Ordering key", Value: e.Key, Href: v.link("/events" + withQuery("q", token{"key", e.Key}.String()))})
	}
	m.Facts = append(m.Facts, fact{Name: "Type", Value: e.Type, Href: v.link("/events" + withQuery("q", token{"type", e.Type}.String()))},
		fact{Name: "Source", Value: cmp.Or(e.SourceName, e.Source, "published by the API"), Href: v.sourceLink(e.Source)}, fact{Name: "Content type", Value: e.ContentType},
		fact{Name: "Tenant", Value: e.Tenant})
}

// publishAgain publishes the data of an event as a new event.
func publishAgain(v *visit) (string, error) {
	e, err := v.client.EventOf(v.Context(), v.URL.Query().Get("tenant"), v.PathValue("id"))
	if err != nil {
		return "", err
	}
	delete(e.Metadata, grapnel.TraceKey) // the new event has a trace of its own
	id := v.PostForm.Get("once")         // a second click publishes the same event, which is stored once
	var made *client.Published
	switch {
	case e.PayloadHidden:
		return "", refused(http.StatusForbidden, "The event cannot be published again.", hiddenNote)
	case e.Erased:
		return "", refused(http.StatusConflict, "The event cannot be published again.", erasedNote)
	case e.DataBase64 == nil:
		made, err = v.client.Publish(v.Context(), client.NewEvent{
			ID: id, Type: e.Type, Key: e.Key, Tenant: e.Tenant, Metadata: e.Metadata, Data: e.Data,
		})
	case len(e.Metadata) > 0:
		return "", refused(http.StatusConflict, "The event cannot be published again.", "The API takes data that are not JSON without metadata only.")
	default:
		made, err = v.client.PublishRaw(v.Context(), client.RawEvent{
			ID: id, Type: e.Type, Key: e.Key, Tenant: e.Tenant, Data: e.DataBase64, ContentType: e.ContentType,
		})
	}
	if err != nil {
		return "", err
	}
	v.goTo(strings.TrimPrefix(v.eventLink(e.Tenant, made.ID), v.place.base))
	return "Published again as a new event, for " + say.Many(made.Deliveries, "endpoint", "endpoints") + ".", nil
}

func eventTwin(v *visit) (string, url.Values) {
	return v.ofThis("/v1/events/{id}"), given("tenant", v.URL.Query().Get("tenant"))
}
