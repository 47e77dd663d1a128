package storetest

import (
	"cmp"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The model of endpoints' standings and of the audit, and the machine's calls about them.

func (m *model) makeDue(endpoint string, h store.MakingDue, limit int) int {
	var late []*row
	for _, r := range m.rows {
		if r.EndpointID == endpoint && r.Waiting.Head && !r.Waiting.Blocked && r.lease == nil && r.wide != nil && r.wide.Before(h.Before) &&
			r.Waiting.Due.After(h.At) {
			late = append(late, r)
		}
	}
	slices.SortFunc(late, func(a, b *row) int { return cmp.Or(a.Waiting.Due.Compare(b.Waiting.Due), cmp.Compare(a.Seq, b.Seq)) })
	late = late[:min(limit, len(late))]
	for _, r := range late {
		r.Waiting.Due, r.wide = h.At, nil
	}
	return len(late)
}

func (m *model) audit(scope store.Scope, q store.AuditQuery) (list []grapnel.AuditEntry) {
	entries := slices.Clone(m.entries)
	if !q.Oldest {
		slices.Reverse(entries)
	}
	for _, e := range entries {
		switch {
		case !scope.Allows(e.Tenant), q.Tenant != "" && q.Tenant != e.Tenant, q.Endpoint != "" && q.Endpoint != e.Endpoint,
			q.Delivery != "" && q.Delivery != e.Delivery, q.Before != 0 && e.Seq >= q.Before, e.Seq <= q.After, len(list) == q.Limit:
		default:
			list = append(list, e)
		}
	}
	return list
}

// entry draws an entry. Two of the same moment may be the same.
func (m *machine) entry(t *rapid.T) *grapnel.AuditEntry {
	e := entry(pick(t, "tenant", m.actors...), pick(t, "endpoint", "", epA, epX), pick(t, "verb", grapnel.VerbRetry, grapnel.VerbSkip),
		m.now.Sub(at(0)).Seconds())
	e.Delivery = pick(t, "delivery", "", "dlv_1", "dlv_2")
	return e
}

func (m *machine) notes(t *rapid.T) {
	e := m.entry(t)
	m.model.note(e)
	m.must(m.Note(m.ctx, *e), "Note")
}

func (m *machine) makesDue(t *rapid.T) {
	now := m.tick(t)
	h := store.MakingDue{Before: now.Add(-time.Duration(rapid.IntRange(-2, 5).Draw(t, "before")) * time.Second), At: now}
	endpoint, limit := pick(t, "endpoint", someEndpoints...), pick(t, "limit", 0, 1, 2, 1000)
	want := m.model.makeDue(endpoint, h, limit)
	got, err := m.MakeDue(m.ctx, endpoint, h, limit)
	m.agree(got, want, err, nil, "MakeDue")
}
