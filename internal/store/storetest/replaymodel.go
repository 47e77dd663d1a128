package storetest

import (
	"cmp"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The model of replays.

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
		if of == nil || of.Status == grapnel.Pending || of.EndpointID != r.Endpoint || !m.events[of.EventSeq-1].ErasedAt.IsZero() {
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
