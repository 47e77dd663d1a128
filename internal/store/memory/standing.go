package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// stand stores a change's standing, unless a newer one is stored or the endpoint was removed:
// nothing would delete that standing any more.
func (s *model) stand(st *store.Standing) {
	if st == nil {
		return
	}
	if _, there := search(s.config.Endpoints, st.Endpoint); !there {
		return
	}
	if kept, there := s.standings[st.Endpoint]; there && kept.Number >= st.Number {
		return
	}
	s.standings[st.Endpoint] = deepCopy(*st)
}

// Standings are sorted by endpoint.
func (s *model) Standings(_ context.Context) ([]store.Standing, error) {
	var all []store.Standing
	for _, endpoint := range slices.Sorted(maps.Keys(s.standings)) {
		all = append(all, deepCopy(s.standings[endpoint]))
	}
	return all, nil
}

// MakeDue takes the earliest first.
func (s *model) MakeDue(_ context.Context, endpoint string, h store.MakingDue, limit int) (int, error) {
	before, at := codec.Micros(h.Before), codec.Micros(h.At)
	late := pick(s.queue(endpoint).due.all(), limit, func(d *delivery) bool { return d.Late(at, before) },
		func(d *delivery) *delivery { return d })
	for _, d := range late {
		s.delist(d)
		d.MakeDue(at)
		s.enlist(d)
	}
	return len(late), nil
}

// StuckLanes goes through the heads, the oldest first.
func (s *model) StuckLanes(_ context.Context, scope store.Scope, q store.LaneQuery) ([]grapnel.Lane, error) {
	return pick(s.queue(q.Endpoint).pending.all(), q.Limit, func(d *delivery) bool {
		stuck := d.lane != nil && d.Head && (d.Attempts > 0 || d.Blocked)
		return stuck && d.Seq > q.After && scope.Allows(d.event.Tenant)
	}, func(d *delivery) grapnel.Lane {
		return grapnel.Lane{Endpoint: d.Endpoint, Key: d.Key, Head: d.shown(), Waiting: min(d.lane.pending.size-1, q.MostWaiting())}
	}), nil
}
