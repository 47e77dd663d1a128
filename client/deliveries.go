package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// Delivery is one event for one endpoint.
type Delivery struct {
	Raw
	ID            string             `json:"id"`
	EventID       string             `json:"event_id"`
	EndpointID    string             `json:"endpoint_id"`
	Tenant        string             `json:"tenant"`
	Type          string             `json:"type"`
	Key           string             `json:"key"`
	Sequence      int64              `json:"sequence"` // 0: it has no line
	Status        grapnel.Status     `json:"status"`
	ReasonCode    grapnel.ReasonCode `json:"reason_code"`
	Reason        string             `json:"reason"`
	AttemptsMade  int                `json:"attempts_made"`
	NextAttemptAt *time.Time         `json:"next_attempt_at"`
	CreatedAt     time.Time          `json:"created_at"`
	FinishedAt    *time.Time         `json:"finished_at"`
	ReplayOf      *string            `json:"replay_of"`
	Last          *Last              `json:"last"` // its last attempt; nil: there was none
	Marks
	// deleted after this; nil: not finished, or retained forever
	PurgeAt  *time.Time       `json:"purge_at"`
	DaysLeft *int             `json:"days_left"` // whole days until then
	Attempts []Attempt        `json:"attempts"`  // only when one delivery is asked for
	Planned  []policy.Planned `json:"planned"`   // the attempts to come if all fail
}

// Last is a delivery's last attempt, as lists show it too.
type Last struct {
	StatusCode int             `json:"status_code"` // 0: no response
	ErrorClass policy.Class    `json:"error_class"`
	Duration   policy.Duration `json:"duration"`
}

// Marks are notes on a finished delivery.
type Marks struct {
	Note string `json:"note"`
	// since then it is no dead letter any more
	DiscardedAt   *time.Time     `json:"discarded_at"`
	DiscardReason string         `json:"discard_reason"`
	ReplayedAt    *time.Time     `json:"replayed_at"` // when it was last delivered again
	ReplayedBy    string         `json:"replayed_by"` // the replay; empty: by hand
	ReplayedAs    string         `json:"replayed_as"` // the new delivery
	ReplayResult  grapnel.Status `json:"replay_result"`
}

// Attempt is one try of a delivery.
type Attempt struct {
	ID           string          `json:"id"`
	Number       int             `json:"number"`
	Trigger      grapnel.Trigger `json:"trigger"`
	ScheduledFor time.Time       `json:"scheduled_for"`
	StartedAt    time.Time       `json:"started_at"`
	Duration     policy.Duration `json:"duration"`
	Phases       Phases          `json:"phases"`
	StatusCode   int             `json:"status_code"` // 0: there was no response
	ErrorClass   policy.Class    `json:"error_class"`
	Error        string          `json:"error"`
	// as sent, secrets redacted; nil: none, or unknown
	RequestHeaders  map[string]string `json:"request_headers"`
	ResponseHeaders map[string]string `json:"response_headers"`
	ResponseBody    string            `json:"response_body"`
	// the body, if it is not text
	ResponseBase64 []byte          `json:"response_body_base64"`
	Decision       policy.Decision `json:"decision"`
	NextAttemptAt  *time.Time      `json:"next_attempt_at"`
	PolicyRevision int64           `json:"policy_revision"`
}

// Phases are the parts of an attempt's time; zero: the phase did not happen.
type Phases struct {
	DNS       policy.Duration `json:"dns"`
	Connect   policy.Duration `json:"connect"`
	TLS       policy.Duration `json:"tls"`
	FirstByte policy.Duration `json:"first_byte"`
	Body      policy.Duration `json:"body"`
	Reused    bool            `json:"reused"` // on a connection that was open already
}

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
	Replayed          bool         // of dead letters: also those whose redelivery succeeded
	Limit             int
	Cursor            string
}

func (f DeliveryFilter) query() url.Values {
	q := window(f.Limit, f.Cursor)
	put(q, "reason_code", string(f.ReasonCode))
	put(q, "error_class", string(f.ErrorClass))
	put(q, "text", f.Text)
	if f.StatusCode != 0 {
		q.Set("status_code", strconv.Itoa(f.StatusCode))
	}
	for _, s := range f.Status {
		q.Add("status", string(s))
	}
	put(q, "type", f.Type)
	put(q, "key", f.Key)
	put(q, "tenant", f.Tenant)
	putTime(q, "from", f.From)
	putTime(q, "to", f.To)
	return q
}

// Delivery returns a delivery with its attempts, past and planned.
func (c *Client) Delivery(ctx context.Context, id string) (*Delivery, error) {
	return get[Delivery](ctx, c, deliveryPath(id), nil)
}

// Deliveries lists deliveries, the newest first.
func (c *Client) Deliveries(ctx context.Context, f DeliveryFilter) (*Page[Delivery], error) {
	path := "/v1/deliveries"
	if f.Endpoint != "" {
		path = endpointPath(f.Endpoint) + "/deliveries"
	}
	return get[Page[Delivery]](ctx, c, path, f.query())
}

// Retry tries a pending delivery now. For a finished one it creates and returns a new delivery. The
// reason is for the audit; it may be empty.
func (c *Client) Retry(ctx context.Context, id, reason string) (*Delivery, error) {
	return post[Delivery](ctx, c, deliveryPath(id)+"/retry", because(reason))
}

// Skip ends a waiting delivery without delivering it, so that its key moves on.
func (c *Client) Skip(ctx context.Context, id, reason string) (*Delivery, error) {
	return post[Delivery](ctx, c, deliveryPath(id)+"/skip", map[string]string{"reason": reason})
}

func deliveryPath(id string) string { return "/v1/deliveries/" + url.PathEscape(id) }
