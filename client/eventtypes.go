package client

import (
	"context"
	"strconv"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of event types.
type (
	// NewEventType is an event type to be registered. Only Name is required; with Schema it has
	// version 1 at once.
	NewEventType   = wire.NewEventType
	NewTypeVersion = wire.NewTypeVersion // a version of a schema to be added
	EventType      = wire.EventType      // an event type that a tenant has registered
	TypeVersion    = wire.TypeVersion    // one version of its schema
	TypeComparison = wire.TypeComparison // has the differences of two versions
	TypeDifference = wire.TypeDifference // one difference
)

// EventTypes lists event types, without the schemas of their versions.
func (c *Client) EventTypes(ctx context.Context, f ListFilter) (*Page[EventType], error) {
	return get[Page[EventType]](ctx, c, "/v1/event-types", f.query())
}

// EventType returns an event type by its id, or by its name.
func (c *Client) EventType(ctx context.Context, id string) (*EventType, error) {
	return get[EventType](ctx, c, at("/v1/event-types", id), nil)
}

// CreateEventType registers an event type.
func (c *Client) CreateEventType(ctx context.Context, t NewEventType) (*EventType, error) {
	return post[EventType](ctx, c, "/v1/event-types", t)
}

// UpdateEventType changes the fields given, by JSON merge patch.
func (c *Client) UpdateEventType(ctx context.Context, id string, changes map[string]any) (*EventType, error) {
	return patch[EventType](ctx, c, at("/v1/event-types", id), nil, changes)
}

// DeleteEventType deletes an event type with all versions.
func (c *Client) DeleteEventType(ctx context.Context, id string) error {
	return c.remove(ctx, at("/v1/event-types", id), nil)
}

// AddTypeVersion adds a version. If the newest version has the schema already nothing changes.
func (c *Client) AddTypeVersion(ctx context.Context, id string, v NewTypeVersion) (*EventType, error) {
	return post[EventType](ctx, c, at("/v1/event-types", id, "versions"), v)
}

// UpdateTypeVersion changes a version's note, or whether it is deprecated.
func (c *Client) UpdateTypeVersion(ctx context.Context, id string, version int, changes map[string]any) (*EventType, error) {
	return patch[EventType](ctx, c, at("/v1/event-types", id, "versions", strconv.Itoa(version)), nil, changes)
}

// CompareTypeVersions lists the differences of two versions; 0: the one before to, and the newest.
func (c *Client) CompareTypeVersions(ctx context.Context, id string, from, to int) (*TypeComparison, error) {
	return get[TypeComparison](ctx, c, at("/v1/event-types", id, "compare"), query("from", from, "to", to))
}
