package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/sign"
)

// orders are the orders in which the playground sends events.
var orders = []option{{Value: "composed", Word: "as written"}, {Value: "backwards", Word: "backwards"}, {Value: "first_last", Word: "the first one last"}}

const mostTypes = 12

// mostUnwanted is how many endpoints are shown that would not get the event.
const mostUnwanted = 6

func playground(v *visit) (playgroundModel, error) {
	var m playgroundModel
	m.Publish = v.session.May(grapnel.ScopePublish)
	endpoints, err := v.client.Endpoints(v.Context(), client.EndpointFilter{Limit: mostOptions})
	if err != nil {
		return m, err
	}
	choices := []option{{Value: "", Word: "only look"}}
	for i := range endpoints.Data {
		choices = append(choices, option{Value: endpoints.Data[i].ID, Word: endpointName(&endpoints.Data[i])})
	}
	m.Form = v.form(&trialBlank, nil, map[string][]option{"endpoint": choices, "order": orders}, foldedFaults)
	m.Form.Post, m.Form.Button = v.link("/playground"), "Look who would get it"
	if err := m.types(v); err != nil {
		return m, err
	}
	m.Verdict.say("Compose an event, and see who would get it.", "",
		"Looking publishes nothing. The request is shown as the endpoint would get it, with its signature.")
	event := v.URL.Query().Get("event")
	switch {
	case !v.again() && event != "":
		return m, m.edit(v, event)
	case !v.again() || v.refusal != nil:
		return m, nil
	case len(v.PostForm["sent"]) > 0:
		return m, m.answers(v)
	}
	return m, m.look(v)
}

// edit fills the form with a stored event, to be changed and sent as a new one.
func (m *playgroundModel) edit(v *visit, id string) error {
	e, err := v.client.EventOf(v.Context(), v.URL.Query().Get("tenant"), id)
	if err != nil {
		return err
	}
	if !editable(e) {
		return refused(http.StatusConflict, "The event cannot be changed.", "Its data are no JSON, or cannot be shown.")
	}
	m.Form.fill(e.JSON())
	delete(e.Metadata, grapnel.TraceKey) // the new event has a trace of its own
	metadata, err := json.Marshal(e.Metadata)
	if err != nil {
		return err
	}
	m.Form.set("metadata", textOf(kindPairs, metadata))
	m.Form.set("endpoint", v.URL.Query().Get("endpoint"))
	m.Verdict.say("Change "+e.ID+", and send it as a new event.", "", "The new event has an id of its own; the stored one and its deliveries stay as they are. "+
		"Look shows the request first and publishes nothing.")
	return nil
}

// editable says whether the data of an event can be shown in a form.
func editable(e *client.Event) bool {
	return e.DataBase64 == nil && !e.PayloadHidden && e.ErasedAt == nil && !e.Erased
}

// offerEdit offers to send a changed event as a new one: to the endpoint, or to all that want it.
func (v *visit) offerEdit(to *verdict, e *client.Event, endpoint string) {
	if e != nil && editable(e) && v.mayDo("/events/{id}/publish") && v.mayDo("/playground") {
		at := v.link("/playground" + withQuery("event", e.ID, "tenant", e.Tenant, "endpoint", endpoint))
		to.Acts = append(to.Acts, act{Label: "Edit and resend", Href: at})
	}
}

// types are the registered event types. Choosing one fills in its example.
func (m *playgroundModel) types(v *visit) error {
	found, err := v.client.EventTypes(v.Context(), client.ListFilter{Limit: mostTypes})
	if err != nil {
		return err
	}
	chosen := v.URL.Query().Get("type")
	for i := range found.Data {
		t := &found.Data[i]
		m.Types = append(m.Types, savedView{t.Name, v.link("/playground" + withQuery("type", t.ID)), t.ID == chosen})
	}
	if v.again() {
		return nil
	}
	if chosen == "" {
		m.Form.set("type", "invoice.paid")
		m.Form.set("data", "{\n  \"amount\": 100\n}")
		return nil
	}
	t, err := v.client.EventType(v.Context(), chosen)
	if err != nil {
		return err
	}
	m.Form.set("type", t.Name)
	m.Form.set("tenant", t.Tenant)
	for i := range slices.Backward(t.Versions) {
		if example := t.Versions[i].Example; len(example) > 0 {
			m.Form.set("data", textOf(kindJSON, example))
			break
		}
	}
	return nil
}

// look asks the API who would get the event.
func (m *playgroundModel) look(v *visit) error {
	e, err := v.trial(false)
	if err != nil {
		return err
	}
	p, err := v.client.Preview(v.Context(), e.NewEvent, e.endpoint)
	if err != nil {
		return err
	}
	m.Looked, m.More = true, p.More
	wanted := 0
	for _, one := range p.Endpoints {
		r := wantRow{Name: cmp.Or(one.Name, one.ID), Href: v.ownerLink(one.ID), Why: one.Reason, Pill: pill{toneNone, "does not get it"}}
		if one.Wanted {
			wanted++
			r.Pill = pill{toneOK, "gets it"}
		}
		m.Rows = append(m.Rows, r)
	}
	slices.SortStableFunc(m.Rows, func(a, b wantRow) int { return strings.Compare(b.Pill.Tone, a.Pill.Tone) })
	if shown := wanted + mostUnwanted; len(m.Rows) > shown {
		m.Others, m.Rows = say.Many(len(m.Rows)-shown, "more endpoint would not get it", "more endpoints would not get it"), m.Rows[:shown]
	}
	m.Verdict.Pieces = []piece{{say.Many(wanted, "endpoint", "endpoints") + " would get it; " + say.Many(len(p.Endpoints)-wanted, "other", "others") + " would not.", ""}}
	if p.More {
		m.Verdict.Pieces = []piece{{fmt.Sprintf("%s of the first %s would get it.", say.Count(wanted), say.Many(len(p.Endpoints), "endpoint", "endpoints")), ""}}
	}
	m.Verdict.Next = "Nothing was published. Publish sends it to all that want it; Send to this endpoint sends it to one, marked as a test."
	m.Command = "grapnel send " + shellQuote(e.Type) + " -d " + shellQuote(string(e.Data))
	if e.Key != "" {
		m.Command += " --key " + shellQuote(e.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Metadata)) {
		m.Command += " --metadata " + shellQuote(name+"="+e.Metadata[name])
	}
	if p.Request != nil {
		m.request(v, p.Request)
	}
	return nil
}

// request shows the request as the endpoint would get it, and what a receiver has to refuse.
func (m *playgroundModel) request(v *visit, rq *client.PreviewRequest) {
	m.Request = &message{First: rq.Method + " " + rq.URL, Body: v.readable([]byte(rq.Body))}
	if len(rq.Body) <= v.web.Bounds.Body {
		m.Request.Raw = rq.Body
	}
	m.Request.Headers = headers(rq.Headers)
	m.Signed = fmt.Sprintf("%s covers these %s: the id, the timestamp and the body, joined by dots.", sign.HeaderSignature, say.Many(len(rq.Signed), "byte", "bytes"))
	if len(rq.Signed) <= v.web.Bounds.Body {
		m.Covers = rq.Signed
	}
	good := curlOf(rq, rq.Headers, rq.Body)
	m.Curl = good
	late := maps.Clone(rq.Headers)
	late["webhook-timestamp"] = "1"
	m.Tampers = []ownLine{
		{"The body was changed on the way: the receiver has to answer 4xx", curlOf(rq, rq.Headers, rq.Body+" ")},
		{"The timestamp was changed: the receiver has to answer 4xx", curlOf(rq, late, rq.Body)},
		{"The same request twice, as after a lost answer: the receiver has to do the work once", good + "\n" + good},
	}
}

// curlOf is a request as a command. The body is sent byte for byte.
func curlOf(rq *client.PreviewRequest, header map[string]string, body string) string {
	words := []string{"curl -i"}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		words = append(words, "-H "+shellQuote(name+": "+header[name]))
	}
	return strings.Join(append(words, "--data-raw "+shellQuote(body), shellQuote(rq.URL)), " ")
}

// tryOut looks, or sends to one endpoint, or publishes. If the form itself has faults, a preview
// finds the others.
func tryOut(v *visit) (string, error) {
	then := v.PostForm.Get("then")
	t, own := v.trial(then == "send")
	if then != "answers" {
		delete(v.PostForm, "sent")
	}
	err := own
	switch {
	case then == "answers":
		return "", errPreview
	case own != nil || then == "":
		_, err = v.client.Preview(v.Context(), t.NewEvent, t.endpoint)
	case then == "send":
		err = t.send(v)
	default:
		return v.publishTrial(t.NewEvent)
	}
	return "", cmp.Or(joined(own, err), errPreview)
}

func (v *visit) publishTrial(e client.NewEvent) (string, error) {
	e.ID = v.PostForm.Get("once") // a second click publishes the same event, which is stored once
	made, err := v.client.Publish(v.Context(), e)
	if err != nil {
		return "", err
	}
	v.goTo("/events/" + url.PathEscape(made.ID) + v.ofTenant(e.Tenant))
	return "Published as the event " + made.ID + ", for " + say.Many(made.Deliveries, "endpoint", "endpoints") + ".", nil
}
