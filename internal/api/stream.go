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
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/queue"
)

// A stream leases messages for as long as its connection lives and writes each as a server-sent event. That something was sent says nothing
// about whether it arrived, so the leases stay with the consumer: it settles them, or they run out.
//
// The id of an event says which stream sent it and as which. Whoever comes back with it as Last-Event-ID has got everything up to there,
// so the leases of what that stream sent later are given back first, and come again at once instead of after their time. That is
// remembered in memory: after a restart of the server, or for an id of long ago, those leases run out instead. Either way
// nothing is left out, because what is not settled comes again.

// streams are those that are open, and those that may be resumed.
type streams struct {
	mu   sync.Mutex
	byID map[string]*sent
}

// sent is what one stream has sent.
type sent struct {
	key, queue string // who may resume it, and where
	cancel     context.CancelFunc
	done       chan struct{} // closed when it has ended
	most       int           // leases that are remembered

	mu     sync.Mutex
	first  int // the number of leases[0]
	leases []grapnel.Lease
	ended  time.Time
}

func (s *sent) add(l grapnel.Lease) (number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if half := s.most / 2; len(s.leases) == s.most {
		s.first, s.leases = s.first+half, append([]grapnel.Lease(nil), s.leases[half:]...)
	}
	s.leases = append(s.leases, l)
	return s.first + len(s.leases) - 1
}

// after are the leases that were sent after a number.
func (s *sent) after(number int) []grapnel.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := max(number+1-s.first, 0)
	if from >= len(s.leases) {
		return nil
	}
	return s.leases[from:]
}

// open begins a stream.
func (ss *streams) open(id string, s *sent, now time.Time, b *Bounds) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.byID == nil {
		ss.byID = map[string]*sent{}
	}
	ended, oldest, since := 0, "", now
	for other, o := range ss.byID {
		o.mu.Lock()
		at := o.ended
		o.mu.Unlock()
		switch {
		case at.IsZero():
			continue
		case now.Sub(at) > b.StreamKept:
			delete(ss.byID, other)
			continue
		case !at.After(since):
			oldest, since = other, at
		}
		ended++
	}
	if ended >= b.Streams {
		delete(ss.byID, oldest)
	}
	ss.byID[id] = s
}

// take takes out the stream that a caller resumes; nil: it is not known, or was not the caller's.
func (ss *streams) take(id, key, queue string) *sent {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.byID[id]
	if s == nil || s.key != key || s.queue != queue {
		return nil
	}
	delete(ss.byID, id)
	return s
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
	return answer{instead: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a.resume(c, room, &q)
		w.Header().Set("Content-Type", typeEvents)
		w.Header().Set("X-Accel-Buffering", "no") // a proxy that gathers the stream would stop it
		w.WriteHeader(http.StatusOK)
		if err := pour(a, c, w, room, &q, consumer); err != nil && c.Context().Err() == nil {
			a.Log.Debug("a stream was ended", slog.String("request_id", c.id), slog.Any("error", err))
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
	before := a.streams.take(id, c.key.ID, q.ID)
	if before == nil {
		return
	}
	// The server may not have noticed yet that the connection is gone. What that stream still leases would be lost for a while.
	before.cancel()
	select {
	case <-before.done:
	case <-time.After(a.Bounds.StreamSlow):
	}
	room.Release(before.after(n))
}

// errIdle ends a stream for which there is nothing at once: the server is about to stop.
var errIdle = errors.New("api: nothing is handed out any more")

// pour leases and writes until the caller leaves, is too slow, may not receive any more, or the
// server stops.
func pour(a *api, c *call, w http.ResponseWriter, room Queues, q *grapnel.Endpoint, consumer string) error {
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	id := a.newID("str", a.Clock())
	s := &sent{key: c.key.ID, queue: q.ID, cancel: cancel, done: make(chan struct{}), most: a.Bounds.StreamSent}
	a.streams.open(id, s, a.Clock(), &a.Bounds)
	defer func() {
		s.mu.Lock()
		s.ended = a.Clock()
		s.mu.Unlock()
		close(s.done)
	}()
	_ = c.connection.SetReadDeadline(time.Time{}) // what cannot be told to wait keeps the server's own limits
	write := func(text []byte) error {
		_ = c.connection.SetWriteDeadline(time.Now().Add(a.Bounds.StreamSlow))
		if _, err := w.Write(text); err != nil {
			return err
		}
		return c.connection.Flush()
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
				// Whether this one arrived is unknown, and its consumer may be about to settle it; what was not sent at all is given back.
				room.Release(leasesOf(messages[i+1:]))
				return err
			}
		}
		if _, there := a.Engine.Queue(c.scope, "", q.ID); !there {
			return errIdle
		}
	}
}

// event is a message as a server-sent event. A line break in its JSON, which can only be where any space could be, becomes one of the
// stream: whoever reads that puts it together again.
func (c *call) event(id string, number int, m *queue.Message) []byte {
	data := appendMessage(make([]byte, 0, 1024+len(m.Event.Data)), c.meta(m), m.Event)
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: "))
	out := append(make([]byte, 0, len(data)+64), "id: "+id+"."+strconv.Itoa(number)+"\ndata: "...)
	return append(append(out, data...), "\n\n"...)
}
