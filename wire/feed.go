package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// Feed is a page of the events that an endpoint should have received, the oldest first.
type Feed struct {
	Raw
	Data []FeedItem `json:"data" nullable:"false"`
	Next string     `json:"next" doc:"the after of the next request, also at the end of the feed"`
	More bool       `json:"more" doc:"the next request finds more at once"`
	Gap  bool       `json:"gap" doc:"events behind after are missing: retention has deleted them, or the database was restored to a state before after, and then the page begins with the oldest event"`
}

// MarshalJSON writes the page as the API does.
func (f Feed) MarshalJSON() ([]byte, error) { return Encode(f) }

// FeedItem is an event as its endpoint should have received it.
type FeedItem struct {
	EventID    string            `json:"event_id"`
	DeliveryID string            `json:"delivery_id"`
	Type       string            `json:"type"`
	Key        string            `json:"key" nullable:"true"`
	Sequence   int64             `json:"sequence" nullable:"true" doc:"position in its lane; null: it has no lane"`
	AcceptedAt time.Time         `json:"accepted_at"`
	Status     grapnel.Status    `json:"status" enum:"pending,held,delivered,failed,dropped,discarded,skipped" doc:"of its delivery"`
	Headers    map[string]string `json:"headers" nullable:"true" doc:"that describe the body: Content-Type, and those of CloudEvents; null: there is no body"`
	Body       *string           `json:"body" nullable:"true" doc:"as the endpoint's format and transform make it; null: there is none, or it is no text"`
	BodyBase64 []byte            `json:"body_base64" nullable:"true" doc:"the same, if it is no text"`
	Missing    string            `json:"missing" nullable:"true" doc:"why there is no body; null: there is one"`
}
