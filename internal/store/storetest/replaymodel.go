package storetest

import (
	"cmp"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The model of replays.

// replay is a replay with its items, which stay listed after their deliveries are purged.
type replay struct {
	grapnel.Replay
	made []grapnel.ReplayItem
}

func (m *model) replay(id string) *replay {
	for _, r := range m.replays {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func (m *model) putReplay(scope store.Scope, r grapnel.Replay, with store.With) (store.Put, error) {
	if then, err := m.recall(with.Once); then != nil || err != nil {
		return store.Put{Answer: then}, err
	}
	if with.Operational != nil && with.Operational.Config != m.config.Version {
		return store.Put{}, store.ErrStale
	}
	there := m.replay(r.ID)
	switch {
	case !scope.Allows(r.Tenant), there == nil && r.Revision != 0, there != nil && there.Tenant != r.Tenant:
		return store.Put{}, store.ErrNotFound("replay")
	case there != nil && (there.Revision != r.Revision || there.Status.Final()):
		return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "changed")
	}
	if there == nil {
		r.UpTo, r.Cursor, r.Started, r.Done, r.Delivered, r.Failed, r.Row = int64(len(m.rows)), 0, 0, 0, 0, 0, 0
		there = &replay{Replay: r}
		m.replays = append(m.replays, there)
		slices.SortFunc(m.replays, func(a, b *replay) int { return cmp.Compare(a.ID, b.ID) })
	}
	there.Status, there.Reason, there.Rate, there.UpdatedAt, there.FinishedAt = r.Status, r.Reason, r.Rate, r.UpdatedAt, r.FinishedAt
	there.Revision++
	done := store.Put{Revision: there.Revision, Version: m.config.Version, Operational: m.tell(with.Operational)}
	m.note(with.Audit)
	m.remember(with.Once, done)
	return done, nil
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

func (m *model) advance(s store.ReplayStep) (done []store.Redelivered, err error) {
	r := m.replay(s.Replay)
	switch {
	case r == nil:
		return nil, store.ErrNotFound("replay")
	case r.Status != grapnel.ReplayRunning || r.Cursor != s.From:
		return nil, grapnel.Errorf(grapnel.CodeConflict, "elsewhere")
	case !slices.ContainsFunc(m.config.Endpoints, func(ep grapnel.Endpoint) bool { return ep.ID == r.Endpoint && ep.DeletedAt.IsZero() }):
		return nil, store.ErrNotFound("endpoint")
	}
	for _, item := range s.Items {
		of := m.find(item.Of)
		if of == nil || of.Status == grapnel.Pending || of.EndpointID != r.Endpoint {
			done = append(done, store.Redelivered{})
			continue
		}
		item.At = s.At
		done = append(done, m.repeat(of, row{trigger: grapnel.TriggerReplay, by: r}, item))
	}
	r.Cursor = s.To
	return done, nil
}

func (m *model) candidates(scope store.Scope, q store.CandidateQuery) (list []grapnel.Delivery) {
	sel := q.Selection
	if len(sel.Status) == 0 {
		sel.Status = []grapnel.Status{grapnel.Failed}
	}
	for _, r := range m.rows {
		accepted, last := m.events[r.EventSeq-1].AcceptedAt, r.shown().Last
		switch {
		case m.gone[r.Seq], !scope.Allows(r.Tenant), r.EndpointID != q.Endpoint, r.Status == grapnel.Pending,
			r.FinishedAt.After(q.OverBy), r.Seq <= q.After,
			q.UpTo != 0 && r.Seq > q.UpTo:
			continue
		case len(sel.Deliveries) > 0:
			if !slices.Contains(sel.Deliveries, r.Seq) {
				continue
			}
		case !slices.Contains(sel.Status, r.Status), !sel.Ended(&last), len(sel.Keys) > 0 && !slices.Contains(sel.Keys, r.Key),
			!sel.From.IsZero() && accepted.Before(sel.From), !sel.To.IsZero() && !accepted.Before(sel.To),
			len(sel.Types) > 0 && !slices.ContainsFunc(sel.Types, func(p string) bool { return grapnel.MatchType(p, r.Type) }):
			continue
		}
		d := r.shown()
		d.Attempts = nil
		list = append(list, d)
	}
	return list
}
