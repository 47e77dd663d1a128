package storetest

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The model's archive. Purged rows stay in its lists, marked as purged; totals are counted from a
// list of single facts.

// fact is one delivery that ended or one attempt that was recorded.
type fact struct {
	endpoint, tenant string
	at               time.Time
	whole            bool // only its day is known
	grapnel.Totals
}

func (m *model) tried(r *row, a *grapnel.Attempt, at time.Time) {
	f := fact{endpoint: r.EndpointID, tenant: r.Tenant, at: at, Totals: grapnel.Totals{Attempts: 1}}
	if a.StatusCode > 0 {
		f.Latency.Count(a.Duration)
	}
	m.facts = append(m.facts, f)
}

func (m *model) ended(r *row) {
	if r.uncounted {
		return
	}
	f := fact{endpoint: r.EndpointID, tenant: r.Tenant, at: r.FinishedAt}
	*map[grapnel.Status]*int64{grapnel.Delivered: &f.Delivered, grapnel.Failed: &f.Failed, grapnel.Dropped: &f.Dropped,
		grapnel.Discarded: &f.Discarded, grapnel.Skipped: &f.Skipped}[r.Status] = 1
	if r.AttemptsMade > 1 {
		f.Retried = 1
	}
	if r.AttemptsMade == 1 && r.Status == grapnel.Delivered {
		f.FirstAttemptSuccess = 1
	}
	m.facts = append(m.facts, f)
}

func (m *model) totals(scope store.Scope, q store.TotalsQuery) (list []grapnel.Bucket) {
	for _, f := range m.facts {
		long := time.Hour
		if f.whole || q.Daily {
			long = 24 * time.Hour
		}
		begin := f.at.Truncate(long)
		switch {
		case !scope.Allows(f.tenant), q.Tenant != "" && q.Tenant != f.tenant, q.Endpoint != "" && q.Endpoint != f.endpoint,
			!q.From.IsZero() && !q.From.Before(begin.Add(long)), !q.To.IsZero() && !q.To.After(begin):
			continue
		}
		i, there := slices.BinarySearchFunc(list, begin, func(b grapnel.Bucket, at time.Time) int { return b.At.Compare(at) })
		if !there {
			list = slices.Insert(list, i, grapnel.Bucket{At: begin})
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
