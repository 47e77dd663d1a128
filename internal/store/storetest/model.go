package storetest

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
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
		r.Waiting = grapnel.Waiting{Head: true, Due: from.Add(delay), Anchor: from}
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

func (r *row) shown() grapnel.Delivery {
	d := r.Delivery
	d.NextAttemptAt = d.Waiting.Due
	for _, a := range d.Attempts {
		d.Last = grapnel.Last{StatusCode: a.StatusCode, Class: a.Class, Duration: a.Duration}
	}
	return d
}

// add creates a delivery of e, in a lane or not, and returns the new heads.
func (m *model) add(e *grapnel.Event, r row, ordered bool, delay time.Duration) []store.Head {
	r.Seq, r.EventSeq, r.EventID = int64(len(m.rows)+1), e.Seq, e.ID
	if r.Tenant, r.Type, r.Key = e.Tenant, e.Type, e.Key; r.trigger == grapnel.TriggerTest {
		r.ReasonCode = grapnel.ReasonTest
	}
	if ordered && r.Key != "" && r.Status == grapnel.Pending {
		r.Position = m.positions.next(r.EndpointID, r.Key)
	}
	m.rows = append(m.rows, &r)
	return m.settle(r.CreatedAt, delay)
}

func (m *model) append(b store.Batch) (store.Accepted, error) {
	if then, err := m.recall(b.Once); then != nil || err != nil {
		return store.Accepted{Answer: then}, err
	}
	if b.Config != m.config.Version {
		return store.Accepted{}, store.ErrStale
	}
	done := m.accept(b)
	m.remember(b.Once, done)
	return done, nil
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
				if t.Drop != "" {
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
		if e.Type == in.Event.Type && e.Key == in.Event.Key && string(e.Data) == string(in.Event.Data) {
			placed = store.Placed{Seq: e.Seq, ID: e.ID, AcceptedAt: e.AcceptedAt, Deliveries: m.made[e.Seq], Duplicate: true}
			m.publishedAgain(in.Event)
		}
		done.Events = append(done.Events, placed)
	}
	return done
}

// tell appends the events of a Tell.
func (m *model) tell(b *store.Batch) *store.Accepted {
	if b == nil {
		return nil
	}
	done := m.accept(*b)
	return &done
}

func (m *model) record(changes []store.Change) (done []store.Changed, err error) {
	for _, c := range changes {
		if c.Operational != nil && c.Operational.Config != m.config.Version {
			return nil, store.ErrStale
		}
	}
	for _, c := range changes {
		m.stand(c.Standing)
		var is store.Changed
		if r := m.find(c.Delivery); r != nil {
			if is.Applied = r.Status == grapnel.Pending && (c.Expect == store.AnyAttempts || c.Expect == r.AttemptsMade ||
				c.Expect == store.OfHead && r.Waiting.Head) && r.settles(c); is.Applied {
				m.apply(r, c)
			}
			is.Status = r.Status
			next := r
			if r.Position > 0 {
				next = m.leader(r.EndpointID, r.Key)
			}
			if next != nil && next.Status == grapnel.Pending {
				h := next.head()
				is.Next = &h
			}
		}
		if is.Applied {
			is.Operational = m.tell(c.Operational)
			m.note(c.Audit)
		}
		done = append(done, is)
	}
	return done, nil
}

func (m *model) apply(r *row, c store.Change) {
	r.lease = nil
	if r.trigger == grapnel.TriggerTest {
		c.Uncounted, c.Trigger, c.ReasonCode = true, grapnel.TriggerTest, grapnel.ReasonTest
	}
	if c.Attempt != nil {
		r.AttemptsMade++
		if !c.Uncounted {
			m.tried(r, &c)
		}
		r.Attempts = append(slices.Clone(r.Attempts), *c.Attempt)
	}
	if c.Attempt != nil && r.Waiting.Head {
		if r.wide = nil; c.EndpointWide {
			r.wide = &c.At
		}
	}
	r.Status, r.ReasonCode, r.Reason = c.Status, c.ReasonCode, c.Reason
	switch {
	case c.Status != grapnel.Pending:
		r.FinishedAt, r.Waiting, r.uncounted = c.At, grapnel.Waiting{}, c.Uncounted
		m.over(r)
		m.settle(c.At, c.NextDelay)
		return
	case r.Waiting.Head:
		if r.Waiting.Due, r.Waiting.Blocked = c.Due, c.Blocked; c.Blocked {
			r.Waiting.Due = time.Time{}
		}
		if !c.Anchor.IsZero() {
			r.Waiting.Anchor = c.Anchor
		}
	}
	r.trigger = c.Trigger
}

func (m *model) end(endpoint string, e store.Ending, limit int) (n int) {
	for _, r := range m.rows {
		if r.EndpointID == endpoint && r.Status == grapnel.Pending && n < limit {
			r.Status, r.ReasonCode, r.Reason, r.FinishedAt, r.Waiting = e.Status, e.ReasonCode, e.Reason, e.At, grapnel.Waiting{}
			if r.lease, r.uncounted = nil, e.Uncounted; r.trigger == grapnel.TriggerTest {
				r.uncounted, r.ReasonCode = true, grapnel.ReasonTest
			}
			m.over(r)
			n++
		}
	}
	m.settle(e.At, 0)
	return n
}

func (m *model) again(scope store.Scope, q store.Redelivery) (store.Redelivered, error) {
	if then, err := m.recall(q.Once); then != nil || err != nil {
		return store.Redelivered{Answer: then}, err
	}
	of := m.find(q.Of)
	if of == nil || !scope.Allows(of.Tenant) {
		return store.Redelivered{}, store.ErrNotFound("delivery")
	}
	if !slices.ContainsFunc(m.config.Endpoints, func(ep grapnel.Endpoint) bool { return ep.ID == of.EndpointID && ep.DeletedAt.IsZero() }) {
		return store.Redelivered{}, store.ErrNotFound("endpoint")
	}
	done := m.repeat(of, row{trigger: q.Trigger}, q)
	m.note(q.Audit)
	m.remember(q.Once, done)
	return done, nil
}

func (m *model) recall(o *store.Once) (*store.Answer, error) {
	if o == nil {
		return nil, nil
	}
	k, there := m.answers[o.Key]
	if !there || !k.expires.After(o.Now) {
		return nil, nil
	}
	if k.Fingerprint != o.Fingerprint {
		return nil, grapnel.Errorf(grapnel.CodeMismatch, "another request")
	}
	return &k.Answer, nil
}

func (m *model) remember(o *store.Once, done any) {
	if o != nil {
		a := o.Answer(done)
		a.Fingerprint = o.Fingerprint
		m.answers[o.Key] = kept{a, o.Expires}
	}
}

func (m *model) forget(now time.Time, limit int) int {
	var keys []string
	for key, k := range m.answers {
		if !k.expires.After(now) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(m.answers[a].expires.Compare(m.answers[b].expires), cmp.Compare(a, b))
	})
	n := min(limit, len(keys))
	for _, key := range keys[:n] {
		delete(m.answers, key)
	}
	return n
}

func (m *model) putEndpoint(scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	if then, err := m.recall(with.Once); then != nil || err != nil {
		return store.Put{Answer: then}, err
	}
	if with.Operational != nil && with.Operational.Config != m.config.Version {
		return store.Put{}, store.ErrStale
	}
	i := slices.IndexFunc(m.config.Endpoints, func(other grapnel.Endpoint) bool { return other.ID == ep.ID })
	switch {
	case !scope.Allows(ep.Tenant), i < 0 && ep.Revision != 0, i >= 0 && m.config.Endpoints[i].Tenant != ep.Tenant:
		return store.Put{}, store.ErrNotFound("endpoint")
	case i >= 0 && m.config.Endpoints[i].Revision != ep.Revision:
		return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "changed")
	}
	ep.Revision++
	if i >= 0 {
		m.config.Endpoints[i] = ep
	} else {
		m.config.Endpoints = append(m.config.Endpoints, ep)
		slices.SortFunc(m.config.Endpoints, func(a, b grapnel.Endpoint) int { return cmp.Compare(a.ID, b.ID) })
	}
	m.config.Version++
	done := store.Put{Revision: ep.Revision, Version: m.config.Version, Operational: m.tell(with.Operational)}
	m.note(with.Audit)
	m.remember(with.Once, done)
	return done, nil
}

func (m *model) removeEndpoint(id string) error {
	i := slices.IndexFunc(m.config.Endpoints, func(ep grapnel.Endpoint) bool { return ep.ID == id })
	if i < 0 {
		return store.ErrNotFound("endpoint")
	}
	waits := slices.ContainsFunc(m.rows, func(r *row) bool { return r.EndpointID == id && r.Status == grapnel.Pending })
	if waits || m.config.Endpoints[i].DeletedAt.IsZero() {
		return grapnel.Errorf(grapnel.CodeConflict, "not yet")
	}
	m.config.Endpoints = slices.Delete(m.config.Endpoints, i, i+1)
	m.standings = slices.DeleteFunc(m.standings, func(s store.Standing) bool { return s.Endpoint == id })
	m.config.Version++
	return nil
}

// code is the code of an error; ErrStale counts as one.
func code(err error) grapnel.Code {
	if errors.Is(err, store.ErrStale) {
		return "stale"
	}
	return grapnel.CodeOf(err)
}
