package storetest

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func (r *row) shown() grapnel.Delivery {
	d := r.Delivery
	d.NextAttemptAt = d.Waiting.Due
	for _, a := range d.Attempts {
		d.Last = a.Last()
	}
	return d
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

// tell appends operational events.
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
	if !m.events[of.EventSeq-1].ErasedAt.IsZero() {
		return store.Redelivered{}, store.ErrErased
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

func (m *model) stand(s *store.Standing) {
	if s == nil || !slices.ContainsFunc(m.config.Endpoints, func(ep grapnel.Endpoint) bool { return ep.ID == s.Endpoint }) {
		return
	}
	i := slices.IndexFunc(m.standings, func(other store.Standing) bool { return other.Endpoint == s.Endpoint })
	switch {
	case i < 0:
		m.standings = append(m.standings, *s)
		slices.SortFunc(m.standings, func(a, b store.Standing) int { return cmp.Compare(a.Endpoint, b.Endpoint) })
	case m.standings[i].Number < s.Number:
		m.standings[i] = *s
	}
}

func (m *model) note(e *grapnel.AuditEntry) {
	if e == nil {
		return
	}
	kept := *e
	for _, there := range m.entries {
		if kept.Seq = there.Seq; kept == there {
			return
		}
	}
	kept.Seq = m.newestEntry() + 1
	m.entries = append(m.entries, kept)
}

// settles says whether the row's lease lets a change apply.
func (r *row) settles(c store.Change) bool {
	switch {
	case c.Lease == nil && c.Status == grapnel.Pending:
		return r.lease == nil
	case c.Lease == nil:
		return true
	case r.lease == nil || r.lease.Token != c.Lease.Token:
		return false
	case c.Lease.Over:
		return !c.At.Before(r.Waiting.Due)
	}
	return c.At.Before(r.Waiting.Due)
}

// repeat creates r, which repeats another delivery.
func (m *model) repeat(of *row, r row, q store.Redelivery) store.Redelivered {
	r.EndpointID, r.CreatedAt, r.Status, r.ReplayOf = of.EndpointID, q.At, grapnel.Pending, of.Seq
	heads := m.add(m.events[of.EventSeq-1], r, q.Ordered, q.Delay)
	done := store.Redelivered{Delivery: int64(len(m.rows)), CreatedAt: q.At}
	if len(heads) > 0 {
		done.Head = &heads[0]
	}
	by := ""
	if r.by != nil {
		by = r.by.ID
		r.by.made = append(r.by.made, grapnel.ReplayItem{Original: of.Seq, CreatedAt: of.CreatedAt, Made: done.Delivery, MadeAt: q.At,
			Status: grapnel.Pending})
		r.by.Started++
	}
	of.Mark.ReplayedAt, of.Mark.ReplayedBy, of.Mark.ReplayedAs, of.Mark.ReplayResult = q.At, by, done.Delivery, grapnel.Pending
	return done
}
