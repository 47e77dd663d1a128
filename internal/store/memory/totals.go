package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// part is one hour of an endpoint, or one day if its hours have been merged.
type part struct {
	endpoint, tenant string
	at               time.Time
	whole            bool // a day
}

// total is the totals of a delivery's endpoint in the hour of a time.
func (s *Store) total(d *delivery, at time.Time) *grapnel.Totals {
	p := part{endpoint: d.EndpointID, tenant: d.Tenant, at: micro(at).Truncate(hour)}
	if s.totals[p] == nil {
		s.totals[p] = new(grapnel.Totals)
	}
	return s.totals[p]
}

// tried counts an attempt that was recorded at a time.
func (s *Store) tried(d *delivery, a *grapnel.Attempt, at time.Time) {
	t := s.total(d, at)
	t.Attempts++
	if a.StatusCode > 0 {
		t.Latency.Count(a.Duration)
	}
}

// merge makes days of hours that are old.
func (s *Store) merge(now time.Time) {
	for p, t := range s.totals {
		of := part{p.endpoint, p.tenant, p.at.Truncate(day), true}
		if p.whole || of.at.Add(day+store.HoursKept).After(now) {
			continue
		}
		if s.totals[of] == nil {
			s.totals[of] = new(grapnel.Totals)
		}
		s.totals[of].Add(t)
		delete(s.totals, p)
	}
}

// Totals adds up the selected parts.
func (s *Store) Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	buckets := make(map[time.Time]*grapnel.Totals)
	for p, t := range s.totals {
		at, long := p.at, hour
		if p.whole || q.Daily {
			at, long = at.Truncate(day), day
		}
		if !scope.Allows(p.tenant) || !either(q.Tenant, p.tenant) || !either(q.Endpoint, p.endpoint) ||
			!q.From.IsZero() && !at.Add(long).After(q.From) || !q.To.IsZero() && !at.Before(q.To) {
			continue
		}
		if buckets[at] == nil {
			buckets[at] = new(grapnel.Totals)
		}
		buckets[at].Add(t)
	}
	var list []grapnel.Bucket
	for _, at := range slices.SortedFunc(maps.Keys(buckets), func(a, b time.Time) int { return cmp.Compare(a.UnixMicro(), b.UnixMicro()) }) {
		list = append(list, grapnel.Bucket{At: at, Totals: *buckets[at]})
	}
	return list, nil
}
