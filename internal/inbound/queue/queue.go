// Package queue leases the deliveries of queues to consumers and records the consumers' answers. A
// queue is an endpoint whose deliveries consumers pull; policy, lanes, dead letters, replay and
// history are the same as for every endpoint and are not here.
//
// A consumer's request is a waiter in the line of its queue. Each line with waiters has one
// dispatcher, which combines the wants of all waiters into one claim, so that many consumers share
// a commit. Four things wake it: a hint that a delivery may be due (Ready), the time at which the
// next delivery is due, the expiry of a lease, and a poll, because a hint may be lost. A sweep
// works without consumers: it records expired leases as failed attempts, and ends deliveries older
// than the policy's max_age.
//
// Invariants:
//
//   - A lease is durable before its consumer learns of it. The store decides whether a lease is
//     valid; the leases in memory only save reads.
//   - Waiters are served in order of arrival, each up to its lease limit.
//   - A consumer that has disconnected gets no lease: its claim is skipped, or its leases are
//     returned at once and count as no attempt. Leases of a claim whose outcome is unknown are
//     returned as soon as the outcome is known.
//   - A claim that ends after a queue was paused, disabled or deleted leases nothing.
//   - The core decides the result of a settlement (core.Settle); it is recorded together with its
//     operational events.
//
// It does not promise that a consumer whose answer was lost learns that it had settled: the
// consumer gets the error for an ended lease. Nor does it promise processing order: consumers get
// the deliveries of one key one after the other, and what they do with them is up to them.
package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Options configure a Broker. Engine, Store and Log are required.
type Options struct {
	Bounds Bounds // zero: the defaults
	Engine Engine
	Store  Store
	Log    *slog.Logger
	Now    func() time.Time // time.Now
	Traces *trace.Tracer    // nil: no spans are made
	Random io.Reader        // source of tokens, safe for concurrent use; nil: crypto/rand
	// lists the consumers that other nodes have seen at a queue; nil: there are no other nodes
	Elsewhere func(queue string) []grapnel.Consumer
}

// Message is an event with the lease that lets its consumer settle it.
type Message struct {
	grapnel.Lease
	Event *grapnel.Event
	Trace string // the traceparent for the consumer; empty: the event is not traced
}

// New makes a Broker that serves consumers at once. Run has to be called too: only Run stops the
// dispatchers.
func New(o Options) *Broker {
	b := bounds.Fill(o.Bounds)
	r := &Broker{bounds: b, engine: o.Engine, store: o.Store, log: o.Log, traces: o.Traces, random: cmp.Or(o.Random, rand.Reader),
		elsewhere: o.Elsewhere, metrics: newMetrics(), granted: newGranted(b.Granted), lines: map[string]*line{}, setBacks: 1}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	// Times are compared with the store's, which are wall-clock times; see engine.New.
	r.now = func() time.Time { return now().Round(0) }
	r.ctx, r.close = context.WithCancel(context.Background())
	return r
}

// Ready hints that a queue may have a due delivery. It never blocks.
func (r *Broker) Ready(queue string) {
	r.mu.RLock()
	l := r.lines[queue]
	r.mu.RUnlock()
	if l != nil {
		l.nudge()
	}
}

// line is the line of a queue, created at the first request for it.
func (r *Broker) line(queue string) *line {
	r.mu.RLock()
	l := r.lines[queue]
	r.mu.RUnlock()
	if l != nil {
		return l
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l = r.lines[queue]; l == nil {
		l = &line{broker: r, queue: queue, wake: make(chan struct{}, 1), seen: map[string]time.Time{}}
		r.lines[queue] = l
	}
	return l
}

// active says whether a queue leases deliveries now.
func active(ep *grapnel.Endpoint) bool {
	return ep.Queue != nil && ep.Status == grapnel.EndpointEnabled && ep.DeletedAt.IsZero()
}

// Waiting is a queue's pending delivery and its event.
type Waiting struct {
	store.Head
	Event *grapnel.Event // nil: the event is damaged
}

// nudge has a running dispatcher ask the store again; a hint of new heads comes by Broker.Ready. It
// never blocks.
func (l *line) nudge() {
	l.hinted.Store(true)
	backoff.Wake(l.wake)
}
