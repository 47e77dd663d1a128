package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// The objects of events.
type (
	// NewEvent is an event to publish. Type and Data are required; Data is JSON and is sent as it is,
	// byte for byte.
	NewEvent  = wire.NewEvent
	Published = wire.Published // the server's word that an event and all its deliveries are durable
	// Event is an event as stored. Data is JSON as it was published, without spaces between its parts;
	// receivers get the bytes with them.
	Event           = wire.Event
	Preview         = wire.Preview         // says what publishing an event would do
	PreviewEndpoint = wire.PreviewEndpoint // says whether one endpoint would get an event
	PreviewRequest  = wire.PreviewRequest  // a request as it would be sent now
	Duplicate       = wire.Duplicate       // an event that was published, or received, again
)

// encoded is the event as a request. encoding/json would reformat its data, but receivers verify
// their bytes.
func encoded(e NewEvent) ([]byte, error) {
	if !json.Valid(e.Data) {
		return nil, &Error{Code: string(grapnel.CodeMalformed), Detail: "the event's data is not JSON",
			Fields: []Field{{Pointer: "/data", Detail: "must be JSON; data of any other kind is published with PublishRaw"}}}
	}
	for pointer, text := range map[string]string{"/key": e.Key, "/aggregate_id": e.AggregateID} {
		if !utf8.ValidString(text) { // encoding/json would replace bytes, and the server accept the result
			return nil, &Error{Code: string(grapnel.CodeInvalid), Detail: "the event's key is not text",
				Fields: []Field{{Pointer: pointer, Detail: "must be UTF-8"}}}
		}
	}
	return wire.Request(e)
}

// PublishResult is the result of one event of a batch: one of the two fields is set.
type PublishResult struct {
	Published *Published
	Err       *Error
}

// UnmarshalJSON tells a result from a problem by the code that only a problem has.
func (r *PublishResult) UnmarshalJSON(text []byte) error {
	var probe struct {
		Code   string  `json:"code"`
		Status int     `json:"status"`
		Title  string  `json:"title"`
		Detail string  `json:"detail"`
		Errors []Field `json:"errors"`
	}
	if err := json.Unmarshal(text, &probe); err != nil {
		return err
	}
	if probe.Code != "" {
		r.Err = &Error{Status: probe.Status, Code: probe.Code, Title: probe.Title, Detail: probe.Detail,
			Fields: probe.Errors, Problem: bytes.Clone(text)}
		return nil
	}
	r.Published = new(Published)
	return decode(bytes.Clone(text), r.Published)
}

// EventFilter selects events; the zero value selects all.
type EventFilter struct {
	Type, Key, Tenant, Source string
	Text                      string    // in the event's data; pages may be short while Next is not empty
	From, To                  time.Time // of acceptance; From inclusive, To exclusive
	Limit                     int       // 0: the server's default
	Cursor                    string
}

func (f EventFilter) query() url.Values {
	return window(f.Limit, f.Cursor, "type", f.Type, "key", f.Key, "tenant", f.Tenant, "source", f.Source, "text", f.Text,
		"from", f.From, "to", f.To)
}

// Publish publishes one event. When it returns without error the event is durable.
func (c *Client) Publish(ctx context.Context, e NewEvent) (*Published, error) {
	body, err := encoded(e)
	if err != nil {
		return nil, err
	}
	return answered[Published](ctx, c, call{method: http.MethodPost, path: "/v1/events", body: body})
}

// PublishBatch publishes up to 1000 events, which are committed together in the order given.
// Refused events do not prevent the others: the results tell which were accepted.
func (c *Client) PublishBatch(ctx context.Context, events []NewEvent) ([]PublishResult, error) {
	var answer struct {
		Data []PublishResult `json:"data"`
	}
	bodies := make([][]byte, len(events))
	for i, e := range events {
		var err error
		if bodies[i], err = encoded(e); err != nil {
			return nil, fmt.Errorf("event %d of the batch: %w", i, err)
		}
	}
	body := slices.Concat([]byte(`{"events":[`), bytes.Join(bodies, []byte(",")), []byte("]}"))
	err := c.do(ctx, call{method: http.MethodPost, path: "/v1/events/batch", body: body, out: &answer})
	return answer.Data, err
}

// RawEvent is an event with data of any content type.
type RawEvent struct {
	Type, Key, ID, Tenant string
	Data                  []byte
	ContentType           string
	OccurredAt            time.Time // zero: when it was accepted
	DeliverAt             time.Time // zero: at once
}

// PublishRaw publishes an event with data that need not be JSON.
func (c *Client) PublishRaw(ctx context.Context, e RawEvent) (*Published, error) {
	q := query("type", e.Type, "key", e.Key, "id", e.ID, "tenant", e.Tenant, "occurred_at", e.OccurredAt, "deliver_at", e.DeliverAt)
	body := e.Data
	if body == nil {
		body = []byte{}
	}
	return answered[Published](ctx, c, call{method: http.MethodPost, path: "/v1/events/raw", query: q, body: body, media: e.ContentType})
}

// Preview says who would get an event, and why or why not; with an endpoint it has the request that
// this endpoint would get. Nothing is published.
func (c *Client) Preview(ctx context.Context, e NewEvent, endpoint string) (*Preview, error) {
	body, err := encoded(e)
	if err != nil {
		return nil, err
	}
	rq := call{method: http.MethodPost, path: "/v1/events/preview", query: query("endpoint", endpoint), body: body, idempotent: true}
	return answered[Preview](ctx, c, rq)
}

// Event returns an event with its deliveries.
func (c *Client) Event(ctx context.Context, id string) (*Event, error) {
	return c.EventOf(ctx, "", id)
}

// EventOf returns a tenant's event with its deliveries. A key that is bound to no tenant has to
// name one if several tenants have an event with this id.
func (c *Client) EventOf(ctx context.Context, tenant, id string) (*Event, error) {
	return get[Event](ctx, c, at("/v1/events", id), query("tenant", tenant))
}

// Events lists events, the newest first.
func (c *Client) Events(ctx context.Context, f EventFilter) (*Page[Event], error) {
	return get[Page[Event]](ctx, c, "/v1/events", f.query())
}

// Duplicates lists events that came again, the latest first. Empty: of all tenants, and all events.
func (c *Client) Duplicates(ctx context.Context, tenant, event string) (*Page[Duplicate], error) {
	return get[Page[Duplicate]](ctx, c, "/v1/duplicates", query("tenant", tenant, "event", event))
}
