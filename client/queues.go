package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// NewQueue is a queue to be created. Only Name is required; the server says what the rest is when left out.
type NewQueue struct {
	Name        string                 `json:"name"`
	Tenant      string                 `json:"tenant,omitempty"`
	Description string                 `json:"description,omitempty"`
	EventTypes  []string               `json:"event_types,omitempty"`
	Filter      string                 `json:"filter,omitempty"`
	Source      string                 `json:"source,omitempty"` // only what came in through this source
	Policy      any                    `json:"policy,omitempty"` // the name of a policy, or what is JSON of one
	Ordering    grapnel.Ordering       `json:"ordering,omitempty"`
	Lease       policy.Duration        `json:"lease,omitzero"`
	MaxLeased   int                    `json:"max_leased,omitempty"` // leases of one consumer at once
	Quiet       bool                   `json:"quiet,omitempty"`      // nobody but its consumers notices it
	Status      grapnel.EndpointStatus `json:"status,omitempty"`
}

// Queue is an endpoint that is pulled. By its id it is found among deliveries, dead letters, replays and statistics like any other.
type Queue struct {
	Raw
	ID             string                 `json:"id"`
	Tenant         string                 `json:"tenant"`
	Name           string                 `json:"name"`
	Description    string                 `json:"description"`
	EventTypes     []string               `json:"event_types"`
	Filter         string                 `json:"filter"`
	Source         string                 `json:"source"`
	Policy         json.RawMessage        `json:"policy"` // a name or an inline policy
	Ordering       grapnel.Ordering       `json:"ordering"`
	Lease          policy.Duration        `json:"lease"`
	MaxLeased      int                    `json:"max_leased"`
	Quiet          bool                   `json:"quiet"` // no operational events, dead letters or statistics
	Status         grapnel.EndpointStatus `json:"status"`
	DisabledReason string                 `json:"disabled_reason"`
	*QueueCounts                          // nil: the server did not say
	Consumers      []Consumer             `json:"consumers"` // who has asked within a day or holds leases; not in lists
	CreatedAt      time.Time              `json:"created_at"`
	UpdatedAt      time.Time              `json:"updated_at"`
	Revision       int64                  `json:"revision"`
}

// QueueCounts says what is in a queue.
type QueueCounts struct {
	Ready     int64            `json:"ready"`
	Leased    int64            `json:"leased"`
	Delayed   int64            `json:"delayed"` // due later: after a nack, or by the policy
	Waiting   int64            `json:"waiting"` // behind another one of their key
	Blocked   int64            `json:"blocked"` // their keys wait for a person
	Dead      int64            `json:"dead"`
	OldestAge *policy.Duration `json:"oldest_age"` // of what is not over; nil: there is nothing
}

// Consumer is who takes from a queue.
type Consumer struct {
	Name   string    `json:"name"`
	Leased int64     `json:"leased"`
	SeenAt time.Time `json:"seen_at"`
}

// QueueFilter selects queues; the zero value selects all.
type QueueFilter struct {
	Tenant string
	Limit  int
	Cursor string
}

// CreateQueue creates a queue.
func (c *Client) CreateQueue(ctx context.Context, q NewQueue) (*Queue, error) {
	return post[Queue](ctx, c, "/v1/queues", q)
}

// Queue returns a queue by its name or id, with its counts and consumers.
func (c *Client) Queue(ctx context.Context, name string) (*Queue, error) {
	return get[Queue](ctx, c, queuePath(name), nil)
}

// Queues lists queues.
func (c *Client) Queues(ctx context.Context, f QueueFilter) (*Page[Queue], error) {
	q := window(f.Limit, f.Cursor)
	put(q, "tenant", f.Tenant)
	return get[Page[Queue]](ctx, c, "/v1/queues", q)
}

// UpdateQueue changes the fields given, by JSON merge patch: a nil value removes one.
func (c *Client) UpdateQueue(ctx context.Context, name string, changes map[string]any) (*Queue, error) {
	return patch[Queue](ctx, c, queuePath(name), nil, changes)
}

// PauseQueue hands out nothing until ResumeQueue; leases that there are can be settled. The reason is for the audit, here and below.
func (c *Client) PauseQueue(ctx context.Context, name, reason string) (*Queue, error) {
	return post[Queue](ctx, c, queuePath(name)+"/pause", because(reason))
}

// ResumeQueue hands out what a pause held back.
func (c *Client) ResumeQueue(ctx context.Context, name, reason string) (*Queue, error) {
	return post[Queue](ctx, c, queuePath(name)+"/resume", because(reason))
}

// DeleteQueue deletes a queue; what waits in it ends as dropped.
func (c *Client) DeleteQueue(ctx context.Context, name, reason string) error {
	return c.remove(ctx, queuePath(name), why(reason))
}

func queuePath(name string) string { return "/v1/queues/" + url.PathEscape(name) }

// Purged says what a purge has ended.
type Purged struct {
	Raw
	Discarded int `json:"discarded"`
}

// PurgeQueue ends all that is in a queue now as discarded, whoever has a lease. The queue's name has to be said once more.
func (c *Client) PurgeQueue(ctx context.Context, queue, name, reason string) (*Purged, error) {
	in := map[string]string{"confirm": name}
	if reason != "" {
		in["reason"] = reason
	}
	return post[Purged](ctx, c, queuePath(queue)+"/purge", in)
}
