package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// NewQueue has the settings of a queue to create. Only Name is required; the server has defaults
// for the others.
type NewQueue struct {
	Name        string   `json:"name"`
	Tenant      string   `json:"tenant,omitempty"`
	Description string   `json:"description,omitempty"`
	EventTypes  []string `json:"event_types,omitempty"`
	Filter      string   `json:"filter,omitempty"`
	Source      string   `json:"source,omitempty"` // only events of this source
	// the name of a policy, or a value whose JSON is one
	Policy   any              `json:"policy,omitempty"`
	Ordering grapnel.Ordering `json:"ordering,omitempty"`
	Lease    policy.Duration  `json:"lease,omitzero"`
	// limit of one consumer's leases at once
	MaxLeased int `json:"max_leased,omitempty"`
	// no operational events, dead letters or statistics
	Quiet  bool                   `json:"quiet,omitempty"`
	Status grapnel.EndpointStatus `json:"status,omitempty"`
}

// Queue is an endpoint that is pulled. Deliveries, dead letters, replays and statistics refer to it
// by its id, as to any endpoint.
type Queue struct {
	Raw
	ID          string           `json:"id"`
	Tenant      string           `json:"tenant"`
	Name        string           `json:"name"`
	Description string           `json:"description"`
	EventTypes  []string         `json:"event_types"`
	Filter      string           `json:"filter"`
	Source      string           `json:"source"`
	Policy      json.RawMessage  `json:"policy"` // a name or an inline policy
	Ordering    grapnel.Ordering `json:"ordering"`
	Lease       policy.Duration  `json:"lease"`
	MaxLeased   int              `json:"max_leased"`
	// no operational events, dead letters or statistics
	Quiet          bool                   `json:"quiet"`
	Status         grapnel.EndpointStatus `json:"status"`
	DisabledReason string                 `json:"disabled_reason"`
	DisabledAt     *time.Time             `json:"disabled_at"` // nil: it is not disabled
	*QueueCounts                          // nil: the server did not say
	// that asked within a day or hold leases; not in lists
	Consumers []Consumer `json:"consumers"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	Revision  int64      `json:"revision"`
}

// QueueCounts counts a queue's deliveries.
type QueueCounts struct {
	Ready     int64            `json:"ready"`
	Leased    int64            `json:"leased"`
	Delayed   int64            `json:"delayed"` // due later: after a nack, or by the policy
	Waiting   int64            `json:"waiting"` // behind another one of their key
	Blocked   int64            `json:"blocked"` // a person has to act on their keys
	Dead      int64            `json:"dead"`
	OldestAge *policy.Duration `json:"oldest_age"` // of the oldest unfinished delivery; nil: the queue is empty
	OldestAt  *time.Time       `json:"oldest_at"`  // when the event of that delivery was accepted
}

// Consumer takes leases from a queue.
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

// PauseQueue stops leasing until ResumeQueue; existing leases can be settled. The reason is for the
// audit, here and below.
func (c *Client) PauseQueue(ctx context.Context, name, reason string) (*Queue, error) {
	return post[Queue](ctx, c, queuePath(name)+"/pause", because(reason))
}

// ResumeQueue resumes leasing from a paused queue.
func (c *Client) ResumeQueue(ctx context.Context, name, reason string) (*Queue, error) {
	return post[Queue](ctx, c, queuePath(name)+"/resume", because(reason))
}

// DeleteQueue deletes a queue and drops its pending deliveries.
func (c *Client) DeleteQueue(ctx context.Context, name, reason string) error {
	return c.remove(ctx, queuePath(name), why(reason))
}

func queuePath(name string) string { return "/v1/queues/" + url.PathEscape(name) }

// Purged is the result of a purge.
type Purged struct {
	Raw
	Discarded int `json:"discarded"`
}

// PurgeQueue discards all deliveries in a queue now, leased ones too. name repeats the queue's name
// as a confirmation.
func (c *Client) PurgeQueue(ctx context.Context, queue, name, reason string) (*Purged, error) {
	in := map[string]string{"confirm": name}
	if reason != "" {
		in["reason"] = reason
	}
	return post[Purged](ctx, c, queuePath(queue)+"/purge", in)
}
