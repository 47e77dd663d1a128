package client

import (
	"context"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of queues.
type (
	// NewQueue has the settings of a queue to create. Only Name is required; the server has defaults
	// for the others.
	NewQueue = wire.NewQueue
	// Queue is an endpoint that is pulled. Deliveries, dead letters, replays and statistics refer to
	// it by its id, as to any endpoint.
	Queue       = wire.Queue
	QueueCounts = wire.QueueCounts // counts a queue's deliveries
	Consumer    = wire.Consumer    // takes leases from a queue
	QueueFilter = ListFilter       // selects queues; the zero value selects all
	Purged      = wire.Purge       // the result of a purge
)

// CreateQueue creates a queue.
func (c *Client) CreateQueue(ctx context.Context, q NewQueue) (*Queue, error) {
	return post[Queue](ctx, c, "/v1/queues", q)
}

// Queue returns a queue by its name or id, with its counts and consumers.
func (c *Client) Queue(ctx context.Context, name string) (*Queue, error) {
	return get[Queue](ctx, c, at("/v1/queues", name), nil)
}

// Queues lists queues.
func (c *Client) Queues(ctx context.Context, f QueueFilter) (*Page[Queue], error) {
	return get[Page[Queue]](ctx, c, "/v1/queues", f.query())
}

// UpdateQueue changes the fields given, by JSON merge patch: a nil value removes one.
func (c *Client) UpdateQueue(ctx context.Context, name string, changes map[string]any) (*Queue, error) {
	return patch[Queue](ctx, c, at("/v1/queues", name), nil, changes)
}

// PauseQueue stops leasing until ResumeQueue; existing leases can be settled. The reason is for the
// audit, here and below.
func (c *Client) PauseQueue(ctx context.Context, name, reason string) (*Queue, error) {
	return post[Queue](ctx, c, at("/v1/queues", name, "pause"), because(reason))
}

// ResumeQueue resumes leasing from a paused queue.
func (c *Client) ResumeQueue(ctx context.Context, name, reason string) (*Queue, error) {
	return post[Queue](ctx, c, at("/v1/queues", name, "resume"), because(reason))
}

// DeleteQueue deletes a queue and drops its pending deliveries.
func (c *Client) DeleteQueue(ctx context.Context, name, reason string) error {
	return c.remove(ctx, at("/v1/queues", name), why(reason))
}

// PurgeQueue discards all deliveries in a queue now, leased ones too. name repeats the queue's name
// as a confirmation.
func (c *Client) PurgeQueue(ctx context.Context, queue, name, reason string) (*Purged, error) {
	return post[Purged](ctx, c, at("/v1/queues", queue, "purge"), given("reason", reason, "confirm", name))
}
