package storetest

import (
	"cmp"
	"math"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The model's answers to questions about history.

func (m *model) heads(endpoint string, limit int) (heads []store.Head) {
	for _, r := range m.rows {
		if r.EndpointID == endpoint && r.Waiting.Head && !r.Waiting.Blocked {
			heads = append(heads, r.head())
		}
	}
	slices.SortFunc(heads, func(a, b store.Head) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Delivery, b.Delivery))
	})
	return heads[:min(limit, len(heads))]
}

func (m *model) eventList(scope store.Scope, q store.EventQuery) (list []grapnel.Event) {
	for _, e := range slices.Backward(m.events) {
		switch {
		case m.goneEvents[e.Seq], !scope.Allows(e.Tenant), q.Tenant != "" && q.Tenant != e.Tenant, q.Key != "" && q.Key != e.Key,
			q.Source != "" && q.Source != e.Source,
			q.Type != "" && !grapnel.MatchType(q.Type, e.Type), q.Before != 0 && e.Seq >= q.Before, len(list) == q.Limit,
			!q.From.IsZero() && e.AcceptedAt.Before(q.From), !q.To.IsZero() && !e.AcceptedAt.Before(q.To):
		default:
			list = append(list, *e)
		}
	}
	return list
}

func (m *model) deliveryList(scope store.Scope, q store.DeliveryQuery) (list []grapnel.Delivery) {
	for _, r := range slices.Backward(m.rows) {
		accepted, status := m.events[r.EventSeq-1].AcceptedAt, r.Status
		if status == grapnel.Pending && (r.Waiting.Due.IsZero() || slices.Contains(q.HeldEndpoints, r.EndpointID)) {
			status = grapnel.Held
		}
		switch {
		case m.gone[r.Seq], !scope.Allows(r.Tenant), q.Tenant != "" && q.Tenant != r.Tenant,
			q.Source != "" && q.Source != m.events[r.EventSeq-1].Source, q.Key != "" && q.Key != r.Key,
			q.Type != "" && !grapnel.MatchType(q.Type, r.Type), q.Before != 0 && r.Seq >= q.Before, len(list) == q.Limit,
			!q.From.IsZero() && accepted.Before(q.From), !q.To.IsZero() && !accepted.Before(q.To),
			q.Endpoint != "" && q.Endpoint != r.EndpointID, len(q.Status) > 0 && !slices.Contains(q.Status, status),
			q.Class != "" && q.Class != r.shown().Last.Class, q.StatusCode != 0 && q.StatusCode != r.shown().Last.StatusCode,
			q.ReasonCode != "" && q.ReasonCode != r.ReasonCode,
			q.DeadLetters && (r.Status != grapnel.Failed || !r.Mark.DiscardedAt.IsZero()),
			q.DeadLetters && !q.Replayed && r.Mark.ReplayResult == grapnel.Delivered:
		default:
			d := r.shown()
			d.Attempts = nil
			list = append(list, d)
		}
	}
	return list
}

func (m *model) lanes(scope store.Scope, q store.LaneQuery) (lanes []grapnel.Lane) {
	for _, r := range m.rows {
		if r.EndpointID != q.Endpoint || r.Position == 0 || !r.Waiting.Head || r.AttemptsMade == 0 && !r.Waiting.Blocked ||
			r.Seq <= q.After || len(lanes) == q.Limit || !scope.Allows(r.Tenant) {
			continue
		}
		l := grapnel.Lane{Endpoint: r.EndpointID, Key: r.Key, Head: r.shown()}
		l.Head.Attempts = nil
		for _, other := range m.rows {
			if other.EndpointID == r.EndpointID && other.Key == r.Key && other.Position > r.Position && other.Status == grapnel.Pending {
				l.Waiting++
			}
		}
		lanes = append(lanes, l)
	}
	return lanes
}

func (m *model) counts(scope store.Scope) map[string]map[grapnel.Status]int64 {
	counts := map[string]map[grapnel.Status]int64{}
	for _, d := range m.deliveryList(scope, store.DeliveryQuery{Limit: math.MaxInt}) {
		if counts[d.EndpointID] == nil {
			counts[d.EndpointID] = map[grapnel.Status]int64{}
		}
		counts[d.EndpointID][d.Status]++
	}
	return counts
}
