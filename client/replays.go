package client

import (
	"context"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
)

// NewReplay says what shall be delivered again, and how. The zero value is everything that failed.
type NewReplay struct {
	From       *time.Time       `json:"from,omitempty"` // of the event's acceptance, inclusive
	To         *time.Time       `json:"to,omitempty"`   // exclusive
	EventTypes []string         `json:"event_types,omitempty"`
	Keys       []string         `json:"keys,omitempty"`
	Status     []grapnel.Status `json:"status,omitempty"`     // final ones; none: failed
	Deliveries []string         `json:"deliveries,omitempty"` // these, and nothing else
	Again      bool             `json:"again,omitempty"`      // also what was replayed with success already or discarded
	Rate       float64          `json:"rate,omitempty"`       // deliveries made in a second; 0: the server's default
	StopAfter  int              `json:"stop_after,omitempty"` // so many failures in a row end it; 0: never
	Canary     bool             `json:"canary,omitempty"`     // the first one has to arrive before the others are made
	Reason     string           `json:"reason,omitempty"`     // for the audit
}

// ReplayPlan is what a replay would do.
type ReplayPlan struct {
	Raw
	Total        int `json:"total"`
	Keys         int `json:"keys"`
	LongestChain int `json:"longest_chain"` // most deliveries of one key
	Overtaken    int `json:"overtaken"`     // of Total: something newer of their key was delivered since
	Excluded     struct {
		AlreadyReplayed int `json:"already_replayed"`
		Discarded       int `json:"discarded"`
		OnItsWay        int `json:"on_its_way"`
		Superseded      int `json:"superseded"`
	} `json:"excluded"`
	Partial bool `json:"partial"` // there are at least as many
}

// Replay is a job that delivers again.
type Replay struct {
	Raw
	ID         string               `json:"id"`
	EndpointID string               `json:"endpoint_id"`
	Tenant     string               `json:"tenant"`
	Status     grapnel.ReplayStatus `json:"status"`
	Reason     string               `json:"reason"`
	Rate       float64              `json:"rate"`
	StopAfter  int                  `json:"stop_after"`
	Canary     bool                 `json:"canary"`
	Total      int                  `json:"total"` // as counted when it was started
	Made       int                  `json:"made"`
	Done       int                  `json:"done"` // of those made: they are over
	Delivered  int                  `json:"delivered"`
	Failed     int                  `json:"failed"` // over, and not delivered
	StartedAt  time.Time            `json:"started_at"`
	StartedBy  string               `json:"started_by"`
	FinishedAt *time.Time           `json:"finished_at"`
	ETA        *time.Time           `json:"eta"`
}

// ReplayItem is what a replay made of one delivery.
type ReplayItem struct {
	Raw
	OriginalID string         `json:"original_id"`
	DeliveryID string         `json:"delivery_id"` // the new one
	MadeAt     time.Time      `json:"made_at"`
	Status     grapnel.Status `json:"status"` // of the new one
}

// ReplayFilter selects replays; the zero value selects all.
type ReplayFilter struct {
	Endpoint, Tenant string
	Active           bool // only those that are running or paused
	Limit            int
	Cursor           string
}

// PlanReplay counts what a replay would deliver again, and starts nothing.
func (c *Client) PlanReplay(ctx context.Context, endpoint string, r NewReplay) (*ReplayPlan, error) {
	return post[ReplayPlan](ctx, c, endpointPath(endpoint)+"/replay", struct {
		NewReplay
		DryRun bool `json:"dry_run"`
	}{r, true})
}

// StartReplay starts a replay. It is durable when this returns.
func (c *Client) StartReplay(ctx context.Context, endpoint string, r NewReplay) (*Replay, error) {
	return post[Replay](ctx, c, endpointPath(endpoint)+"/replay", r)
}

// Replay returns a replay and how far it is.
func (c *Client) Replay(ctx context.Context, id string) (*Replay, error) {
	return get[Replay](ctx, c, replayPath(id), nil)
}

// Replays lists replays, the newest first.
func (c *Client) Replays(ctx context.Context, f ReplayFilter) (*Page[Replay], error) {
	q := window(f.Limit, f.Cursor)
	put(q, "endpoint", f.Endpoint)
	put(q, "tenant", f.Tenant)
	if f.Active {
		q.Set("active", "true")
	}
	return get[Page[Replay]](ctx, c, "/v1/replays", q)
}

// ReplayItems lists what a replay has made, in the order in which it was made.
func (c *Client) ReplayItems(ctx context.Context, id string, limit int, cursor string) (*Page[ReplayItem], error) {
	return get[Page[ReplayItem]](ctx, c, replayPath(id)+"/items", window(limit, cursor))
}

// PauseReplay keeps a replay from making more; what it has made goes on. The reason is for the audit; it may be empty, here and below.
func (c *Client) PauseReplay(ctx context.Context, id, reason string) (*Replay, error) {
	return post[Replay](ctx, c, replayPath(id)+"/pause", because(reason))
}

// ResumeReplay lets a paused replay go on.
func (c *Client) ResumeReplay(ctx context.Context, id, reason string) (*Replay, error) {
	return post[Replay](ctx, c, replayPath(id)+"/resume", because(reason))
}

// CancelReplay ends a replay; what it has made goes on.
func (c *Client) CancelReplay(ctx context.Context, id, reason string) (*Replay, error) {
	return post[Replay](ctx, c, replayPath(id)+"/cancel", because(reason))
}

func replayPath(id string) string { return "/v1/replays/" + url.PathEscape(id) }
