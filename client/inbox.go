package client

import (
	"context"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel/wire"
)

// IntakeOutcome is the result of a request to a source.
type IntakeOutcome = wire.IntakeOutcome

// The outcomes of requests to sources.
const (
	IntakeAccepted   = wire.IntakeAccepted
	IntakeUnverified = wire.IntakeUnverified
	IntakeConflict   = wire.IntakeConflict
)

// Request is a request that a source received. The fields from Method on are set only if one
// request is asked for.
type Request = wire.Intake

// KnownBy is the identity by which a source deduplicates a request.
type KnownBy = wire.KnownBy

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
	q := window(f.Limit, f.Cursor, "source", f.Source, "tenant", f.Tenant, "outcome", string(f.Outcome))
	putTime(q, "from", f.From)
	putTime(q, "to", f.To)
	return get[Page[Request]](ctx, c, "/v1/inbox", q)
}

// InboxRequest returns one request with all details.
func (c *Client) InboxRequest(ctx context.Context, id string) (*Request, error) {
	return c.InboxRequestOf(ctx, "", id)
}

// InboxRequestOf returns a request to a source of a tenant; see EventOf.
func (c *Client) InboxRequestOf(ctx context.Context, tenant, id string) (*Request, error) {
	return get[Request](ctx, c, "/v1/inbox/"+url.PathEscape(id), query("tenant", tenant))
}
