package mcp

import (
	"context"
	"net/url"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/policy"
)

// selection says which deliveries a replay delivers again.
type selection struct {
	Endpoint   string   `json:"endpoint,omitempty" jsonschema:"id or name of the endpoint; leave it out with issue"`
	Issue      string   `json:"issue,omitempty" jsonschema:"id of an issue (iss_…): its dead letters, and no other field but tenant"`
	Since      string   `json:"since,omitempty" jsonschema:"events accepted then or later: 2026-01-31T12:00:00Z, or 6h for six hours ago"`
	Until      string   `json:"until,omitempty" jsonschema:"events accepted before then"`
	EventTypes []string `json:"event_types,omitempty" jsonschema:"only these; a whole segment may be *"`
	Keys       []string `json:"keys,omitempty" jsonschema:"only these ordering keys"`
	Status     []string `json:"status,omitempty" jsonschema:"only these statuses: failed, delivered, dropped, discarded, skipped; failed if not given"`
	ErrorClass string   `json:"error_class,omitempty" jsonschema:"only those whose last attempt ended in this, such as timeout or status_5xx"`
	StatusCode int      `json:"status_code,omitempty" jsonschema:"only those whose last attempt got this response"`
	Deliveries []string `json:"deliveries,omitempty" jsonschema:"these finished deliveries (dlv_…) and nothing else"`
	Again      bool     `json:"again,omitempty" jsonschema:"also deliveries that were replayed with success or discarded"`
	Tenant     string   `json:"tenant,omitempty" jsonschema:"tenant of the endpoint's name, for an API key without one"`
}

type startInput struct {
	selection
	Reason    string  `json:"reason" jsonschema:"why; kept in the audit"`
	Rate      float64 `json:"rate,omitempty" jsonschema:"deliveries created per second; 100 if not given"`
	StopAfter int     `json:"stop_after,omitempty" jsonschema:"stop after this number of failures in a row"`
	Canary    bool    `json:"canary,omitempty" jsonschema:"create the others only after the first one has succeeded"`
	Once      string  `json:"once,omitempty" jsonschema:"any text: calling again with it and the same fields starts nothing and returns the first replay; since and until must be times"`
}

type plan struct {
	Endpoint     string `json:"endpoint_id,omitempty"`
	Issue        string `json:"issue_id,omitempty"`
	Total        int    `json:"total" jsonschema:"deliveries that the replay would create"`
	ByStatus     string `json:"by_status,omitempty"`
	Keys         int    `json:"keys"`
	LongestChain int    `json:"longest_chain" jsonschema:"most deliveries of one key; they arrive one after the other"`
	Overtaken    int    `json:"overtaken" jsonschema:"would arrive after a newer event of their key"`
	LeftOut      int    `json:"left_out" jsonschema:"match and are not replayed: replayed already, discarded, on their way, replaced or tests"`
	Waiting      int    `json:"waiting" jsonschema:"pending and held deliveries that match otherwise; they are not replayed"`
	Partial      bool   `json:"partial,omitempty" jsonschema:"the count was cut short: the numbers are minimums"`
}

type started struct {
	ID       string `json:"id"`
	Endpoint string `json:"endpoint_id"`
	Status   string `json:"status"`
	Total    int    `json:"total"`
}

// order is the selection as the API takes it, with the endpoint's id; with an issue it has none.
func (s *selection) order(ctx context.Context, c *call) (id string, r client.NewReplay, err error) {
	if s.Issue != "" {
		if s.Endpoint != "" || s.Since != "" || s.Until != "" || len(s.EventTypes)+len(s.Keys)+len(s.Status)+len(s.Deliveries) > 0 ||
			s.ErrorClass != "" || s.StatusCode != 0 || s.Again {
			return "", r, wrong("issue", "it selects the dead letters by itself; leave the other fields out")
		}
		return "", r, nil
	}
	if id, err = c.endpoint(ctx, "endpoint", s.Endpoint, s.Tenant); err != nil {
		return "", r, err
	}
	if r.From, err = c.moment("since", s.Since); err != nil {
		return "", r, err
	}
	if r.To, err = c.moment("until", s.Until); err != nil {
		return "", r, err
	}
	r.EventTypes, r.Keys, r.ErrorClass, r.StatusCode = s.EventTypes, s.Keys, policy.Class(s.ErrorClass), s.StatusCode
	r.Deliveries, r.Again = s.Deliveries, s.Again
	for _, one := range s.Status {
		r.Status = append(r.Status, grapnel.Status(one))
	}
	return id, r, nil
}

func previewReplay(ctx context.Context, c *call, in selection) (*plan, error) {
	id, r, err := in.order(ctx, c)
	if err != nil {
		return nil, err
	}
	var p *client.ReplayPlan
	if in.Issue != "" {
		p, err = c.Client.PlanIssueReplay(ctx, in.Issue, client.NewIssueReplay{})
	} else {
		p, err = c.Client.PlanReplay(ctx, id, r)
	}
	if err != nil {
		return nil, err
	}
	x := &p.Excluded
	return &plan{Endpoint: id, Issue: in.Issue, Total: p.Total, ByStatus: p.ByStatus.String(), Keys: p.Keys, LongestChain: p.LongestChain,
		Overtaken: p.Overtaken, LeftOut: x.AlreadyReplayed + x.Discarded + x.OnItsWay + x.Superseded + x.Tests, Waiting: p.Waiting,
		Partial: p.Partial}, nil
}

func startReplay(ctx context.Context, c *call, in startInput) (*started, error) {
	if in.Reason == "" {
		return nil, wrong("reason", "say why; the audit keeps it")
	}
	id, r, err := in.order(ctx, c)
	if err != nil {
		return nil, err
	}
	var made *client.Replay
	if in.Issue != "" {
		err = c.Client.PostOnce(ctx, "/v1/issues/"+url.PathEscape(in.Issue)+"/replay", in.Once,
			client.NewIssueReplay{Rate: in.Rate, StopAfter: in.StopAfter, Canary: in.Canary, Reason: in.Reason}, &made)
	} else {
		r.Rate, r.StopAfter, r.Canary, r.Reason = in.Rate, in.StopAfter, in.Canary, in.Reason
		made, err = c.Client.StartReplayOnce(ctx, id, in.Once, r)
	}
	if err != nil {
		return nil, err
	}
	return &started{made.ID, made.EndpointID, string(made.Status), made.Total}, nil
}

func (p *plan) say(to *prose) {
	least := map[bool]string{true: "at least "}[p.Partial]
	of := "endpoint " + p.Endpoint
	if p.Issue != "" {
		of = "issue " + p.Issue
	}
	to.say("A replay of %s would create %s%s of %s; the longest chain of one key has %d. Nothing was started.", of, least,
		say.Many(p.Total, "delivery", "deliveries"), say.Many(p.Keys, "key", "keys"), p.LongestChain)
	for _, part := range []struct {
		n    int
		what string
	}{{p.Overtaken, "would arrive after newer events of their key"}, {p.LeftOut, "match and are left out: replayed already, discarded, on their way, replaced or tests"},
		{p.Waiting, "pending or held deliveries match; they are on their way and are not replayed"}} {
		if part.n > 0 {
			to.say("%d %s.", part.n, part.what)
		}
	}
	if p.ByStatus != "" {
		to.say("By status: %s.", p.ByStatus)
	}
}

func (*plan) shorten() bool { return false }

func (s *started) say(p *prose) {
	p.say("Replay %s of endpoint %s has status %s and delivers %s again.", s.ID, s.Endpoint, s.Status, say.Many(s.Total, "delivery", "deliveries"))
}

func (*started) shorten() bool { return false }
