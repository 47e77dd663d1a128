package client

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of the inbox.
type (
	IntakeOutcome = wire.IntakeOutcome // the result of a request to a source
	// Request is a request that a source received. The fields from Method on are set only if one
	// request is asked for.
	Request = wire.Intake
	KnownBy = wire.KnownBy // the identity by which a source deduplicates a request
)

// The outcomes of requests to sources.
const (
	IntakeAccepted   = wire.IntakeAccepted
	IntakeUnverified = wire.IntakeUnverified
	IntakeConflict   = wire.IntakeConflict
)

// InboxFilter selects requests; the zero value selects all.
type InboxFilter struct {
	Source, Tenant string
	Outcome        IntakeOutcome
	From, To       time.Time // of receipt; From inclusive, To exclusive
	Limit          int
	Cursor         string
}

// Inbox lists the requests that sources received, the newest first.
func (c *Client) Inbox(ctx context.Context, f InboxFilter) (*Page[Request], error) {
	q := window(f.Limit, f.Cursor, "source", f.Source, "tenant", f.Tenant, "outcome", f.Outcome, "from", f.From, "to", f.To)
	return get[Page[Request]](ctx, c, "/v1/inbox", q)
}

// InboxRequest returns one request with all details.
func (c *Client) InboxRequest(ctx context.Context, id string) (*Request, error) {
	return c.InboxRequestOf(ctx, "", id)
}

// InboxRequestOf returns a request to a source of a tenant; see EventOf.
func (c *Client) InboxRequestOf(ctx context.Context, tenant, id string) (*Request, error) {
	return get[Request](ctx, c, at("/v1/inbox", id), query("tenant", tenant))
}
