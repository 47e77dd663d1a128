package web

import (
	"net/url"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

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
			m.Behind = append(m.Behind, v.deliveryRow(other))
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
	m.Facts.link("Ordering key", d.Key, v.link("/deliveries"+withQuery("q", token{"key", d.Key}.String())))
	if d.Sequence > 0 {
		m.Facts.add("Position in its ordering key", say.Count(d.Sequence))
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
func (m *deliveryModel) others(v *visit, d *client.Delivery, event *client.Event) {
	if event == nil {
		return
	}
	for i := range event.Deliveries {
		if o := &event.Deliveries[i]; o.ID != d.ID && len(m.Others) < mostBehind {
			m.Others = append(m.Others, v.deliveryRow(o))
		}
	}
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

// eventLink is where an event is. The tenant belongs to it: two tenants may have the same id.
func (v *visit) eventLink(tenant, id string) string {
	return v.link("/events/" + url.PathEscape(id) + v.ofTenant(tenant))
}
