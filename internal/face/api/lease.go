package api

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
)

// consumerField is the header that names the consumer.
const consumerField = "Grapnel-Consumer"

var consumerParam = param{name: "consumer", form: "consumer", doc: "who asks, up to 64 characters; also as the header " + consumerField + "; the API key's id if not given"}

func leaseRoutes() []route {
	next := []param{
		{name: "wait", bound: func(b *Bounds) strict.Form { return strict.Lasting(0, b.LongestWait, "20s") }, doc: "how long to wait for a message, 0s to 60s; 0s if not given"},
		{name: "max", bound: func(b *Bounds) strict.Form { return strict.WholeNumber(1, b.LeaseMost) }, doc: "most messages, 1 to 100; 1 if not given. If given, the answer is a list"},
		consumerParam, tenantParam,
	}
	return []route{
		{method: "GET", path: "/v1/queues/{name}/next", also: []string{"/queues/{name}/next"}, scope: grapnel.ScopeConsume, handle: leaseNext,
			name: "next", tag: "Queues", summary: "Lease the next message of a queue",
			about: "The body is the event's data as sent, with its content type; Grapnel-Meta is JSON: lease, event_id, delivery_id, type, key, attempt, " +
				"first_seen_at, lease_expires_at, ack_url, nack_url, reject_url. With max or Accept: application/json it is a list of messages. 204: no message was ready. No other consumer gets the message until its lease expires; a message that was not settled in time is leased again, by the queue's policy.",
			query: next, gives: map[int]any{200: handedOut{}, 204: nil}},
	}
}

// consumer is who asks.
func (c *call) consumer() string {
	name, pointer := c.query.text("consumer"), "?consumer"
	if name == "" {
		name, pointer = c.Header.Get(consumerField), consumerField
	}
	if name == "" {
		return c.key.ID
	}
	if looks := forms["consumer"]; !looks.Fits(name) || !utf8.ValidString(name) {
		c.query.faults.Add(pointer, "%s", looks.Must)
	}
	return name
}

// patient keeps the server's limits on slow callers from ending an answer that waits on purpose.
func (c *call) patient(wait time.Duration) {
	until := time.Now().Add(wait + c.bounds.AnswerTime)
	_ = c.connection().SetReadDeadline(until) // what cannot be told to wait keeps the server's own limits
	_ = c.connection().SetWriteDeadline(until)
}

// lease leases messages, and gives them back if the key's right has ended meanwhile. It also gives
// back those beyond LeaseData, which would make an answer that no consumer can read.
func (a *api) lease(ctx context.Context, c *call, room Queues, q *grapnel.Endpoint, consumer string, most int, wait time.Duration) (
	[]queue.Message, error,
) {
	messages, err := room.Next(ctx, q, consumer, most, wait)
	if lost := a.authenticate(c); lost != nil {
		room.Release(leasesOf(messages))
		return nil, lost
	}
	size := int64(0)
	for i := range messages {
		if size += int64(len(messages[i].Event.Data)); i > 0 && size > a.Bounds.LeaseData {
			room.Release(leasesOf(messages[i:]))
			return messages[:i], err
		}
	}
	return messages, err
}

// leaseNext leases messages. HEAD, which looks the same to the multiplexer, must not lease messages
// that no consumer would see.
func leaseNext(a *api, c *call) (answer, error) {
	wait, most, consumer := c.query.duration("wait"), c.query.number("max", 1), c.consumer()
	room, q, err := a.counter(c)
	if err != nil {
		return answer{}, err
	}
	if c.Method == http.MethodHead {
		return nothing(), nil
	}
	if wait > 0 {
		c.patient(wait)
	}
	messages, err := a.lease(c.Context(), c, room, &q, consumer, most, wait)
	if err != nil {
		return answer{}, err
	}
	if len(messages) == 0 {
		return nothing(), nil
	}
	plain := strings.HasPrefix(c.URL.Path, "/queues/")
	// A program that asks for as many as it has room for must not get another shape when that is one.
	if !plain && (c.query.text("max") != "" || wantsJSON(c.Header)) {
		size := 16
		for i := range messages {
			size += 1024 + len(messages[i].Event.Data)
		}
		out := append(make([]byte, 0, size), `{"data":[`...)
		for i := range messages {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendMessage(out, c.meta(&messages[i]), messages[i].Event)
		}
		return answer{status: http.StatusOK, body: append(out, "]}\n"...)}, nil
	}
	m := &messages[0]
	meta := c.meta(m)
	return answer{status: http.StatusOK, body: m.Event.Data, contentType: meta.ContentType, header: map[string]string{
		"Grapnel-Meta": headerJSON(meta), "X-Hooque-Meta": headerJSON(seed(&meta)),
	}}, nil
}

// wantsJSON says whether the caller asks for JSON by name; a caller that takes anything gets the
// bytes.
func wantsJSON(h http.Header) bool {
	for _, one := range strings.Split(h.Get("Accept"), ",") {
		media, _, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(media), grapnel.JSONType) {
			return true
		}
	}
	return false
}

// handedOut is an answer with one message as it is, or with a MessageList.
type handedOut struct{}

// Contents is a list of messages, or the data of one.
func (handedOut) Contents(schema func(any) *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{
		grapnel.JSONType: {Schema: &huma.Schema{AnyOf: []*huma.Schema{schema(messageList{}),
			{Description: "one message: its data, if it is JSON"}}}},
		"*/*": {Schema: &huma.Schema{Description: "one message: its data as sent"}},
	}
}
