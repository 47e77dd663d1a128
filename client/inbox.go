package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
)

// IntakeOutcome is the result of a request to a source.
type IntakeOutcome string

// The outcomes of requests to sources.
const (
	IntakeAccepted   IntakeOutcome = "accepted"
	IntakeUnverified IntakeOutcome = "unverified"
	IntakeConflict   IntakeOutcome = "conflict"
)

// Request is a request that a source received. The fields from Method on are set only if one
// request is asked for.
type Request struct {
	Raw
	ID          string        `json:"id"` // of the event; req_… if it is none
	SourceID    string        `json:"source_id"`
	Tenant      string        `json:"tenant"`
	Outcome     IntakeOutcome `json:"outcome"`
	Reason      string        `json:"reason"`
	ReceivedAt  time.Time     `json:"received_at"`
	EventID     string        `json:"event_id"` // that it became or contradicts
	Type        string        `json:"type"`
	Key         string        `json:"key"`
	ContentType string        `json:"content_type"`
	Size        int           `json:"size"`

	Method     string           `json:"method"`
	Path       string           `json:"path"`
	Remote     string           `json:"remote"`
	Headers    []grapnel.Header `json:"headers"`
	Checks     []grapnel.Check  `json:"checks"`
	KnownBy    *KnownBy         `json:"known_by"`
	Body       json.RawMessage  `json:"body"`        // when it is JSON
	BodyText   *string          `json:"body_text"`   // when it is other text
	BodyBase64 []byte           `json:"body_base64"` // when it is neither
}

// KnownBy is the identity by which a source deduplicates a request.
type KnownBy struct {
	By    grapnel.DedupeBy `json:"by"`
	Value string           `json:"value"`
}

// Content is the body of a request, whatever it is.
func (r *Request) Content() []byte {
	switch {
	case r.Body != nil:
		return r.Body
	case r.BodyText != nil:
		return []byte(*r.BodyText)
	}
	return r.BodyBase64
}

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
	q := window(f.Limit, f.Cursor)
	put(q, "source", f.Source)
	put(q, "tenant", f.Tenant)
	put(q, "outcome", string(f.Outcome))
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
	q := url.Values{}
	put(q, "tenant", tenant)
	return get[Request](ctx, c, "/v1/inbox/"+url.PathEscape(id), q)
}
