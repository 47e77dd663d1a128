package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
)

// A stream leases messages for as long as its connection lives and writes each as a server-sent
// event. That something was sent says nothing about whether it arrived, so the leases stay with the
// consumer: it settles them, or they run out.

func streamRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/queues/{name}/stream", scope: grapnel.ScopeConsume, handle: stream,
			name: "stream", tag: "Queues", summary: "Stream messages of a queue, each with a lease",
			about: "Server-sent events; the data of each is {\"meta\":…,\"body\":…}, and each has a lease to settle. At most max_leased are leased before some are " +
				"settled. With Last-Event-ID, the messages sent after it are leased again at once.",
			query: []param{consumerParam, tenantParam}, gives: map[int]any{200: texts{typeEvents: "the data of each event is a Message"}, 204: nil}},
	}
}

func stream(a *api, c *call) (answer, error) {
	consumer := c.consumer()
	room, q, err := a.counter(c)
	if err != nil {
		return answer{}, err
	}
	if c.Method == http.MethodHead {
		return nothing(), nil
	}
	a.resume(c, room, &q) // the stream before this one leaves first
	if !a.streams.enter(q.Tenant, a.Bounds.OpenStreams) {
		return answer{}, &grapnel.Error{Code: grapnel.CodeRateLimited, RetryAfter: a.Bounds.Heartbeat,
			Detail: "The tenant has " + strconv.Itoa(a.Bounds.OpenStreams) +
				" open streams, which is the most. Close some, or poll with next?wait=."}
	}
	return answer{instead: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer a.streams.leave(q.Tenant)
		w.Header().Set("Content-Type", typeEvents)
		w.Header().Set("X-Accel-Buffering", "no") // a proxy that gathers the stream would stop it
		w.WriteHeader(http.StatusOK)
		if err := pour(a, c, w, room, &q, consumer); err != nil && c.Context().Err() == nil {
			a.Log.Debug("stream ended", slog.String("request_id", c.id), slog.Any("error", err))
		}
	})}, nil
}

const typeEvents = "text/event-stream"

// resume gives back what the caller's stream before this one has sent and the caller has not got.
func (a *api) resume(c *call, room Queues, q *grapnel.Endpoint) {
	id, number, ok := strings.Cut(c.Header.Get("Last-Event-Id"), ".")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return
	}
	before := a.streams.take(id, c.caller(), q.ID)
	if before == nil {
		return
	}
	// The server may not have noticed yet that the connection is gone. What that stream still leases
	// would be lost for a while.
	before.cancel()
	select {
	case <-before.done:
	case <-time.After(a.Bounds.StreamSlow):
	}
	room.Release(before.after(n))
}

// errIdle ends a stream that gets no messages and no wait either: the server is about to stop.
var errIdle = errors.New("api: the queue leases no more messages")

// pour leases and writes messages until the caller leaves, is too slow, may not receive any more,
// or the server stops.
func pour(a *api, c *call, w http.ResponseWriter, room Queues, q *grapnel.Endpoint, consumer string) error {
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	id := a.newID("str", a.Clock())
	s := &sent{key: c.caller(), queue: q.ID, cancel: cancel, done: make(chan struct{}), most: a.Bounds.StreamSent}
	a.streams.open(id, s, a.Clock(), &a.Bounds)
	defer func() {
		s.mu.Lock()
		s.ended = a.Clock()
		s.mu.Unlock()
		close(s.done)
	}()
	_ = c.connection().SetReadDeadline(time.Time{}) // what cannot be told to wait keeps the server's own limits
	write := func(text []byte) error {
		_ = c.connection().SetWriteDeadline(time.Now().Add(a.Bounds.StreamSlow))
		if _, err := w.Write(text); err != nil {
			return err
		}
		return c.connection().Flush()
	}
	if err := write([]byte(": hello\n\n")); err != nil {
		return err
	}
	for {
		began := time.Now()
		messages, err := a.lease(ctx, c, room, q, consumer, a.Bounds.StreamBatch, a.Bounds.Heartbeat)
		switch {
		case err != nil:
			return err
		case len(messages) == 0 && time.Since(began) < a.Bounds.StreamNothing:
			return errIdle
		case len(messages) == 0:
			if err := write([]byte(": nothing new\n\n")); err != nil {
				return err
			}
		}
		for i := range messages {
			m := &messages[i]
			if err := cmp.Or(ctx.Err(), a.authenticate(c)); err != nil {
				room.Release(leasesOf(messages[i:]))
				return err
			}
			if err := write(c.event(id, s.add(m.Lease), m)); err != nil {
				// Whether this one arrived is unknown, and its consumer may be about to settle it; messages
				// that were not sent at all are released.
				room.Release(leasesOf(messages[i+1:]))
				return err
			}
		}
		if _, there := a.Engine.Queue(c.scope, "", q.ID); !there {
			return errIdle
		}
	}
}

// event is a message as a server-sent event. A line break in its JSON, which can only be where any
// space could be, becomes one of the stream, whose reader joins the lines again.
func (c *call) event(id string, number int, m *queue.Message) []byte {
	data := appendMessage(make([]byte, 0, 1024+len(m.Event.Data)), c.meta(m), m.Event)
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: "))
	out := append(make([]byte, 0, len(data)+64), "id: "+id+"."+strconv.Itoa(number)+"\ndata: "...)
	return append(append(out, data...), "\n\n"...)
}
