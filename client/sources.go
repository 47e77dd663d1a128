package client

import (
	"context"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// NewSource is a source to be created. Name and Verify.Scheme are required; the server has defaults
// for the others.
type NewSource struct {
	Name        string    `json:"name"`
	Tenant      string    `json:"tenant,omitempty"`
	Description string    `json:"description,omitempty"`
	Verify      NewVerify `json:"verify,omitzero"`
	// instead of Verify: events are read from a producer's outbox
	Outbox       *NewOutbox         `json:"outbox,omitempty"`
	Dedupe       *NewDedupe         `json:"dedupe,omitempty"`
	OnUnverified grapnel.Unverified `json:"on_unverified,omitempty"`
	// a CEL expression; empty: the provider's own field
	Type      string                 `json:"type,omitempty"`
	Key       string                 `json:"key,omitempty"` // the same
	PublicURL string                 `json:"public_url,omitempty"`
	RateLimit *grapnel.RateLimit     `json:"rate_limit,omitempty"`
	MaxBody   int64                  `json:"max_body,omitempty"`
	Status    grapnel.EndpointStatus `json:"status,omitempty"` // enabled or paused
}

// NewOutbox says where a producer's outbox is.
type NewOutbox struct {
	DSN string `json:"dsn"` // of the producer's PostgreSQL
}

// NewVerify says how a source verifies.
type NewVerify struct {
	Scheme string `json:"scheme"`
	Secret string `json:"secret,omitempty"`
	// instead of Secret, the newest first
	Secrets         []string        `json:"secrets,omitempty"`
	Header          string          `json:"header,omitempty"`
	Algorithm       string          `json:"algorithm,omitempty"`
	Encoding        string          `json:"encoding,omitempty"`
	Prefix          string          `json:"prefix,omitempty"`
	Signed          string          `json:"signed,omitempty"`
	TimestampHeader string          `json:"timestamp_header,omitempty"`
	IDHeader        string          `json:"id_header,omitempty"`
	TypeHeader      string          `json:"type_header,omitempty"`
	Tolerance       policy.Duration `json:"tolerance,omitzero"`
	Username        string          `json:"username,omitempty"`
}

// NewDedupe has the settings by which a source recognises duplicates.
type NewDedupe struct {
	By     []grapnel.DedupeBy `json:"by,omitzero"` // nil: the server's default; empty: never
	Window policy.Duration    `json:"window,omitzero"`
	Ignore []string           `json:"ignore,omitempty"`
}

// Source is where the webhooks of one provider come in.
type Source struct {
	Raw
	ID          string `json:"id"`
	Tenant      string `json:"tenant"`
	Name        string `json:"name"`
	Description string `json:"description"`
	// with the server's public address; below its address, if it does not know one
	IngestURL    string                 `json:"ingest_url"`
	Verify       Verify                 `json:"verify"`
	Outbox       *Outbox                `json:"outbox"` // nil: it has none
	Dedupe       Dedupe                 `json:"dedupe"`
	OnUnverified grapnel.Unverified     `json:"on_unverified"`
	Type         string                 `json:"type"`
	Key          string                 `json:"key"`
	PublicURL    string                 `json:"public_url"`
	RateLimit    *grapnel.RateLimit     `json:"rate_limit"`
	MaxBody      int64                  `json:"max_body"` // 0: the server's limit
	Status       grapnel.EndpointStatus `json:"status"`   // enabled or paused
	Provider     Provider               `json:"provider"`
	Refusals     *Refusals              `json:"refusals"` // nil: there were none
	CreatedAt    time.Time              `json:"created_at"`
	UpdatedAt    time.Time              `json:"updated_at"`
	Revision     int64                  `json:"revision"`
}

// Outbox is how the relay of a source's outbox is doing.
type Outbox struct {
	Place string `json:"place"` // without secrets
	// paused, connecting, relaying, standby, held or away
	State       string          `json:"state"`
	Since       *time.Time      `json:"since"`
	Detail      string          `json:"detail"` // why, where it is not well
	Lag         policy.Duration `json:"lag"`    // age of the oldest event
	SeenAt      *time.Time      `json:"seen_at"`
	LastEventAt *time.Time      `json:"last_event_at"`
	Events      int64           `json:"events"` // since the server was started
	SetAside    int64           `json:"set_aside"`
}

// Verify is how a source verifies, without its secrets.
type Verify struct {
	Scheme          string           `json:"scheme"`
	Secrets         []SecretInfo     `json:"secrets"` // the live ones, the newest first
	Header          string           `json:"header"`
	Algorithm       string           `json:"algorithm"`
	Encoding        string           `json:"encoding"`
	Prefix          string           `json:"prefix"`
	Signed          string           `json:"signed"`
	TimestampHeader string           `json:"timestamp_header"`
	IDHeader        string           `json:"id_header"`
	TypeHeader      string           `json:"type_header"`
	Tolerance       *policy.Duration `json:"tolerance"` // nil: no timestamp is signed
	Username        string           `json:"username"`
}

// Dedupe has the settings by which a source recognises duplicates.
type Dedupe struct {
	By     []grapnel.DedupeBy `json:"by"`
	Window policy.Duration    `json:"window"`
	Ignore []string           `json:"ignore"`
}

// Provider describes the provider of a scheme.
type Provider struct {
	Title      string           `json:"title"`
	Signature  string           `json:"signature"`
	IDsSigned  bool             `json:"ids_signed"`
	RetriesFor *policy.Duration `json:"retries_for"` // nil: it does not retry, or unknown
	Retries    string           `json:"retries"`
	Checked    string           `json:"checked"`
	Docs       string           `json:"docs"`
}

// Refusals are the requests that a source refused, at the node that answered, since its start.
type Refusals struct {
	LastAt     time.Time `json:"last_at"`
	LastStatus int       `json:"last_status"`
	LastReason string    `json:"last_reason"`
	LastHour   int       `json:"last_hour"`
}

// SourceFilter selects sources; the zero value selects all.
type SourceFilter struct {
	Tenant string
	Limit  int
	Cursor string
}

// CreateSource creates a source.
func (c *Client) CreateSource(ctx context.Context, s NewSource) (*Source, error) {
	return post[Source](ctx, c, "/v1/sources", s)
}

// Source returns a source.
func (c *Client) Source(ctx context.Context, id string) (*Source, error) {
	return get[Source](ctx, c, sourcePath(id), nil)
}

// Sources lists sources.
func (c *Client) Sources(ctx context.Context, f SourceFilter) (*Page[Source], error) {
	q := window(f.Limit, f.Cursor)
	put(q, "tenant", f.Tenant)
	return get[Page[Source]](ctx, c, "/v1/sources", q)
}

// UpdateSource changes the fields given, by JSON merge patch: a nil value removes one. Secrets stay
// unless some are given.
func (c *Client) UpdateSource(ctx context.Context, id string, changes map[string]any) (*Source, error) {
	return patch[Source](ctx, c, sourcePath(id), nil, changes)
}

// RotateSourceSecret gives a source the provider's new secret. Earlier ones stay valid for overlap;
// 0: the server's default, negative: they end at once.
func (c *Client) RotateSourceSecret(ctx context.Context, id, secret string, overlap time.Duration) (*Source, error) {
	in := map[string]any{"secret": secret}
	if overlap != 0 {
		in["overlap"] = max(0, overlap).String()
	}
	return post[Source](ctx, c, sourcePath(id)+"/rotate-secret", in)
}

// DeleteSource deletes a source; its messages stay. The reason is for the audit.
func (c *Client) DeleteSource(ctx context.Context, id, reason string) error {
	return c.remove(ctx, sourcePath(id), why(reason))
}

func sourcePath(id string) string { return "/v1/sources/" + url.PathEscape(id) }
