package web

import (
	"context"
	"net/http"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// order is the replay of one endpoint, as the form carries it.
type order struct {
	Endpoint string           `json:"endpoint"`
	Replay   client.NewReplay `json:"replay"`
}

// choice is the selection of a wizard as orders, one for each endpoint.
type choice struct {
	orders []order
	notes  []string
	more   bool // deliveries that match were left out
}

// named are the deliveries with these ids, in their order.
func (v *visit) named(ids []string) ([]client.Delivery, error) {
	if len(ids) > v.web.Bounds.Page {
		return nil, refused(http.StatusRequestEntityTooLarge, "Too many deliveries are named.", "Name at most "+say.Count(v.web.Bounds.Page)+", or use a search.")
	}
	return allOf(v, (*client.Client).Delivery, ids)
}

// allOf reads the things with these ids.
func allOf[T any](v *visit, get func(*client.Client, context.Context, string) (*T, error), ids []string) (all []T, err error) {
	for _, id := range ids {
		thing, err := get(v.client, v.Context(), id)
		if err != nil {
			return nil, err
		}
		all = append(all, *thing)
	}
	return all, nil
}

func (v *visit) chooseNamed(ids []string, again bool) (choice, error) {
	all, err := v.named(ids)
	if err != nil {
		return choice{}, err
	}
	var c choice
	finished := slices.DeleteFunc(all, func(d client.Delivery) bool { return !d.Status.Final() })
	if n := len(ids) - len(finished); n > 0 {
		c.notes = append(c.notes, say.Many(n, "delivery is", "deliveries are")+" not finished and cannot be replayed; retry them instead.")
	}
	c.byEndpoint(finished, func(ids []string) client.NewReplay { return client.NewReplay{Deliveries: ids, Again: again} })
	return c, nil
}

// byEndpoint makes an order for each endpoint of the deliveries.
func (c *choice) byEndpoint(all []client.Delivery, request func(ids []string) client.NewReplay) {
	by := map[string][]string{}
	var sequence []string
	for i := range all {
		if at := all[i].EndpointID; by[at] == nil {
			sequence = append(sequence, at)
		}
		by[all[i].EndpointID] = append(by[all[i].EndpointID], all[i].ID)
	}
	for _, at := range sequence {
		c.orders = append(c.orders, order{at, request(by[at])})
	}
}

// choose makes the orders of a search. A replay of the API selects by status, type, key, time and
// result; for any other condition the deliveries are looked up here and named; all: more of them.
func (v *visit) choose(f client.DeliveryFilter, again, all bool) (choice, error) {
	var c choice
	var statuses []grapnel.Status
	for _, s := range f.Status {
		if s.Final() && !slices.Contains(statuses, s) {
			statuses = append(statuses, s)
		}
	}
	if len(statuses) < len(f.Status) {
		c.notes = append(c.notes, "Only finished deliveries can be replayed; pending and held ones are left out.")
	}
	letters := !again && (len(statuses) == 0 || slices.Equal(statuses, []grapnel.Status{grapnel.Failed}))
	if f.Status = statuses; len(statuses) == 0 {
		f.Status = []grapnel.Status{grapnel.Failed}
	}
	replay := client.NewReplay{Status: statuses, Again: again}
	if f.Type != "" {
		replay.EventTypes = []string{f.Type}
	}
	if f.Key != "" {
		replay.Keys = []string{f.Key}
	}
	if !f.From.IsZero() {
		replay.From = &f.From
	}
	if !f.To.IsZero() {
		replay.To = &f.To
	}
	replay.ErrorClass, replay.StatusCode = f.ErrorClass, f.StatusCode
	byName := f.ReasonCode != "" || f.Text != "" || f.Filter != ""
	if f.Endpoint != "" && !byName {
		c.orders = []order{{f.Endpoint, replay}}
		return c, nil
	}
	most := v.web.Bounds.Found
	switch {
	case byName && all:
		most = v.web.Bounds.Named
	case byName:
		most = v.web.Bounds.Letters
	}
	found, more, err := v.finished(f, letters, most)
	if err != nil {
		return c, err
	}
	if byName {
		if c.more = more; more {
			c.notes = append(c.notes, "These are the newest "+say.Count(len(found))+" that match; older ones are left out. Replay them afterwards.")
		}
		c.byEndpoint(found, func(ids []string) client.NewReplay { return client.NewReplay{Deliveries: ids, Again: again} })
		return c, nil
	}
	if more {
		c.notes = append(c.notes, "The endpoints are those of the newest "+say.Count(len(found))+
			" deliveries that match; others may have older ones.")
	}
	c.byEndpoint(found, func([]string) client.NewReplay { return replay })
	return c, nil
}

// finished reads finished deliveries of a filter, the newest first.
func (v *visit) finished(f client.DeliveryFilter, letters bool, most int) (all []client.Delivery, more bool, err error) {
	ask := v.client.Deliveries
	if letters {
		ask = v.client.DeadLetters
	}
	for len(all) < most {
		f.Limit = min(most-len(all), 500)
		part, err := ask(v.Context(), f)
		if err != nil {
			return nil, false, err
		}
		all = append(all, part.Data...)
		if f.Cursor = part.Next; f.Cursor == "" {
			return all, false, nil
		}
		if len(part.Data) < f.Limit {
			break // a search looks at one part at a time, which takes long enough for a page
		}
	}
	return all, true, nil
}
