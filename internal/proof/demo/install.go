package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// policyName is the name of the policy that the demo's endpoints have.
const policyName = "demo"

// rules are the default policy with seconds in place of minutes and hours, so that one can watch.
const rules = `{"name":"demo","preset":"default","timeout":"5s","max_attempts":8,"jitter":0,
	"breaker":{"failures":3,"window":"10s","probe":"1s","probe_max":"2s"},
	"schedule":{"mode":"since_previous","delays":["0s","1s","2s","4s","8s","15s","30s","60s"],"tail":"stop"}}`

// kinds are the event types that a receiver's endpoint gets; none: all.
var kinds = map[string][]string{Ledger: {"payment.*"}}

// Install creates a policy, an endpoint for each receiver and a few events, unless an earlier run
// has created them. Receivers have a new address and trust a new secret each time.
func (r *Receivers) Install(ctx context.Context, c *client.Client) error {
	if err := agree(ctx, c); err != nil {
		return fmt.Errorf("creating the demo's policy: %w", err)
	}
	there, err := c.Endpoints(ctx, client.EndpointFilter{Limit: 500})
	if err != nil {
		return fmt.Errorf("listing the demo's endpoints: %w", err)
	}
	for _, receiver := range []string{Healthy, Flaky, Ledger} {
		if err := r.connect(ctx, c, receiver, there.Data); err != nil {
			return fmt.Errorf("creating the demo's %s endpoint: %w", receiver, err)
		}
	}
	if err := publish(ctx, c); err != nil {
		return fmt.Errorf("publishing the demo's events: %w", err)
	}
	return nil
}

// agree creates the policy, or gives the one from an earlier run today's rules.
func agree(ctx context.Context, c *client.Client) error {
	_, err := c.CreatePolicy(ctx, json.RawMessage(rules))
	var conflict *client.Error
	if !errors.As(err, &conflict) || conflict.Code != string(grapnel.CodeConflict) {
		return err
	}
	all, err := c.Policies(ctx, client.ListFilter{Limit: 500})
	if err != nil {
		return err
	}
	for _, p := range all.Data {
		if p.Name == policyName {
			_, err := c.UpdatePolicy(ctx, p.ID, json.RawMessage(rules))
			return err
		}
	}
	return conflict
}

// publish publishes the events of one order, so that the demo is not empty. The fixed ids make a
// repeated call a no-op.
func publish(ctx context.Context, c *client.Client) error {
	for i, e := range []client.NewEvent{
		{Type: "order.placed", Data: json.RawMessage(`{"order":"ord_1","total":129.90,"currency":"EUR"}`)},
		{Type: "order.paid", Data: json.RawMessage(`{"order":"ord_1","method":"card"}`)},
		{Type: "order.shipped", Data: json.RawMessage(`{"order":"ord_1","carrier":"post"}`)},
	} {
		e.ID, e.Key = fmt.Sprintf("evt_demo_%d", i+1), "ord_1"
		if _, err := c.Publish(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (r *Receivers) connect(ctx context.Context, c *client.Client, receiver string, there []client.Endpoint) error {
	description := "Demo receiver, " + receiver
	for _, e := range there {
		if e.Description != description {
			continue
		}
		rotated, err := c.RotateSecret(ctx, e.ID, time.Minute)
		if err != nil {
			return err
		}
		// The secret comes first: pending deliveries are sent as soon as the endpoint has its new
		// address.
		if err := r.trust(receiver, rotated.Secret); err != nil {
			return err
		}
		r.endpoints[receiver] = e.ID
		_, err = c.UpdateEndpoint(ctx, e.ID, map[string]any{"url": r.url(receiver), "status": grapnel.EndpointEnabled})
		return err
	}
	made, err := c.CreateEndpoint(ctx, client.NewEndpoint{
		URL: r.url(receiver), Description: description, Policy: policyName, EventTypes: kinds[receiver],
	})
	if err != nil {
		return err
	}
	r.endpoints[receiver] = made.ID
	return r.trust(receiver, made.Secret)
}
