package mcp

import (
	"cmp"
	"context"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

type explainInput struct {
	ID      string `json:"id" jsonschema:"id of a delivery (dlv_…), an event, an endpoint (ep_…) or an issue (iss_…)"`
	Tenant  string `json:"tenant,omitempty" jsonschema:"tenant of the event, for an API key without one"`
	Payload bool   `json:"payload,omitempty" jsonschema:"also show the event's data, cut; the API key must be allowed to see it"`
}

type explanation struct {
	Event      *eventFact     `json:"event,omitempty"`
	Deliveries []deliveryFact `json:"deliveries,omitempty"`
	Causes     []causesFact   `json:"causes,omitempty" jsonschema:"why the endpoints of deliveries with failures fail"`
	Issue      *issueFact     `json:"issue,omitempty"`
	Omitted    int            `json:"omitted,omitempty" jsonschema:"rows that were left out to keep the answer short"`
}

// eventFact is an event with its data, if they were asked for.
type eventFact struct {
	ID       quoted `json:"id"`
	Type     quoted `json:"type"`
	Key      quoted `json:"key,omitempty"`
	Accepted string `json:"accepted_at"`
	Data     quoted `json:"data,omitempty"`
	Hidden   bool   `json:"payload_hidden,omitempty" jsonschema:"the API key may not see data"`
}

// event is an event; with payload its data too, or that the server hides it.
func (r *room) event(e *client.Event, payload bool) eventFact {
	f := eventFact{ID: r.text(e.ID), Type: r.text(e.Type), Key: r.text(e.Key), Accepted: at(&e.AcceptedAt), Hidden: e.PayloadHidden}
	if payload {
		f.Data = r.payload(string(dataOf(e)))
	}
	return f
}

// dataOf are an event's data, whether or not they are JSON.
func dataOf(e *client.Event) []byte {
	if len(e.Data) > 0 {
		return e.Data
	}
	return e.DataBase64
}

func (f *eventFact) say(p *prose) {
	p.say("Event %s (type %s, key %s) was accepted at %s.", f.ID, f.Type, f.Key, f.Accepted)
	p.told("  Data", f.Data)
	if f.Hidden {
		p.say("  The API key may not see data.")
	}
}

// explain says what became of a delivery, or of each delivery of an event, and why those that
// failed did.
func explain(ctx context.Context, c *call, in explainInput) (*explanation, error) {
	out := &explanation{}
	switch {
	case strings.HasPrefix(in.ID, "iss_"):
		i, err := c.Client.Issue(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		f := c.issue(i)
		if out.Issue = &f; i.Why != nil {
			out.Causes = append(out.Causes, c.causes(i.Why))
		}
		return out, nil
	case strings.HasPrefix(in.ID, "ep_"):
		return out, out.explainEndpoint(ctx, c, in.ID)
	case strings.HasPrefix(in.ID, "dlv_"):
		d, err := c.Client.Delivery(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		out.Deliveries = append(out.Deliveries, c.tried(d))
		if in.Payload {
			if err := out.show(ctx, c, cmp.Or(in.Tenant, d.Tenant), d.EventID); err != nil {
				return nil, err
			}
		}
		return out, out.explainAll(ctx, c, []client.Delivery{*d})
	}
	e, err := c.Client.EventOf(ctx, in.Tenant, in.ID) // a publisher's own id has no form
	if err != nil {
		return nil, err
	}
	f := c.event(e, in.Payload)
	out.Event = &f
	n := min(len(e.Deliveries), c.Bounds.Rows)
	out.Omitted = len(e.Deliveries) - n
	for i := range e.Deliveries[:n] {
		out.Deliveries = append(out.Deliveries, c.delivery(&e.Deliveries[i]))
	}
	return out, out.explainAll(ctx, c, e.Deliveries[:n])
}

// show adds an event with its data.
func (e *explanation) show(ctx context.Context, c *call, tenant, id string) error {
	event, err := c.Client.EventOf(ctx, tenant, id)
	if err == nil {
		f := c.event(event, true)
		e.Event = &f
	}
	return err
}

// explainAll explains the endpoints of deliveries that had a failure, each once.
func (e *explanation) explainAll(ctx context.Context, c *call, all []client.Delivery) error {
	asked := map[string]bool{}
	for i := range all {
		d := &all[i]
		failed := d.AttemptsMade > 1 || d.AttemptsMade == 1 && d.Status != grapnel.Delivered
		if !failed || asked[d.EndpointID] {
			continue
		}
		asked[d.EndpointID] = true
		if err := e.explainEndpoint(ctx, c, d.EndpointID); err != nil {
			return err
		}
	}
	return nil
}

func (e *explanation) explainEndpoint(ctx context.Context, c *call, id string) error {
	causes, err := c.Client.Causes(ctx, id)
	if err == nil {
		e.Causes = append(e.Causes, c.causes(causes))
	}
	return err
}

func (e *explanation) say(p *prose) {
	if e.Event != nil {
		e.Event.say(p)
	}
	if e.Issue != nil {
		e.Issue.say(p)
	}
	for i := range e.Deliveries {
		e.Deliveries[i].say(p)
	}
	for i := range e.Causes {
		e.Causes[i].say(p)
	}
	if len(p.lines) == 0 {
		p.say("The event has no delivery.")
	}
	p.left(e.Omitted, "")
}

func (e *explanation) shorten() bool {
	shorter := false
	for i := range e.Deliveries {
		shorter = e.Deliveries[i].shorten() || shorter
	}
	for i := range e.Causes {
		shorter = e.Causes[i].shorten() || shorter
	}
	if !shorter {
		shorter = halve(&e.Deliveries, &e.Omitted) || halve(&e.Causes, &e.Omitted)
	}
	return shorter
}
