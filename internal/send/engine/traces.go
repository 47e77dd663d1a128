package engine

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// producing are the spans of a publish, parallel to its events; nil: no spans are made.
type producing []producer

// producer is the span of an event's acceptance.
type producer struct {
	trace.Span
	before  map[string]string // the event's metadata without it
	sampled bool
}

// produce begins a PRODUCER span for each event, and stores its context with the event: later
// attempts link to it.
func produce(tracer *trace.Tracer, events []store.Incoming) producing {
	if tracer == nil {
		return nil
	}
	spans, now := make(producing, len(events)), tracer.Now()
	for i := range events {
		ev, s := events[i].Event, &spans[i]
		parent, _ := trace.Parse(ev.Metadata[grapnel.TraceKey])
		s.before = ev.Metadata
		if s.Context, s.sampled = tracer.Begin(parent); s.sampled {
			s.Parent, s.Start = parent.Span, now
			ev.SetTrace(s.Context.String())
		}
	}
	return spans
}

// end records the spans of events that were stored. The others get their metadata back, because
// their caller may publish them again.
func (p producing) end(tracer *trace.Tracer, events []store.Incoming, accepted store.Accepted, err error) {
	for i := range p {
		s, ev := &p[i], events[i].Event
		if !s.sampled {
			continue
		}
		if err != nil || accepted.Answer != nil || accepted.Events[i].Duplicate || accepted.Events[i].Conflict {
			ev.Metadata = s.before
			continue
		}
		s.Name, s.Kind, s.End = "send "+ev.Type, trace.Producer, tracer.Now()
		s.Attributes = append(trace.About(ev), trace.Text("messaging.operation.type", "send"), trace.Text("messaging.operation.name", "publish"),
			trace.Number("messaging.message.body.size", int64(len(ev.Data))),
			trace.Number("grapnel.deliveries", int64(accepted.Events[i].Deliveries)))
		if ev.Source != "" {
			s.Attributes = append(s.Attributes, trace.Text("grapnel.source.id", ev.Source))
		}
		tracer.Record(s.Span)
	}
}

// attempting is the trace context of an attempt.
type attempting struct {
	is       trace.Context // of the attempt's own span, if it is sampled
	producer trace.Context
	sampled  bool
	send     string // the traceparent that the receiver gets; empty: none
}

// attempt begins the span of an attempt. It is in the trace of its event and links to the PRODUCER
// span; it is no child of that, because it may run hours later. Without a span of its own an
// attempt passes the event's context on.
func attempt(tracer *trace.Tracer, a *core.Attempt, ev *grapnel.Event) (s attempting) {
	text := ev.Metadata[grapnel.TraceKey]
	if text == "" || tracer == nil && !a.Config.Trace {
		return s
	}
	s.producer, _ = trace.Parse(text)
	s.is, s.sampled = tracer.Next(s.producer)
	if a.Config.Trace {
		s.send = s.is.String()
	}
	return s
}

// end records the span of an attempt, and logs the attempt at the debug level. Neither has anything
// that a receiver or a publisher wrote, except for ids, types and tenants, which the API checks.
func (s attempting) end(traces *trace.Tracer, log *slog.Logger, a *core.Attempt, ev *grapnel.Event, r *egress.Result, delivery string) {
	if s.sampled {
		traces.Record(s.client(a, ev, r, delivery))
	}
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	if !s.producer.Valid() {
		s.producer, _ = trace.Parse(ev.Metadata[grapnel.TraceKey])
	}
	p := &r.Phases
	log.LogAttrs(context.Background(), slog.LevelDebug, "attempt finished", slog.String("event", ev.ID), slog.String("type", ev.Type),
		slog.String("delivery", delivery), slog.String("endpoint", a.Config.ID), slog.String("tenant", ev.Tenant),
		slog.Int("attempt", a.Number), slog.String("trigger", string(a.Trigger)), slog.String("class", string(r.Outcome.Class)),
		slog.Int("status", r.Outcome.Status), slog.String("duration", r.Duration.String()), slog.String("dns", p.DNS.String()),
		slog.String("connect", p.Connect.String()), slog.String("tls", p.TLS.String()), slog.String("first_byte", p.FirstByte.String()),
		slog.String("body", p.Body.String()), slog.Bool("reused", p.Reused), slog.Int("event_bytes", len(ev.Data)),
		slog.Int("response_bytes", len(r.Body)), slog.String("trace", s.producer.TraceID()))
}

// client is the CLIENT span of an attempt.
func (s *attempting) client(a *core.Attempt, ev *grapnel.Event, r *egress.Result, delivery string) trace.Span {
	method := cmp.Or(a.Config.Method, http.MethodPost)
	is := trace.Span{Context: s.is, Link: s.producer, Name: method + " " + a.Config.ID, Kind: trace.Client,
		Start: r.StartedAt, End: r.StartedAt.Add(r.Duration)}
	is.Attributes = append(trace.About(ev), trace.Text("messaging.operation.type", "process"),
		trace.Text("messaging.operation.name", "deliver"), trace.Text("messaging.destination.name", a.Config.ID), trace.Text("http.request.method", method),
		trace.Text("grapnel.delivery.id", delivery), trace.Text("grapnel.trigger", string(a.Trigger)))
	if a.Number > 1 {
		is.Attributes = append(is.Attributes, trace.Number("http.request.resend_count", int64(a.Number-1)))
	}
	if u, err := url.Parse(a.Config.URL); err == nil {
		is.Attributes = append(is.Attributes, trace.Text("server.address", u.Hostname()))
		if port, err := strconv.ParseInt(u.Port(), 10, 64); err == nil {
			is.Attributes = append(is.Attributes, trace.Number("server.port", port))
		}
	}
	if r.Outcome.Status != 0 {
		is.Attributes = append(is.Attributes, trace.Number("http.response.status_code", int64(r.Outcome.Status)))
	}
	if r.Outcome.Class != policy.ClassNone {
		is.Failed = string(r.Outcome.Class)
		is.Attributes = append(is.Attributes, trace.Text("error.type", is.Failed))
	}
	return is
}
