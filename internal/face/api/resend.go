package api

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress"
)

// deadLetterOf is the endpoint's dead letter whose payload a test's body is; nil: there is none.
// The body's id is that of the event, and either the body has the JSON value of the body that was
// sent, or its type and data have the values of the event's. The newest dead letter counts that
// neither a person has discarded nor a replay has delivered.
func (a *api) deadLetterOf(c *call, ep *grapnel.Endpoint, body []byte) (*grapnel.Delivery, error) {
	id := gjson.GetBytes(body, "id")
	if id.Type != gjson.String || !c.key.May(grapnel.ScopeReplay) || !c.mayReadPayloads() {
		return nil, nil
	}
	ev, all, err := a.History.Event(c.Context(), c.scope, ep.Tenant, id.Str)
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	dead := slices.DeleteFunc(slices.Clone(all), func(d grapnel.Delivery) bool {
		return d.EndpointID != ep.ID || d.Status != grapnel.Failed || !d.Mark.DiscardedAt.IsZero() || d.Mark.ReplayResult == grapnel.Delivered
	})
	if len(dead) == 0 {
		return nil, nil
	}
	newest := slices.MaxFunc(dead, func(a, b grapnel.Delivery) int { return int(a.Seq - b.Seq) })
	sent, _, err := egress.Rebuilt(ep, ev, newest.CreatedAt, a.Transform)
	if err == nil && sameValue(sent, body) ||
		gjson.GetBytes(body, "type").String() == ev.Type && sameValue(ev.Data, []byte(gjson.GetBytes(body, "data").Raw)) {
		return &newest, nil
	}
	return nil, nil
}

// sameValue says whether two texts are the same JSON value: spaces, the order of members and the
// digits of numbers may differ, as they do once a receiver's program has read and written it.
func sameValue(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
