package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// Message is a leased message: the bytes that a publisher or provider sent, and the right to settle
// it.
type Message struct {
	Raw
	MessageMeta
	Body []byte

	left time.Duration // of the lease, when the answer began to come
	at   time.Time     // when that was
}

// MessageMeta describes a message. The URLs in the server's answer are for programs without this
// package; this package does not follow them.
type MessageMeta = wire.Meta

// UnmarshalJSON reads {"meta":{…},"body":…} or {"meta":{…},"body_base64":…}; a JSON body keeps its
// bytes.
func (m *Message) UnmarshalJSON(text []byte) error {
	var doc struct {
		Meta   MessageMeta     `json:"meta"`
		Body   json.RawMessage `json:"body"`
		Base64 []byte          `json:"body_base64"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	m.Keep(bytes.Clone(text))
	m.MessageMeta, m.Body = doc.Meta, doc.Body
	if doc.Base64 != nil {
		m.Body = doc.Base64
	}
	return nil
}

// Take has the parameters of a lease.
type Take struct {
	Max int // largest number of messages; 0: one
	// time that the server waits for the first one, up to a minute; 0: none
	Wait     time.Duration
	Consumer string // name of the consumer; may be empty
}

// Next leases messages. None is no error: there was nothing within the time.
func (c *Client) Next(ctx context.Context, queue string, t Take) ([]Message, error) {
	q := query("max", max(1, t.Max), "consumer", t.Consumer, "wait", max(0, t.Wait.Round(time.Millisecond)))
	var text json.RawMessage
	var date, came time.Time
	err := c.do(ctx, call{method: http.MethodGet, path: at("/v1/queues", queue, "next"), query: q, out: &text, wait: t.Wait,
		head: func(h http.Header) { date, _ = http.ParseTime(h.Get("Date")); came = time.Now() }})
	if err != nil || len(text) == 0 {
		return nil, err
	}
	var page struct{ Data []Message }
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	for i := range page.Data {
		m := &page.Data[i]
		m.at, m.left = came, left(m.LeaseExpiresAt, date, came)
	}
	return page.Data, nil
}

// left is the remaining time of a lease. The two clocks may differ; the answer has the server's
// time in whole seconds, rounded down. A clock that is behind the server's would make the lease
// look longer, one that is ahead shorter.
func left(until, date, now time.Time) time.Duration {
	if skew := now.Sub(date); !date.IsZero() && (skew < 0 || skew > 3*time.Second) {
		now = date.Add(500 * time.Millisecond)
	}
	return until.Sub(now)
}

// Peek returns the next messages of a queue without leasing them.
func (c *Client) Peek(ctx context.Context, queue string, limit int) (*Page[Message], error) {
	return get[Page[Message]](ctx, c, at("/v1/queues", queue, "peek"), window(limit, ""))
}

// Ack says that a message is dealt with.
func (c *Client) Ack(ctx context.Context, lease string) error {
	return c.settle(ctx, lease, "ack", nil)
}

// Nack returns a message to the queue: it comes again after the policy's backoff, or after delay
// unless that is negative.
func (c *Client) Nack(ctx context.Context, lease, reason string, delay time.Duration) error {
	in := given("reason", reason)
	if delay >= 0 {
		in["delay"] = delay.String()
	}
	return c.settle(ctx, lease, "nack", in)
}

// ByPolicy as a delay leaves it to the queue's policy when a message comes again.
const ByPolicy time.Duration = -1

// Reject makes a message a dead letter at once: trying again would not help.
func (c *Client) Reject(ctx context.Context, lease, reason string) error {
	return c.settle(ctx, lease, "reject", given("reason", reason))
}

// Extend makes a lease end by from now, and returns that time.
func (c *Client) Extend(ctx context.Context, lease string, by time.Duration) (time.Time, error) {
	var answer struct {
		Until time.Time `json:"lease_expires_at"`
	}
	err := c.do(ctx, call{method: http.MethodPost, path: at("/v1/leases", lease, "extend"), out: &answer, idempotent: true,
		in: map[string]policy.Duration{"by": policy.Duration(by)}})
	return answer.Until, err
}

// settle settles a message. It has no idempotency key: a lease can be used once, so a repetition
// does no harm, and storing the answer would cost the server as much as settling.
func (c *Client) settle(ctx context.Context, lease, verb string, in any) error {
	return c.do(ctx, call{method: http.MethodPost, path: at("/v1/leases", lease, verb), in: in, idempotent: true})
}
