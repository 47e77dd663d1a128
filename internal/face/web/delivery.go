package web

import (
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// deliveryModel is one delivery: the reason for its state, its attempts, and the plan.
type deliveryModel struct {
	ID, Type string
	Pill     pill
	Endpoint string
	At       string // where the endpoint's page is; empty: there is none here
	Verdict  verdict
	Timeline template.HTML
	Attempts []attemptRow
	Planned  []plannedRow
	Shown    *attemptRow // the attempt whose request and response are shown
	Request  message
	Response message
	Facts    facts
	Behind   []deliveryRow // later deliveries of the key, which wait for this one
	More     bool          // there are more of them
	Ahead    string        // where the first delivery of the key is, which this one waits for
	Key      string
	Others   []deliveryRow // of the same event, at other endpoints
	Before   int           // the number of the attempt before the shown one; 0: none
	Changes  []diffLine    // how the shown attempt differs from the one before
	Sent     client.SentBody
	Curl     string // sends the shown attempt's request again
	Masked   string // headers whose values Curl does not have
	Stale    bool   // receivers refuse the timestamp of Curl by now
	Local    string // the command that brings deliveries of the endpoint to a local server
	Signed   string // which bytes are signed
	CheckAt  string // where the signature is computed again
	Check    *signatureCheck
	Compare  string
	Audit    []auditLine
}

// auditLine is an entry of the audit about one delivery.
type auditLine struct {
	At                  moment
	Verb, Actor, Reason string
}

// fact is a name and what it is.
type fact struct {
	Name, Value string
	Href        string
	At          moment
}

// facts are shown as a list.
type facts []fact

// add adds pairs of names and values, without those whose value is empty.
func (f *facts) add(pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		f.link(pairs[i], pairs[i+1], "")
	}
}

// link adds a fact that leads somewhere, unless its value is empty.
func (f *facts) link(name, value, href string) {
	if value != "" {
		*f = append(*f, fact{Name: name, Value: value, Href: href})
	}
}

// at adds an instant.
func (f *facts) at(name string, at moment) { *f = append(*f, fact{Name: name, At: at}) }

const mostBehind = 10

func delivery(v *visit) (deliveryModel, error) {
	d, err := v.client.Delivery(v.Context(), v.PathValue("id"))
	if err != nil {
		return deliveryModel{}, err
	}
	event, err := optional(v.client.EventOf(v.Context(), d.Tenant, d.EventID))
	if err != nil {
		return deliveryModel{}, err
	}
	var ep *client.Endpoint
	if !isQueue(d.EndpointID) && !isChannel(d.EndpointID) {
		if ep, err = optional(v.client.Endpoint(v.Context(), d.EndpointID)); err != nil {
			return deliveryModel{}, err
		}
	}
	m := deliveryModel{ID: d.ID, Type: d.Type, Pill: pillOf(d), At: v.ownerLink(d.EndpointID), Key: d.Key}
	if ep != nil {
		m.Endpoint = endpointName(ep)
	} else if m.Endpoint, err = v.nameOf(d.EndpointID); err != nil {
		return m, err
	}
	v.title = m.Type + " to " + m.Endpoint
	if d.Key != "" && !d.Status.Final() {
		if err := m.behind(v, d); err != nil {
			return m, err
		}
	}
	m.attempts(v, d)
	m.Verdict = v.deliveryVerdict(d, ep, &m)
	m.timeline(v, d)
	m.messages(v, d, ep)
	m.facts(v, d, event, ep)
	m.tools(v, d, event, ep)
	m.check(v, d, event)
	if err := m.audit(v, d); err != nil {
		return m, err
	}
	return m, m.others(v, d, event)
}

// optional is a thing that may have been deleted or damaged: nil instead of the error that says so.
func optional[T any](thing *T, err error) (*T, error) {
	told, ok := err.(*client.Error) //nolint:errorlint // the client returns it as it is
	if ok && (told.Status == 404 || told.Code == string(grapnel.CodeDamaged)) {
		return nil, nil
	}
	return thing, err
}

// behind finds the deliveries of the key that wait for this one. Deliveries of one key have
// ascending sequences.
func (m *deliveryModel) behind(v *visit, d *client.Delivery) error {
	found, err := v.client.Deliveries(v.Context(), client.DeliveryFilter{Endpoint: d.EndpointID, Key: d.Key, Tenant: d.Tenant,
		Status: waitingStatuses, Limit: 4 * mostBehind})
	if err != nil {
		return err
	}
	m.More = found.Next != ""
	if n := len(found.Data); n > 0 && found.Next == "" && found.Data[n-1].ID != d.ID {
		m.Ahead = v.link("/deliveries/" + found.Data[n-1].ID)
	} else if found.Next != "" && len(d.Planned) == 0 {
		q := strings.Join([]string{token{"endpoint", d.EndpointID}.String(), token{"key", d.Key}.String(), "status:waiting"}, " ")
		m.Ahead = v.link("/deliveries" + withQuery("q", q))
	}
	for i := range slices.Backward(found.Data) {
		other := &found.Data[i]
		if other.Sequence > d.Sequence && d.Sequence > 0 && other.ID != d.ID {
			m.Behind = append(m.Behind, v.deliveryRow(other, nil))
		}
	}
	if len(m.Behind) > mostBehind {
		m.Behind, m.More = m.Behind[:mostBehind], true
	}
	return nil
}

func (m *deliveryModel) facts(v *visit, d *client.Delivery, event *client.Event, ep *client.Endpoint) {
	if d.ReplayOf != nil { // its event was accepted before
		m.Facts.at("Created", v.at(d.CreatedAt))
	} else {
		m.Facts.at("Accepted", v.at(d.CreatedAt))
	}
	if d.FinishedAt != nil {
		m.Facts.at("Finished", v.at(*d.FinishedAt))
	}
	m.Facts.link("Event", d.EventID, v.eventLink(d.Tenant, d.EventID))
	m.Facts.link("Key", d.Key, v.link("/deliveries"+withQuery("q", token{"key", d.Key}.String())))
	if d.Sequence > 0 {
		m.Facts.add("Position of its key", count(d.Sequence))
	}
	if ep != nil {
		m.Facts.add("Policy", words.Policy(ep.Policy, ep.PolicyChanges))
	}
	if d.ReplayOf != nil {
		m.Facts.link("Repeats", *d.ReplayOf, v.link("/deliveries/"+url.PathEscape(*d.ReplayOf)))
	}
	if d.ReplayedAs != "" {
		m.Facts.link("Delivered again as", d.ReplayedAs, v.link("/deliveries/"+url.PathEscape(d.ReplayedAs)))
	}
	m.Facts.add("Note", d.Note)
	if event != nil {
		m.Facts.add("Source", event.Source)
	}
	m.Facts.add("Tenant", d.Tenant)
}

// others are the deliveries of the same event at other endpoints.
func (m *deliveryModel) others(v *visit, d *client.Delivery, event *client.Event) error {
	if event == nil || len(event.Deliveries) < 2 {
		return nil
	}
	names, err := v.endpointNames(event.Deliveries)
	if err != nil {
		return err
	}
	for i := range event.Deliveries {
		if o := &event.Deliveries[i]; o.ID != d.ID && len(m.Others) < mostBehind {
			m.Others = append(m.Others, v.deliveryRow(o, names))
		}
	}
	return nil
}

// orderOnce has the API make a delivery or an attempt, once however often the form is sent: what a
// first click has delivered, a second one would deliver again. A page may have buttons for several
// things, so each has a key of its own.
func (v *visit) orderOnce(of, id, verb string, in any) (d client.Delivery, err error) {
	once := v.PostForm.Get("once")
	if once != "" {
		once += "-" + id
	}
	err = v.client.PostOnce(v.Context(), of+url.PathEscape(id)+verb, once, in, &d)
	return d, err
}

func retryDelivery(v *visit) (string, error) {
	d, err := v.orderOnce("/v1/deliveries/", v.PathValue("id"), "/retry", map[string]string{"reason": byDashboard})
	if err != nil {
		return "", err
	}
	if d.ID != v.PathValue("id") {
		return "A new delivery of the same event was made: " + d.ID, nil
	}
	return "The attempt is being made now.", nil
}
