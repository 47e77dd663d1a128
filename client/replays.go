package client

import (
	"context"
	"net/http"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of replays.
type (
	// NewReplay selects deliveries to deliver again, and has the settings of the replay. The zero
	// value selects all failed ones.
	NewReplay  = wire.NewReplay
	ReplayPlan = wire.Plan      // the preview of a replay
	Replay     = wire.Replay    // a job that delivers again
	Selection  = wire.Selection // has the filters of a replay's deliveries
	ReplayItem = wire.Item      // a delivery of a replay, with its redelivery
)

// ReplayFilter selects replays; the zero value selects all.
type ReplayFilter struct {
	Endpoint, Tenant string
	Active           bool // only those that are running or paused
	Limit            int
	Cursor           string
}

// PlanReplay counts the deliveries of a replay without starting it. It carries no idempotency key:
// it changes nothing, and the server would store its answer durably.
func (c *Client) PlanReplay(ctx context.Context, endpoint string, r NewReplay) (*ReplayPlan, error) {
	r.DryRun = true
	return answered[ReplayPlan](ctx, c, call{method: http.MethodPost, path: at("/v1/endpoints", endpoint, "replay"), in: r, idempotent: true})
}

// StartReplay starts a replay. It is durable when this returns.
func (c *Client) StartReplay(ctx context.Context, endpoint string, r NewReplay) (*Replay, error) {
	return c.StartReplayOnce(ctx, endpoint, "", r)
}

// StartReplayOnce starts a replay with an idempotency key of the caller's. The same key with the
// same replay again starts nothing and returns what the first call returned.
func (c *Client) StartReplayOnce(ctx context.Context, endpoint, once string, r NewReplay) (*Replay, error) {
	return answered[Replay](ctx, c, call{method: http.MethodPost, path: at("/v1/endpoints", endpoint, "replay"), in: r, once: once})
}

// Replay returns a replay and how far it is.
func (c *Client) Replay(ctx context.Context, id string) (*Replay, error) {
	return get[Replay](ctx, c, at("/v1/replays", id), nil)
}

// Replays lists replays, the newest first.
func (c *Client) Replays(ctx context.Context, f ReplayFilter) (*Page[Replay], error) {
	q := window(f.Limit, f.Cursor, "endpoint", f.Endpoint, "tenant", f.Tenant, "active", f.Active)
	return get[Page[Replay]](ctx, c, "/v1/replays", q)
}

// ReplayItems lists a replay's deliveries, in the order of creation.
func (c *Client) ReplayItems(ctx context.Context, id string, limit int, cursor string) (*Page[ReplayItem], error) {
	return get[Page[ReplayItem]](ctx, c, at("/v1/replays", id, "items"), window(limit, cursor))
}

// PauseReplay stops a replay from creating deliveries; those it has created go on. The reason is
// for the audit; it may be empty, here and below.
func (c *Client) PauseReplay(ctx context.Context, id, reason string) (*Replay, error) {
	return post[Replay](ctx, c, at("/v1/replays", id, "pause"), because(reason))
}

// ResumeReplay lets a paused replay go on.
func (c *Client) ResumeReplay(ctx context.Context, id, reason string) (*Replay, error) {
	return post[Replay](ctx, c, at("/v1/replays", id, "resume"), because(reason))
}

// CancelReplay ends a replay; deliveries it has created go on.
func (c *Client) CancelReplay(ctx context.Context, id, reason string) (*Replay, error) {
	return post[Replay](ctx, c, at("/v1/replays", id, "cancel"), because(reason))
}
