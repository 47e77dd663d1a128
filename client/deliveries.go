package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// The objects of deliveries.
type (
	Delivery = wire.Delivery // one event for one endpoint
	Last     = wire.Last     // a delivery's last attempt, as lists show it too
	Marks    = wire.Marks    // notes on a finished delivery
	Attempt  = wire.Attempt  // one try of a delivery
	Phases   = wire.Phases   // the parts of an attempt's time; zero: the phase did not happen
	// SignatureCheck says which of today's secrets make the signatures of an attempt.
	SignatureCheck = wire.SignatureCheck
	SentBody       = wire.SentBody    // the body of the request that an attempt sent
	SignedParts    = wire.SignedParts // what a signature covers
)

// DeliveryFilter selects deliveries; the zero value selects all.
type DeliveryFilter struct {
	Endpoint          string
	Status            []grapnel.Status
	Type, Key, Tenant string
	From, To          time.Time // of the event's acceptance; From inclusive, To exclusive
	ReasonCode        grapnel.ReasonCode
	ErrorClass        policy.Class // of the last attempt
	StatusCode        int          // of the last attempt
	Text              string       // in the event's data; pages may be short while Next is not empty
	Filter            string       // a search, such as status:dead since:6h; each condition here or in its own field
	Replayed          bool         // of dead letters: also those whose redelivery succeeded
	Limit             int
	Cursor            string
}

func (f DeliveryFilter) query() url.Values {
	return window(f.Limit, f.Cursor, "type", f.Type, "key", f.Key, "tenant", f.Tenant, "from", f.From, "to", f.To, "status", f.Status,
		"reason_code", f.ReasonCode, "error_class", f.ErrorClass, "status_code", f.StatusCode, "text", f.Text, "filter", f.Filter)
}

// Delivery returns a delivery with its attempts, past and planned.
func (c *Client) Delivery(ctx context.Context, id string) (*Delivery, error) {
	return get[Delivery](ctx, c, at("/v1/deliveries", id), nil)
}

// Signature computes the signatures of an attempt again, with the secrets that the endpoint has
// now.
func (c *Client) Signature(ctx context.Context, id string, attempt int) (*SignatureCheck, error) {
	return get[SignatureCheck](ctx, c, at("/v1/deliveries", id, "attempts", strconv.Itoa(attempt), "signature"), nil)
}

// SentBody is the body that an attempt sent, made again from the event.
func (c *Client) SentBody(ctx context.Context, id string, attempt int) (*SentBody, error) {
	return get[SentBody](ctx, c, at("/v1/deliveries", id, "attempts", strconv.Itoa(attempt), "body"), nil)
}

// Deliveries lists deliveries, the newest first.
func (c *Client) Deliveries(ctx context.Context, f DeliveryFilter) (*Page[Delivery], error) {
	path := "/v1/deliveries"
	if f.Endpoint != "" {
		path = at("/v1/endpoints", f.Endpoint, "deliveries")
	}
	return get[Page[Delivery]](ctx, c, path, f.query())
}

// Retry tries a pending delivery now. For a finished one it creates and returns a new delivery. The
// reason is for the audit; it may be empty.
func (c *Client) Retry(ctx context.Context, id, reason string) (*Delivery, error) {
	return post[Delivery](ctx, c, at("/v1/deliveries", id, "retry"), because(reason))
}

// Skip ends a waiting delivery without delivering it, so that its key moves on.
func (c *Client) Skip(ctx context.Context, id, reason string) (*Delivery, error) {
	return post[Delivery](ctx, c, at("/v1/deliveries", id, "skip"), map[string]string{"reason": reason})
}

// because is the body of a call that says no more than why; nil: not even that.
func because(reason string) any {
	if reason == "" {
		return nil
	}
	return map[string]string{"reason": reason}
}
