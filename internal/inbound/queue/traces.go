package queue

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/trace"
)

// begun begins the span of a lease, and returns the context for its consumer: that of the lease's
// own span or, if it has none, the event's. The span is in memory with the lease, so a lease that
// another node settles, or that outlives the process, has none.
func (r *Broker) begun(l *grapnel.Lease, ev *grapnel.Event) string {
	text := ev.Metadata[grapnel.TraceKey]
	if text == "" {
		return ""
	}
	producer, _ := trace.Parse(text)
	is, sampled := r.traces.Next(producer)
	if sampled {
		s := trace.Span{Context: is, Link: producer, Name: "process " + l.Queue, Kind: trace.Consumer, Start: l.GrantedAt}
		s.Attributes = append(trace.About(ev), trace.Text("messaging.operation.type", "process"), trace.Text("messaging.operation.name", "lease"),
			trace.Text("messaging.destination.name", l.Queue), trace.Number("grapnel.attempt", int64(l.Number)),
			trace.Text("grapnel.delivery.id", r.store.IDs().Delivery(l.CreatedAt, l.Delivery)), trace.Text("grapnel.trigger", string(l.Trigger)))
		r.granted.begun(l.Token, s)
	}
	return is.String()
}

// ended records the span of a lease.
func (r *Broker) ended(s trace.Span, by Verdict, held time.Duration) {
	s.End = s.Start.Add(held)
	s.Attributes = append(s.Attributes, trace.Text("grapnel.action", string(by)))
	if by != Ack {
		s.Failed = string(by)
		s.Attributes = append(s.Attributes, trace.Text("error.type", s.Failed))
	}
	r.traces.Record(s)
}

// The verdicts.
const (
	Ack    Verdict = "ack"    // the message is processed
	Nack   Verdict = "nack"   // lease it again later
	Reject Verdict = "reject" // another attempt would not help
)
