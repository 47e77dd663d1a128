package storetest

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// model implements the contract a second time, with lists that are searched from end to end: it
// stores nothing that can be computed. It shares no code with any store, so a mistake would have to
// be made twice. Its row ids of events, deliveries and entries begin at 1.
type model struct {
	events    []*grapnel.Event
	made      map[int64]int // deliveries created by an event's acceptance, by its row id
	rows      []*row
	config    store.Config
	answers   map[string]kept
	standings []store.Standing
	entries   []grapnel.AuditEntry

	facts            []fact
	gone, goneEvents map[int64]bool // row ids of purged deliveries and events
	positions        positions
	replays          []*replay // by id
	documents        []store.Document
}

type row struct {
	grapnel.Delivery
	trigger grapnel.Trigger
	by      *replay // the replay that created it
	lease   *grapnel.Lease
	wide    *time.Time // when its last attempt was recorded, if that failed because of the endpoint

	uncounted bool // no totals count its end
	parted    bool // its lane has been forgotten
}

type kept struct {
	store.Answer
	expires time.Time
}

func (m *model) find(number int64) *row {
	for _, r := range m.rows {
		if r.Seq == number && !m.gone[number] {
			return r
		}
	}
	return nil
}

// newestEntry is the row id of the newest entry.
func (m *model) newestEntry() int64 {
	if n := len(m.entries); n > 0 {
		return m.entries[n-1].Seq
	}
	return 0
}

// leader is the pending delivery of a lane that has the lowest position, or nil.
func (m *model) leader(endpoint, key string) (first *row) {
	for _, r := range m.rows {
		if r.EndpointID == endpoint && r.Key == key && r.Position > 0 && r.Status == grapnel.Pending &&
			(first == nil || r.Position < first.Position) {
			first = r
		}
	}
	return first
}

// settle makes heads of the deliveries that have become first in their lanes.
func (m *model) settle(at time.Time, delay time.Duration) (heads []store.Head) {
	for _, r := range m.rows {
		if r.Status != grapnel.Pending || r.Waiting.Head || r.Position > 0 && m.leader(r.EndpointID, r.Key) != r {
			continue
		}
		from := at
		if r.CreatedAt.After(at) {
			from = r.CreatedAt
		}
		begin := from
		if r.Waiting.Anchor.After(begin) { // Incoming.NotBefore
			begin = r.Waiting.Anchor
		}
		r.Waiting = grapnel.Waiting{Head: true, Due: begin.Add(delay), Anchor: from}
		heads = append(heads, r.head())
	}
	return heads
}

func (r *row) head() store.Head {
	h := store.Head{Delivery: r.Seq, Event: r.EventSeq, Endpoint: r.EndpointID, Position: r.Position, Due: r.Waiting.Due,
		Blocked: r.Waiting.Blocked, Attempts: r.AttemptsMade, Anchor: r.Waiting.Anchor, Trigger: r.trigger, CreatedAt: r.CreatedAt}
	if r.Position > 0 {
		h.Lane = r.Key
	}
	return h
}

// add creates a delivery of e, in a lane or not, and returns the new heads.
func (m *model) add(e *grapnel.Event, r row, ordered bool, delay time.Duration) []store.Head {
	r.Seq, r.EventSeq, r.EventID = int64(len(m.rows)+1), e.Seq, e.ID
	r.Tenant, r.Type, r.Key = e.Tenant, e.Type, e.Key
	if !r.Waiting.Anchor.IsZero() { // Incoming.NotBefore
		r.ReasonCode = grapnel.ReasonLater
	}
	if r.trigger == grapnel.TriggerTest {
		r.ReasonCode = grapnel.ReasonTest
	}
	if ordered && r.Key != "" && r.Status == grapnel.Pending {
		r.Position = m.positions.next(r.EndpointID, r.Key)
	}
	m.rows = append(m.rows, &r)
	return m.settle(r.CreatedAt, delay)
}

func (m *model) accept(b store.Batch) (done store.Accepted) {
	for _, in := range b.Events {
		i := slices.IndexFunc(m.events, func(e *grapnel.Event) bool {
			return e.ID == in.Event.ID && e.Tenant == in.Event.Tenant && !m.goneEvents[e.Seq]
		})
		if i < 0 {
			e := *in.Event
			e.Seq = int64(len(m.events) + 1)
			m.events = append(m.events, &e)
			m.made[e.Seq] = len(in.Targets)
			for _, t := range in.Targets {
				r := row{trigger: t.Trigger}
				r.EndpointID, r.CreatedAt, r.Status = t.Endpoint, e.AcceptedAt, grapnel.Pending
				if r.Waiting.Anchor = in.NotBefore; t.Drop != "" {
					r.Waiting = grapnel.Waiting{}
					r.Status, r.Reason, r.FinishedAt, r.uncounted = grapnel.Dropped, t.Drop, e.AcceptedAt, t.Uncounted
					r.uncounted = r.uncounted || t.Trigger == grapnel.TriggerTest
				}
				done.Heads = append(done.Heads, m.add(&e, r, t.Ordered, t.Delay)...)
				if t.Drop != "" {
					m.ended(m.rows[len(m.rows)-1])
				}
			}
			done.Events = append(done.Events, store.Placed{Seq: e.Seq, ID: e.ID, AcceptedAt: e.AcceptedAt, Deliveries: len(in.Targets)})
			continue
		}
		e, placed := m.events[i], store.Placed{Conflict: true}
		same := e.Key == in.Event.Key && string(e.Data) == string(in.Event.Data)
		if e.Type == in.Event.Type && (same || !e.ErasedAt.IsZero()) {
			placed = store.Placed{Seq: e.Seq, ID: e.ID, AcceptedAt: e.AcceptedAt, Deliveries: m.made[e.Seq], Duplicate: true}
			m.publishedAgain(in.Event)
		}
		done.Events = append(done.Events, placed)
	}
	return done
}

func (m *model) tried(r *row, c *store.Change) {
	a := c.Attempt
	f := fact{endpoint: r.EndpointID, tenant: r.Tenant, eventType: r.Type, at: c.At, Totals: grapnel.Totals{Attempts: 1}}
	if a.StatusCode > 0 {
		f.Latency.Count(a.Duration)
	}
	if r.AttemptsMade == 1 {
		f.FirstAttempts = 1
	}
	class := 1 + slices.Index(policy.Classes(), a.Class)
	f.Classes[class] = 1
	if c.Status == grapnel.Pending {
		f.Retries[class] = 1
	}
	m.facts = append(m.facts, f)
}

// publishedAgain notes a duplicate, which no endpoint has.
func (m *model) publishedAgain(e *grapnel.Event) {
	m.facts = append(m.facts, fact{tenant: e.Tenant, eventType: e.Type, at: e.AcceptedAt, Totals: grapnel.Totals{Duplicates: 1}})
}

func (m *model) ended(r *row) {
	if r.uncounted {
		return
	}
	f := fact{endpoint: r.EndpointID, tenant: r.Tenant, eventType: r.Type, at: r.FinishedAt}
	*map[grapnel.Status]*int64{grapnel.Delivered: &f.Delivered, grapnel.Failed: &f.Failed, grapnel.Dropped: &f.Dropped,
		grapnel.Discarded: &f.Discarded, grapnel.Skipped: &f.Skipped}[r.Status] = 1
	if r.AttemptsMade > 1 {
		f.Retried = 1
	}
	if r.AttemptsMade == 1 && r.Status == grapnel.Delivered {
		f.FirstAttemptSuccess = 1
	}
	f.Spent = int64(r.AttemptsMade)
	f.Tries[min(r.AttemptsMade, len(f.Tries)-1)] = 1
	f.Reasons[slices.Index([]grapnel.ReasonCode{"other", grapnel.ReasonNone, grapnel.ReasonExhausted, grapnel.ReasonPermanent,
		grapnel.ReasonRejected, grapnel.ReasonExpired, grapnel.ReasonEndpointGone, grapnel.ReasonDamaged}, r.ReasonCode)] = 1
	if r.Status == grapnel.Delivered {
		f.Success.Count(r.FinishedAt.Truncate(time.Microsecond).Sub(r.CreatedAt.Truncate(time.Microsecond)))
	}
	m.facts = append(m.facts, f)
}

func (p *positions) next(endpoint, key string) int64 {
	last, known := p.last[laneName{endpoint, key}]
	if !known {
		last = p.forgot[endpoint]
	}
	if p.last == nil {
		p.last, p.forgot = make(map[laneName]int64), make(map[string]int64)
	}
	p.last[laneName{endpoint, key}] = last + 1
	return last + 1
}

// over updates the replay and the original of a finished delivery.
func (m *model) over(r *row) {
	m.ended(r)
	if of := m.find(r.ReplayOf); of != nil && of.Mark.ReplayedAs == r.Seq {
		of.Mark.ReplayResult = r.Status
	}
	if r.ReplayOf != 0 && r.Status == grapnel.Delivered {
		m.resolve(r)
	}
	if r.by == nil {
		return
	}
	for i := range r.by.made {
		if r.by.made[i].Made == r.Seq {
			r.by.made[i].Status = r.Status
		}
	}
	r.by.Done++
	if r.Status == grapnel.Delivered {
		r.by.Delivered++
		r.by.Row = 0
	} else {
		r.by.Failed++
		r.by.Row++
	}
}

// resolve marks the failed deliveries of an event that a redelivery delivered to their endpoint.
func (m *model) resolve(r *row) {
	by := ""
	if r.by != nil {
		by = r.by.ID
	}
	for _, of := range m.rows[:r.Seq] {
		if of.EventSeq == r.EventSeq && of.EndpointID == r.EndpointID && of.Status == grapnel.Failed && of.Mark.ReplayedAs < r.Seq {
			of.Mark.ReplayedAt, of.Mark.ReplayedBy, of.Mark.ReplayedAs, of.Mark.ReplayResult = r.CreatedAt, by, r.Seq, grapnel.Delivered
		}
	}
}
