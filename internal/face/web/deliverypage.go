package web

import (
	"cmp"

	"github.com/grapnelhq/grapnel/client"
)

func delivery(v *visit, d *client.Delivery) (deliveryModel, error) {
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
	m := deliveryModel{ID: d.ID, Type: d.Type, Pill: pillOf(d), At: v.ownerLink(d.EndpointID), Key: d.Key,
		Endpoint: cmp.Or(d.EndpointName, d.EndpointID)}
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
	switch {
	case ep != nil:
		v.offerEdit(&m.Verdict, event, ep.ID)
	case isQueue(d.EndpointID): // which the form does not name
		v.offerEdit(&m.Verdict, event, "")
	}
	m.check(v, d, event)
	if err := m.audit(v, d); err != nil {
		return m, err
	}
	return m, m.others(v, d, event)
}
