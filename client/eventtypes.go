package client

import (
	"context"
	"fmt"
	"net/url"

	"github.com/grapnelhq/grapnel/wire"
)

// NewEventType is an event type to be registered. Only Name is required; with Schema it has version
// 1 at once.
type NewEventType = wire.NewEventType

// NewTypeVersion is a version of a schema to be added.
type NewTypeVersion = wire.NewTypeVersion

// EventType is an event type that a tenant has registered.
type EventType = wire.EventType

// TypeVersion is one version of its schema.
type TypeVersion = wire.TypeVersion

// TypeComparison has the differences of two versions.
type TypeComparison = wire.TypeComparison

// TypeDifference is one difference.
type TypeDifference = wire.TypeDifference

// EventTypes lists event types, without the schemas of their versions.
func (c *Client) EventTypes(ctx context.Context, f ListFilter) (*Page[EventType], error) {
	return get[Page[EventType]](ctx, c, "/v1/event-types", f.query())
}

// EventType returns an event type by its id, or by its name.
func (c *Client) EventType(ctx context.Context, id string) (*EventType, error) {
	return get[EventType](ctx, c, typePath(id), nil)
}

// CreateEventType registers an event type.
func (c *Client) CreateEventType(ctx context.Context, t NewEventType) (*EventType, error) {
	return post[EventType](ctx, c, "/v1/event-types", t)
}

// UpdateEventType changes the fields given, by JSON merge patch.
func (c *Client) UpdateEventType(ctx context.Context, id string, changes map[string]any) (*EventType, error) {
	return patch[EventType](ctx, c, typePath(id), nil, changes)
}

// DeleteEventType deletes an event type with all versions.
func (c *Client) DeleteEventType(ctx context.Context, id string) error {
	return c.remove(ctx, typePath(id), nil)
}

// AddTypeVersion adds a version. If the newest version has the schema already nothing changes.
func (c *Client) AddTypeVersion(ctx context.Context, id string, v NewTypeVersion) (*EventType, error) {
	return post[EventType](ctx, c, typePath(id)+"/versions", v)
}

// UpdateTypeVersion changes a version's note, or whether it is deprecated.
func (c *Client) UpdateTypeVersion(ctx context.Context, id string, version int, changes map[string]any) (*EventType, error) {
	return patch[EventType](ctx, c, fmt.Sprintf("%s/versions/%d", typePath(id), version), nil, changes)
}

// CompareTypeVersions lists the differences of two versions; 0: the one before to, and the newest.
func (c *Client) CompareTypeVersions(ctx context.Context, id string, from, to int) (*TypeComparison, error) {
	q := url.Values{}
	putNumber(q, "from", from)
	putNumber(q, "to", to)
	return get[TypeComparison](ctx, c, typePath(id)+"/compare", q)
}

func typePath(id string) string { return "/v1/event-types/" + url.PathEscape(id) }
