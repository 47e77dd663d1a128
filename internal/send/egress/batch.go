package egress

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/sign"
)

// Sends to one endpoint of format batch share a request. Each is the attempt of one delivery, with
// a slot and an outcome of its own, so core and store know nothing of batches, and a lane has at
// most one event in a request. A request that succeeds is the success of each of its events. One
// that fails after it was written says nothing about any of them, so each is then sent alone,
// within the same attempt. So no event gets the outcome of another's content; it breaks if an
// answer other than a success or a request for a pause is shared.

// shares says whether a delivery may go with others. Retries, probes and requests of people go
// alone.
func (r *route) shares(d *Delivery) bool {
	batched := func(at time.Time) bool { return r.endpoint.ShapeAt(at).Format == grapnel.FormatBatch }
	return r.target == nil && r.broker == nil && d.Number == 1 && d.Trace == "" &&
		(d.Trigger == grapnel.TriggerSchedule || d.Trigger == grapnel.TriggerReplay) &&
		batched(d.Event.AcceptedAt) && batched(d.CreatedAt) // bodyOf chooses one of the two
}

func (r *route) company(ctx context.Context, d *Delivery) company {
	var own strings.Builder
	for _, is := range r.filled {
		own.WriteString(is.template.of(*d))
		own.WriteByte('\n')
	}
	return company{ctx, d.Epoch, d.Event.Hops(), d.Trigger, own.String()}
}

// join puts an event into the open batch of its company, or opens one, which the caller then leads.
// A batch leaves when the next event would make it too large, or when as many events are inside as
// the endpoint has slots, so that no other can come.
func (g *gathering) join(of company, id string, body []byte, slots int, bounds *Bounds) (b *batch, leads bool) {
	element := body[1 : len(body)-1] // without the brackets
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside++
	if b = g.open[of]; b != nil && len(b.body)+len(",]")+len(element) > bounds.BatchBytes {
		g.dismiss(of, b)
		b = nil
	}
	if leads = b == nil; leads {
		if g.open == nil {
			g.open = map[company]*batch{}
		}
		b = &batch{full: make(chan struct{}), done: make(chan struct{})}
		g.open[of] = b
	}
	b.body = append(append(b.body, ','), element...)
	b.ids = append(b.ids, id)
	if len(b.ids) >= bounds.BatchEvents || len(b.body) >= bounds.BatchBytes {
		g.dismiss(of, b)
	}
	if g.inside >= slots {
		for of, b := range g.open {
			g.dismiss(of, b)
		}
	}
	return b, leads
}

// dismiss lets the batch leave; g.mu is held.
func (g *gathering) dismiss(of company, b *batch) {
	delete(g.open, of)
	close(b.full)
}

// depart closes the batch to further events.
func (g *gathering) depart(of company, b *batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[of] == b {
		delete(g.open, of)
	}
}

func (g *gathering) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
}

// together makes the attempt in a request with others, if any come within Bounds.Linger.
func (r *route) together(ctx context.Context, s *Sender, m *message, d Delivery, body []byte, result *Result) {
	of := r.company(ctx, &d)
	b, leads := r.gathering.join(of, d.Event.ID, body, max(1, r.endpoint.MaxConcurrency), &s.bounds)
	defer r.gathering.leave()
	if leads {
		b.await(ctx, s)
		r.gathering.depart(of, b)
		if len(b.ids) > 1 {
			b.lead(ctx, s, r, d)
		}
		close(b.done)
	} else {
		<-b.done // its leader has the same context
	}
	if len(b.ids) > 1 && !b.result.apart() {
		*result = b.result
		return
	}
	if len(b.ids) > 1 {
		d.batch = "1, after " + b.result.sentence()
	}
	result.StartedAt = s.opts.Now()
	r.once(ctx, s, m, d, body, grapnel.JSONType, result)
}

// await waits until the batch is full, or long enough.
func (b *batch) await(ctx context.Context, s *Sender) {
	linger := time.NewTimer(s.bounds.Linger)
	defer linger.Stop()
	select {
	case <-b.full:
	case <-linger.C:
	case <-ctx.Done():
	case <-s.closing.Done():
	}
}

// lead sends a batch with the headers that its events have in common. Its id follows from theirs.
// Of the signature, which covers all of them, an attempt keeps nothing.
func (b *batch) lead(ctx context.Context, s *Sender, r *route, d Delivery) {
	s.counters.batches.Add(1)
	hash := sha256.Sum256([]byte(strings.Join(b.ids, "\n")))
	as := *d.Event
	as.ID = "bat_" + hex.EncodeToString(hash[:16])
	d.Event, d.ID, d.Position, d.batch = &as, "", 0, strconv.Itoa(len(b.ids))
	b.body[0] = '['
	m := s.message()
	defer s.forget(m)
	b.result.StartedAt = s.opts.Now()
	r.once(ctx, s, m, d, append(b.body, ']'), grapnel.JSONType, &b.result)
	if b.result.Sent == nil {
		return
	}
	if b.result.apart() {
		s.counters.divided.Add(1)
	}
	sent := fields(slices.DeleteFunc(b.result.Sent, func(h grapnel.Header) bool {
		return h.Name == sign.HeaderSignature || h.Name == headerSvixSignature
	}))
	sent.set(sign.HeaderID, as.ID)
	sent.sort()
	b.result.Sent = sent
}

// apart says whether the events of a batch with this result have to be sent alone. They share a
// success, a pause that the receiver asks for, and what happened before anything was written.
func (r *Result) apart() bool {
	switch o := &r.Outcome; {
	case r.Sent == nil, o.Class == policy.ClassNone, o.Class == policy.ClassInternal:
		return false
	default:
		return o.Class != policy.ClassStatus429 && !(o.Status == 503 && o.HasRetryAfter)
	}
}

// sentence is a failed result in a word.
func (r *Result) sentence() string {
	if r.Outcome.Status != 0 {
		return strconv.Itoa(r.Outcome.Status)
	}
	return string(r.Outcome.Class)
}
