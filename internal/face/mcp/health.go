package mcp

import (
	"context"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/wire"
)

type healthInput struct {
	Endpoint string `json:"endpoint,omitempty" jsonschema:"id or name of an endpoint; empty: all endpoints, and those that need attention"`
	Tenant   string `json:"tenant,omitempty" jsonschema:"only of this tenant, for an API key without one"`
}

type health struct {
	Sentence  quoted         `json:"sentence,omitempty" jsonschema:"the state of all endpoints together"`
	Counts    map[string]int `json:"endpoints_by_health,omitempty"`
	Pending   int64          `json:"pending_deliveries"`
	Dead      int64          `json:"dead_letters"`
	Endpoints []endpointFact `json:"endpoints,omitempty" jsonschema:"the endpoint that was asked for, or those that need attention, the worst first"`
	One       *figuresFact   `json:"figures,omitempty" jsonschema:"of the endpoint that was asked for"`
	Omitted   int            `json:"omitted,omitempty" jsonschema:"rows that were left out to keep the answer short"`
}

// figuresFact has the state of one endpoint in numbers, and those of its last 24 hours.
type figuresFact struct {
	InFlight      int    `json:"in_flight"`
	NextAttempt   string `json:"next_attempt_at,omitempty"`
	NextProbe     string `json:"next_probe_at,omitempty"`
	FailingSince  string `json:"failing_since,omitempty"`
	Drain         string `json:"drain_estimate,omitempty" jsonschema:"how long the held deliveries take once the endpoint works"`
	Strikes       int    `json:"strikes" jsonschema:"failed deliveries in a row that count towards disabling"`
	Delivered     int64  `json:"delivered"`
	Failed        int64  `json:"failed" jsonschema:"became dead letters"`
	Attempts      int64  `json:"attempts"`
	FailedTries   int64  `json:"failed_attempts"`
	FirstAttempts int64  `json:"first_attempts"`
	FirstSuccess  int64  `json:"first_attempt_success"`
	P50           string `json:"latency_p50,omitempty"`
	P95           string `json:"latency_p95,omitempty"`
}

func endpointHealth(ctx context.Context, c *call, in healthInput) (*health, error) {
	if in.Endpoint == "" {
		return overallHealth(ctx, c, in.Tenant)
	}
	id, err := c.endpoint(ctx, "endpoint", in.Endpoint, in.Tenant)
	if err != nil {
		return nil, err
	}
	e, err := c.Client.Endpoint(ctx, id)
	if err != nil {
		return nil, err
	}
	stats, err := c.Client.Stats(ctx, client.StatsFilter{Endpoint: id})
	if err != nil {
		return nil, err
	}
	h, t := &e.Health, &stats.Totals
	f := &figuresFact{InFlight: h.InFlight, NextAttempt: at(h.NextAttemptAt), NextProbe: at(h.NextProbeAt), FailingSince: at(h.FailingSince),
		Strikes: h.Strikes, Delivered: t.Delivered, Failed: t.Failed, Attempts: t.Attempts, FailedTries: t.FailedAttempts,
		FirstAttempts: t.FirstAttempts, FirstSuccess: t.FirstAttemptSuccess}
	if h.DrainEstimate != nil {
		f.Drain = say.Took(h.DrainEstimate.Std())
	}
	if t.Latency.P50 != nil && t.Latency.P95 != nil {
		f.P50, f.P95 = say.Took(t.Latency.P50.Std()), say.Took(t.Latency.P95.Std())
	}
	return &health{Endpoints: []endpointFact{c.endpointOf(e)}, One: f, Pending: int64(h.Held)}, nil
}

// overallHealth is the verdict on all endpoints, and those that need attention.
func overallHealth(ctx context.Context, c *call, tenant string) (*health, error) {
	o, err := c.Client.Overview(ctx, tenant)
	if err != nil {
		return nil, err
	}
	v := words.Overall(c.Clock(), o)
	out := &health{Sentence: c.payload(strings.TrimSpace(v.Say() + " " + v.Next)), Counts: counts(&o.Endpoints), Pending: o.Pending.All,
		Dead: o.DeadLetters.All}
	n := min(len(o.Attention), c.Bounds.Rows)
	out.Omitted = len(o.Attention) - n
	for i := range o.Attention[:n] {
		e := &o.Attention[i]
		f := c.endpointOf(&client.Endpoint{ID: e.ID, NewEndpoint: client.NewEndpoint{URL: e.URL, Description: e.Description, Tenant: e.Tenant},
			DisabledReason: e.DisabledReason, Health: e.Health})
		out.Endpoints = append(out.Endpoints, f)
	}
	return out, nil
}

// counts are the numbers of endpoints in each state that some are in.
func counts(s *wire.EndpointStates) map[string]int {
	all := map[string]int{"all": s.All}
	if s.Healthy > 0 {
		all["healthy"] = s.Healthy
	}
	for _, state := range wire.Troubles() {
		if n := *s.State(state); n > 0 {
			all[string(state)] = n
		}
	}
	return all
}

func (h *health) say(p *prose) {
	p.told("All endpoints", h.Sentence)
	if h.One == nil {
		p.say("%s pending; %s.", say.Many(h.Pending, "delivery is", "deliveries are"), say.Many(h.Dead, "dead letter", "dead letters"))
	}
	for i := range h.Endpoints {
		h.Endpoints[i].say(p)
	}
	if f := h.One; f != nil {
		p.say("In the last 24 hours %s delivered and %d failed for good; %d of %s failed, and %d of %s succeeded.",
			say.Many(f.Delivered, "delivery was", "deliveries were"), f.Failed, f.FailedTries, say.Many(f.Attempts, "attempt", "attempts"),
			f.FirstSuccess, say.Many(f.FirstAttempts, "first attempt", "first attempts"))
		for _, line := range []struct{ what, at string }{{"It has failed since", f.FailingSince}, {"The next probe is not before", f.NextProbe},
			{"The next attempt is at", f.NextAttempt}, {"Held deliveries take, once it works,", f.Drain}, {"Half of the answers came within", f.P50},
			{"95 % of the answers came within", f.P95}} {
			if line.at != "" {
				p.say("%s %s.", line.what, line.at)
			}
		}
	}
	p.left(h.Omitted, "")
}

func (h *health) shorten() bool { return halve(&h.Endpoints, &h.Omitted) }
