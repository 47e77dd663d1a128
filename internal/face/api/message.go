package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/canonical"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
	"github.com/grapnelhq/grapnel/wire"
)

func messageRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/queues/{name}/peek", scope: grapnel.ScopeRead, handle: peek,
			name: "peek", tag: "Queues", summary: "List the next messages of a queue, without leasing them",
			about: "In the order in which they are due; leased and delayed ones by the end of the lease or delay. Messages held behind their key are left out.",
			query: []param{{name: "limit", bound: func(b *Bounds) strict.Form { return strict.WholeNumber(1, b.LeaseMost) }, doc: "most messages, 1 to 100; 10 if not given"}, tenantParam}, gives: map[int]any{200: peekedList{}}},
	}
}

// messageView is a message in a list or stream, for the document: messages are put together by
// hand, so that bodies keep their bytes.
type messageView struct {
	Meta       wire.Meta       `json:"meta"`
	Body       json.RawMessage `json:"body" doc:"as sent; null if it is not JSON"`
	BodyBase64 []byte          `json:"body_base64,omitempty" doc:"all bytes as sent, if it is not JSON, has space around it, or has line breaks with CR; else body has all"`
}

// messageList are messages that were leased together.
type messageList struct {
	Data []messageView `json:"data" nullable:"false"`
}

// peekedView is a message that is only looked at.
type peekedView struct {
	Meta       wire.PeekedMeta `json:"meta"`
	Body       json.RawMessage `json:"body"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
}

// peekedList is a page of them; there is only one.
type peekedList struct {
	Data []peekedView `json:"data" nullable:"false"`
	Next *string      `json:"next" doc:"always null"`
}

func (c *call) meta(m *queue.Message) wire.Meta {
	lease := c.links.origin(c.Request) + "/v1/leases/" + m.Token
	return wire.Meta{
		Lease: m.Token, EventID: m.Event.ID, DeliveryID: c.ids.Delivery(m.CreatedAt, m.Delivery), Type: m.Event.Type, Key: m.Event.Key,
		ContentType: contentTypeOf(m.Event), Attempt: m.Number, FirstSeenAt: m.Event.AcceptedAt, LeaseExpiresAt: m.Until,
		AckURL: lease + "/ack", NackURL: lease + "/nack", RejectURL: lease + "/reject", ExtendURL: lease + "/extend",
		Traceparent: m.Trace,
	}
}

func contentTypeOf(ev *grapnel.Event) string {
	if ev.ContentType == "" {
		return "application/octet-stream"
	}
	return ev.ContentType
}

// isJSON says whether an event's data can stand in JSON as they are.
func isJSON(ev *grapnel.Event) bool {
	if ev.PromisesJSON() {
		return true
	}
	media, _, _ := strings.Cut(ev.ContentType, ";")
	media = strings.TrimSpace(strings.ToLower(media))
	return (media == grapnel.JSONType || strings.HasSuffix(media, "+json")) && utf8.Valid(ev.Data) &&
		!canonical.Deeper(ev.Data, deepest) && gjson.ValidBytes(ev.Data)
}

// appendMessage appends {"meta":…,"body":…}.
func appendMessage(out []byte, meta any, ev *grapnel.Event) []byte {
	out = append(out, `{"meta":`...)
	out = append(out, encodeWire(meta)...)
	body, is := []byte("null"), ev != nil && isJSON(ev)
	if is {
		body = ev.Data
	}
	out = append(append(out, `,"body":`...), body...)
	// Readers of JSON drop the space around a value, and a stream has line breaks of its own.
	if ev != nil && (!is || len(bytes.TrimSpace(body)) < len(body) || bytes.IndexByte(body, '\r') >= 0) {
		out = append(base64.StdEncoding.AppendEncode(append(out, `,"body_base64":"`...), ev.Data), '"')
	}
	return append(out, '}')
}

// headerJSON is JSON that can stand in a header: characters beyond ASCII are written as escapes.
func headerJSON(v any) string {
	raw := encodeWire(v)
	out := make([]byte, 0, len(raw))
	for _, r := range string(raw) {
		if r < utf8.RuneSelf && r != 0x7f {
			out = append(out, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return string(out)
}

// seedMeta is the header of the programs that ask at /queues/{name}/next.
type seedMeta struct {
	MessageID   string `json:"messageId"`
	EventType   string `json:"eventType"`
	Attempt     int    `json:"attempt"`
	FirstSeenAt string `json:"firstSeenAt"`
	AckURL      string `json:"ackUrl"`
	NackURL     string `json:"nackUrl"`
	RejectURL   string `json:"rejectUrl"`
}

func seed(m *wire.Meta) seedMeta {
	return seedMeta{m.EventID, m.Type, m.Attempt, m.FirstSeenAt.UTC().Format(wire.TimeLayout), m.AckURL, m.NackURL, m.RejectURL}
}

func leasesOf(messages []queue.Message) []grapnel.Lease {
	leases := make([]grapnel.Lease, len(messages))
	for i := range messages {
		leases[i] = messages[i].Lease
	}
	return leases
}

func peek(a *api, c *call) (answer, error) {
	limit := c.query.number("limit", 10)
	room, q, err := a.counter(c)
	if err != nil {
		return answer{}, err
	}
	found, err := room.Peek(c.Context(), q.ID, limit)
	if err != nil {
		return answer{}, err
	}
	out := []byte(`{"data":[`)
	for i := range found {
		if i > 0 {
			out = append(out, ',')
		}
		h, ev := &found[i].Head, found[i].Event
		meta := wire.PeekedMeta{DeliveryID: c.ids.Delivery(h.CreatedAt, h.Delivery), Key: h.Lane, Attempt: h.Attempts + 1,
			FirstSeenAt: h.CreatedAt, DueAt: h.Due}
		if ev != nil {
			meta.EventID, meta.Type, meta.Key, meta.ContentType, meta.FirstSeenAt = ev.ID, ev.Type, ev.Key, contentTypeOf(ev), ev.AcceptedAt
		}
		out = appendMessage(out, meta, ev)
	}
	return answer{status: http.StatusOK, body: append(out, "],\"next\":null}\n"...)}, nil
}
