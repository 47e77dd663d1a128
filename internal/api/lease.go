package api

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/queue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// Queues are where consumers take leases and say what came of them; package queue.
type Queues interface {
	Next(ctx context.Context, q *grapnel.Endpoint, consumer string, most int, wait time.Duration) ([]queue.Message, error)
	// SettleAll returns an error or nil for each; grapnel.CodeConflict is for leases that are over or settled.
	SettleAll(ctx context.Context, scope store.Scope, list []queue.Settlement) []error
	Extend(ctx context.Context, scope store.Scope, token string, by time.Duration) (grapnel.Lease, error)
	// Release gives leases back that nobody has learnt of; they count as no attempts.
	Release(leases []grapnel.Lease)
	Peek(ctx context.Context, queue string, limit int) ([]queue.Waiting, error)
	Consumers(ctx context.Context, queue string) ([]grapnel.Consumer, error)
	Counts(ctx context.Context, queue string) (grapnel.QueueCounts, error)
}

const (
	longestDelay  = 24 * time.Hour // of a nack
	consumerField = "Grapnel-Consumer"
)

var consumerParam = param{name: "consumer", form: "consumer", doc: "who asks, up to 64 characters; also as the header " + consumerField + "; the API key's id if not given"}

func leaseRoutes() []route {
	settle := func(verb queue.Verdict, takes any, summary, about string) route {
		return route{method: "POST", path: "/v1/leases/{lease}/" + string(verb), scope: grapnel.ScopeConsume,
			handle: func(a *api, c *call) (answer, error) { return settle(a, c, verb) },
			name:   string(verb) + "-lease", tag: "Queues", summary: summary, about: about + " A lease that is over, settled or not known answers 409.",
			body: &intake{types: []string{grapnel.JSONType}, optional: true}, takes: takes, gives: map[int]any{204: nil}}
	}
	next := []param{
		{name: "wait", bound: func(b *Bounds) strict.Form { return strict.Lasting(0, b.LongestWait, "20s") }, doc: "how long to wait for a message, 0s to 60s; 0s if not given"},
		{name: "max", bound: func(b *Bounds) strict.Form { return strict.WholeNumber(1, b.LeaseMost) }, doc: "how many messages at most, 1 to 100; 1 if not given. With it the answer is a list, whatever it is"},
		consumerParam, tenantParam,
	}
	return []route{
		{method: "GET", path: "/v1/queues/{name}/next", also: []string{"/queues/{name}/next"}, scope: grapnel.ScopeConsume, handle: leaseNext,
			name: "next", tag: "Queues", summary: "Lease the next message of a queue",
			about: "The body is the event's data as they were sent, with their content type; Grapnel-Meta is JSON: lease, event_id, delivery_id, type, key, attempt, " +
				"first_seen_at, lease_expires_at, ack_url, nack_url, reject_url. With max or Accept: application/json it is a list of messages. 204: there " +
				"was nothing. Until it is settled, or its lease is over, nobody else gets the message; what was not settled in time comes again, by the queue's policy.",
			query: next, gives: map[int]any{200: handedOut{}, 204: nil}},
		{method: "GET", path: "/v1/queues/{name}/stream", scope: grapnel.ScopeConsume, handle: stream,
			name: "stream", tag: "Queues", summary: "Lease messages of a queue as they come",
			about: "Server-sent events; the data of each is {\"meta\":…,\"body\":…}, and each has a lease to settle. At most max_leased are handed out before some are " +
				"settled. With Last-Event-ID, what was sent after it is handed out once more at once.",
			query: []param{consumerParam, tenantParam}, gives: map[int]any{200: streamed{}, 204: nil}},
		{method: "GET", path: "/v1/queues/{name}/peek", scope: grapnel.ScopeRead, handle: peek,
			name: "peek", tag: "Queues", summary: "Look at what a queue hands out next, without leasing it",
			about: "In the order in which it is due; what is leased or delayed has its place by when that ends. What waits behind its key is not among it.",
			query: []param{{name: "limit", bound: func(b *Bounds) strict.Form { return strict.WholeNumber(1, b.LeaseMost) }, doc: "how many at most, 1 to 100; 10 if not given"}, tenantParam}, gives: map[int]any{200: peekedList{}}},
		settle(queue.Ack, newAck{}, "Say that a message is dealt with", "Once it is answered the message never comes again, unless it is replayed."),
		settle(queue.Nack, newNack{}, "Give a message back", "It comes again after delay or, without one, when the queue's policy says. Its attempt counts: when there are none left it is a dead letter."),
		settle(queue.Reject, newReject{}, "Make a message a dead letter", "Trying again would not help."),
		{method: "POST", path: "/v1/leases/{lease}/extend", scope: grapnel.ScopeConsume, handle: extend,
			name: "extend-lease", tag: "Queues", summary: "Let a lease end later", about: "It ends that long from now. A lease that is over, settled or not known answers 409.",
			body: &intake{types: []string{grapnel.JSONType}, optional: true}, takes: newExtension{}, gives: map[int]any{200: wire.Lease{}}},
		{method: "POST", path: "/v1/leases/settle", scope: grapnel.ScopeConsume, handle: settleAll,
			name: "settle-leases", tag: "Queues", summary: "Settle several leases at once",
			about: "Up to 1000 together, in one commit. Those that are over, settled or not known are listed in stale and change nothing.",
			body:  &intake{types: []string{grapnel.JSONType}, limit: perSettle, verbatim: true}, takes: newSettlement{}, gives: map[int]any{200: settledView{}}},
	}
}

type newExtension struct {
	By string `json:"by,omitempty" form:"lease" doc:"1s to 12h from now; the queue's lease if not given"`
}

// room is where consumers are served.
func (a *api) room() (Queues, error) {
	if a.Queues == nil {
		return nil, grapnel.Errorf(grapnel.CodeUnavailable, "This server has no queues.")
	}
	return a.Queues, nil
}

// counter is where the queue that the path names is served. It is asked for once the query has been read, and finds fault with that first.
func (a *api) counter(c *call) (room Queues, q grapnel.Endpoint, err error) {
	if err = c.query.faults.Err(); err != nil {
		return nil, grapnel.Endpoint{}, err
	}
	if room, err = a.room(); err == nil {
		q, err = a.queue(c)
	}
	return room, q, err
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

// patient keeps the server's limits on slow callers from ending an answer that takes so long on purpose.
func (c *call) patient(wait time.Duration) {
	until := time.Now().Add(wait + c.bounds.AnswerTime)
	_ = c.connection.SetReadDeadline(until) // what cannot be told to wait keeps the server's own limits
	_ = c.connection.SetWriteDeadline(until)
}

// lease leases messages, and gives them back if the key's right has ended meanwhile.
func (a *api) lease(ctx context.Context, c *call, room Queues, q *grapnel.Endpoint, consumer string, most int, wait time.Duration) (
	[]queue.Message, error,
) {
	messages, err := room.Next(ctx, q, consumer, most, wait)
	if lost := a.authenticate(c); lost != nil {
		room.Release(leasesOf(messages))
		return nil, lost
	}
	return messages, err
}

// leaseNext leases messages. HEAD, which looks the same to the multiplexer, must not lease what nobody would see.
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

// wantsJSON says whether the caller asks for JSON by name; whoever takes anything gets the bytes.
func wantsJSON(h http.Header) bool {
	for _, one := range strings.Split(h.Get("Accept"), ",") {
		media, _, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(media), grapnel.JSONType) {
			return true
		}
	}
	return false
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
		meta := wire.PeekedMeta{DeliveryID: c.ids.Delivery(h.CreatedAt, h.Delivery), Key: h.Lane, Attempt: h.Attempts + 1, FirstSeenAt: h.CreatedAt, DueAt: h.Due}
		if ev != nil {
			meta.EventID, meta.Type, meta.Key, meta.ContentType, meta.FirstSeenAt = ev.ID, ev.Type, ev.Key, contentTypeOf(ev), ev.AcceptedAt
		}
		out = appendMessage(out, meta, ev)
	}
	return answer{status: http.StatusOK, body: append(out, "],\"next\":null}\n"...)}, nil
}

func extend(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newExtension](c.body, &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	room, err := a.room()
	if err != nil {
		return answer{}, err
	}
	l, err := room.Extend(c.Context(), c.scope, c.PathValue("lease"), duration(in.By))
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, wire.Lease{Lease: l.Token, QueueID: l.Queue, Consumer: l.Consumer,
		DeliveryID: c.ids.Delivery(l.CreatedAt, l.Delivery), Attempt: l.Number, LeaseExpiresAt: l.Until}), nil
}
