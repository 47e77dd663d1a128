package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The model's archive. Purged rows stay in its lists, marked as purged; totals are counted from a
// list of single facts.

func (m *model) totals(scope store.Scope, q store.TotalsQuery) (list []grapnel.Bucket) {
	if (q.Type != "" || q.By == store.ByType) && (q.Endpoint != "" || q.By == store.ByEndpoint) {
		return nil // nothing is counted by endpoint and type
	}
	for _, f := range m.facts {
		long := time.Hour
		if f.whole || q.Daily {
			long = 24 * time.Hour
		}
		begin := f.at.Truncate(long)
		switch {
		case f.Duplicates > 0 && (q.Endpoint != "" || q.By == store.ByEndpoint || !q.Duplicates && q.Type == "" && q.By != store.ByType),
			!scope.Allows(f.tenant), q.Tenant != "" && q.Tenant != f.tenant, q.Endpoint != "" && q.Endpoint != f.endpoint,
			q.Type != "" && q.Type != f.eventType,
			!q.From.IsZero() && !q.From.Before(begin.Add(long)), !q.To.IsZero() && !q.To.After(begin):
			continue
		}
		of := grapnel.Bucket{At: begin}
		if q.By != store.ByTime {
			names := map[store.Grouping]string{store.ByEndpoint: f.endpoint, store.ByTenant: f.tenant, store.ByType: f.eventType}
			of = grapnel.Bucket{Name: names[q.By]}
		}
		i, there := slices.BinarySearchFunc(list, of, func(b, of grapnel.Bucket) int {
			return cmp.Or(b.At.Compare(of.At), cmp.Compare(b.Name, of.Name))
		})
		if !there {
			list = slices.Insert(list, i, of)
		}
		list[i].Add(&f.Totals)
	}
	return list
}

// purge also says how many deliveries it removed.
func (m *model) purge(keep store.Keep, limit int) (removed int) {
	for i := range m.facts {
		end := m.facts[i].at.Truncate(24 * time.Hour).Add(24 * time.Hour)
		m.facts[i].whole = m.facts[i].whole || keep.Now.Sub(end) >= store.HoursKept
	}
	for _, e := range m.events {
		length := keep.For
		for _, rule := range slices.Backward(keep.Rules) {
			if (rule.Tenant == "" || rule.Tenant == e.Tenant) && (rule.Type == "" || grapnel.MatchType(rule.Type, e.Type)) {
				length = rule.For
			}
		}
		if m.goneEvents[e.Seq] || keep.Now.Sub(e.AcceptedAt) <= length || removed == limit {
			continue
		}
		had, left := 0, 0
		for _, r := range m.rows {
			if r.EventSeq != e.Seq || m.gone[r.Seq] {
				continue
			}
			had++
			if r.Status.Final() && keep.Now.Sub(r.FinishedAt) > length && removed < limit {
				m.gone[r.Seq] = true
				m.forgetLane(r, r.FinishedAt.Sub(r.CreatedAt) >= keep.Shortest())
				removed++
			} else {
				left++
			}
		}
		if left == 0 {
			m.goneEvents[e.Seq] = true
		}
		if had == 0 {
			removed++
		}
	}
	return removed
}

// forgetLane forgets the lane of a purged delivery that has its last position, or was pending for
// long, if nothing waits in it.
func (m *model) forgetLane(r *row, long bool) {
	name := laneName{r.EndpointID, r.Key}
	last, known := m.positions.last[name]
	if r.Position == 0 || !known || r.Position != last && !long || m.leader(r.EndpointID, r.Key) != nil {
		return
	}
	delete(m.positions.last, name)
	m.positions.forgot[r.EndpointID] = max(m.positions.forgot[r.EndpointID], last)
	for _, other := range m.rows {
		other.parted = other.parted || other.EndpointID == r.EndpointID && other.Key == r.Key && other.Position > 0
	}
}

func (m *model) annotate(scope store.Scope, a store.Annotation) error {
	r := m.find(a.Delivery)
	switch {
	case r == nil || !scope.Allows(r.Tenant):
		return store.ErrNotFound("delivery")
	case !r.Status.Final() || a.Discard != "" && r.Status != grapnel.Failed:
		return grapnel.Errorf(grapnel.CodeConflict, "not now")
	}
	if a.Note != nil {
		r.Mark.Note = *a.Note
	}
	if a.Discard != "" {
		r.Mark.DiscardedAt, r.Mark.DiscardReason = a.At, a.Discard
	}
	m.note(a.Audit)
	return nil
}
