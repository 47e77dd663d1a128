package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/grapnelhq/grapnel/client"
)

type testInput struct {
	Endpoint string `json:"endpoint" jsonschema:"id or name of the endpoint that gets the event"`
	Type     string `json:"type,omitempty" jsonschema:"event type; grapnel.test if not given"`
	Data     any    `json:"data,omitempty" jsonschema:"the event's data, any JSON"`
	Tenant   string `json:"tenant,omitempty" jsonschema:"tenant of the endpoint's name, for an API key without one"`
}

type tested struct {
	Delivery deliveryFact `json:"delivery"`
}

// sendTest sends an event to one endpoint alone and waits for the outcome, until a limit.
func sendTest(ctx context.Context, c *call, in testInput) (*tested, error) {
	id, err := c.endpoint(ctx, "endpoint", in.Endpoint, in.Tenant)
	if err != nil {
		return nil, err
	}
	var data struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(c.arguments, &data); err != nil {
		return nil, err
	}
	d, err := c.Client.TestEndpoint(ctx, id, in.Type, data.Data)
	if err != nil {
		return nil, err
	}
	return &tested{c.tried(outcome(ctx, c, d))}, nil
}

// outcome looks at a delivery until it is finished. A delivery that cannot be read, such as by a
// key that may not, stays as it was.
func outcome(ctx context.Context, c *call, d *client.Delivery) *client.Delivery {
	ctx, cancel := context.WithTimeout(ctx, c.Bounds.TestWait)
	defer cancel()
	tick := time.NewTicker(min(200*time.Millisecond, c.Bounds.TestWait))
	defer tick.Stop()
	for !d.Status.Final() {
		select {
		case <-ctx.Done():
			return d
		case <-tick.C:
		}
		now, err := c.Client.Delivery(ctx, d.ID)
		if err != nil {
			return d
		}
		d = now
	}
	return d
}

func (t *tested) say(p *prose) { t.Delivery.say(p) }

func (t *tested) shorten() bool { return t.Delivery.shorten() }
