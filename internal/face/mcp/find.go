package mcp

import (
	"context"

	"github.com/grapnelhq/grapnel/client"
)

type findInput struct {
	What   string `json:"what,omitempty" jsonschema:"endpoints, deliveries or events; empty: whatever the search stands for, and all things with such a name"`
	Search string `json:"search,omitempty" jsonschema:"a part of a name or an id; of deliveries a search such as 'status:failed endpoint:Warehouse type:invoice.* code:5xx since:6h'"`
	Type   string `json:"type,omitempty" jsonschema:"of events: only this event type; a whole segment may be *"`
	Key    string `json:"key,omitempty" jsonschema:"of events: only this ordering key"`
	Since  string `json:"since,omitempty" jsonschema:"of events: accepted then or later, such as 2026-01-31T12:00:00Z, or 6h for six hours ago"`
	Tenant string `json:"tenant,omitempty" jsonschema:"only of this tenant, for an API key without one"`
	Limit  int    `json:"limit,omitempty" jsonschema:"at most this many rows; 20 if not given"`
	Cursor string `json:"cursor,omitempty" jsonschema:"continue after the answer that gave this cursor"`
}

type found struct {
	Meaning    *meaningFact   `json:"meaning,omitempty"`
	Things     []thingFact    `json:"things,omitempty" jsonschema:"things whose names contain the word"`
	Endpoints  []endpointFact `json:"endpoints,omitempty"`
	Deliveries []deliveryFact `json:"deliveries,omitempty"`
	Events     []eventFact    `json:"events,omitempty"`
	Next       string         `json:"next,omitempty" jsonschema:"cursor of the next rows"`
	Omitted    int            `json:"omitted,omitempty" jsonschema:"rows that were left out to keep the answer short"`
}

type meaningFact struct {
	As   string `json:"as" jsonschema:"delivery, event, endpoint, key, type, source, tenant, or text: none of them"`
	ID   quoted `json:"id,omitempty"`
	Name quoted `json:"name,omitempty"`
}

type thingFact struct {
	Kind   string `json:"kind"`
	ID     quoted `json:"id"`
	Name   quoted `json:"name"`
	Tenant string `json:"tenant,omitempty"`
}

func find(ctx context.Context, c *call, in findInput) (*found, error) {
	out, limit := &found{}, c.rows(in.Limit)
	if in.What != "events" && (in.Type != "" || in.Key != "" || in.Since != "") {
		return nil, wrong("what", "type, key and since go with events only; of deliveries write them into search")
	}
	switch in.What {
	case "":
		if in.Search == "" {
			return nil, wrong("search", "give a word to look for")
		}
		m, err := c.Client.Meant(ctx, in.Search, in.Tenant)
		if err != nil {
			return nil, err
		}
		out.Meaning = &meaningFact{m.As, c.text(m.ID), c.text(m.Name)}
		for _, t := range m.Things {
			out.Things = append(out.Things, thingFact{t.Kind, c.text(t.ID), c.text(t.Name), t.Tenant})
		}
	case "endpoints":
		page, err := c.Client.Endpoints(ctx, client.EndpointFilter{Search: in.Search, Tenant: in.Tenant, Limit: limit, Cursor: in.Cursor})
		if err != nil {
			return nil, err
		}
		for i := range page.Data {
			out.Endpoints = append(out.Endpoints, c.endpointOf(&page.Data[i]))
		}
		out.Next = page.Next
	case "deliveries":
		page, err := c.Client.Deliveries(ctx, client.DeliveryFilter{Filter: in.Search, Tenant: in.Tenant, Limit: limit, Cursor: in.Cursor})
		if err != nil {
			return nil, err
		}
		for i := range page.Data {
			out.Deliveries = append(out.Deliveries, c.delivery(&page.Data[i]))
		}
		out.Next = page.Next
	case "events":
		from, err := c.since("since", in.Since)
		if err != nil {
			return nil, err
		}
		page, err := c.Client.Events(ctx, client.EventFilter{Type: in.Type, Key: in.Key, Text: in.Search, Tenant: in.Tenant, From: from,
			Limit: limit, Cursor: in.Cursor})
		if err != nil {
			return nil, err
		}
		for i := range page.Data {
			out.Events = append(out.Events, c.event(&page.Data[i], false))
		}
		out.Next = page.Next
	default:
		return nil, chosen("what", in.What, "endpoints", "deliveries", "events")
	}
	return out, nil
}

func (f *found) say(p *prose) {
	switch m := f.Meaning; {
	case m == nil:
	case m.As == "text":
		p.say("The word is no id and no whole name.")
	default:
		p.say("The word stands for: %s.", m.As)
		p.told("  Id", m.ID)
		p.told("  Name", m.Name)
	}
	for _, t := range f.Things {
		p.say("%s %s: %s.", t.Kind, t.ID, t.Name)
	}
	for i := range f.Endpoints {
		f.Endpoints[i].say(p)
	}
	for i := range f.Deliveries {
		f.Deliveries[i].say(p)
	}
	for i := range f.Events {
		f.Events[i].say(p)
	}
	if len(p.lines) == 0 {
		p.say("Nothing was found.")
	}
	p.left(f.Omitted, f.Next)
}

// shorten drops the cursor too: the rows that are left out would be skipped by it.
func (f *found) shorten() bool {
	f.Next = ""
	return halve(&f.Things, &f.Omitted) || halve(&f.Endpoints, &f.Omitted) || halve(&f.Deliveries, &f.Omitted) || halve(&f.Events, &f.Omitted)
}
