package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// sum changes the totals of a delivery's endpoint, and those of its type, in the hour of a time.
func (s *model) sum(d *delivery, at time.Time, change func(*grapnel.Totals)) {
	p := part{endpoint: d.Endpoint, tenant: d.event.Tenant, at: micro(at).Truncate(hour)}
	change(store.Entry(s.totals, p))
	change(s.typeTotal(typePart{tenant: d.event.Tenant, eventType: d.event.Type, at: p.at}))
}

// typeTotal is the totals of a type, or those of all other types if there are too many.
func (s *model) typeTotal(p typePart) *grapnel.Totals {
	if s.types[p] == nil {
		told := 0
		for other := range s.types {
			if other.tenant == p.tenant && other.at.Equal(p.at) && other.whole == p.whole && other.eventType != "" {
				told++
			}
		}
		if told >= store.TypesCounted {
			p.eventType = ""
		}
	}
	return store.Entry(s.types, p)
}

// tried counts an attempt that was recorded.
func (s *model) tried(d *delivery, c *store.Change) {
	a := decide.Tried(c)
	s.sum(d, c.At, func(t *grapnel.Totals) { t.Tried(&a, d.Attempts) })
}

// ended counts a finished delivery.
func (s *model) ended(d *delivery, e *store.Ending) {
	is := d.Ended(e)
	s.sum(d, e.At, func(t *grapnel.Totals) { t.Ended(&is) })
}

// repeated counts an event that was published again.
func (s *model) repeated(e *grapnel.Event) {
	s.typeTotal(typePart{tenant: e.Tenant, eventType: e.Type, at: micro(e.AcceptedAt).Truncate(hour)}).Duplicates++
}

// merge makes days of hours that are old.
func (s *model) merge(now time.Time) {
	old := func(at time.Time) (time.Time, bool) {
		begin := at.Truncate(day)
		return begin, !begin.Add(day + store.HoursKept).After(now)
	}
	for p, t := range s.totals {
		begin, is := old(p.at)
		if p.whole || !is {
			continue
		}
		store.Entry(s.totals, part{p.endpoint, p.tenant, begin, true}).Add(t)
		delete(s.totals, p)
	}
	for _, p := range slices.SortedFunc(maps.Keys(s.types), func(a, b typePart) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.eventType, b.eventType))
	}) {
		begin, is := old(p.at)
		if p.whole || !is {
			continue
		}
		s.typeTotal(typePart{p.tenant, p.eventType, begin, true}).Add(s.types[p])
		delete(s.types, p)
	}
}

// Totals adds up the selected parts.
func (s *model) Totals(_ context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error) {
	if q.Impossible() {
		return nil, nil
	}
	sums := store.NewSums(&q)
	within := func(at time.Time, whole bool, tenant string) (time.Time, bool) {
		long := hour
		if whole || q.Daily {
			at, long = at.Truncate(day), day
		}
		return at, scope.Allows(tenant) && either(q.Tenant, tenant) &&
			(q.From.IsZero() || at.Add(long).After(q.From)) && (q.To.IsZero() || at.Before(q.To))
	}
	for p, t := range s.totals {
		if at, is := within(p.at, p.whole, p.tenant); is && !q.ByTypes() && either(q.Endpoint, p.endpoint) {
			sums.Add(at, map[store.Grouping]string{store.ByEndpoint: p.endpoint, store.ByTenant: p.tenant}[q.By], t)
		}
	}
	for p, t := range s.types {
		at, is := within(p.at, p.whole, p.tenant)
		group := map[store.Grouping]string{store.ByType: p.eventType, store.ByTenant: p.tenant}[q.By]
		switch {
		case !is || !either(q.Type, p.eventType):
		case q.ByTypes():
			sums.Add(at, group, t)
		case q.AlsoTypes():
			sums.AddDuplicates(at, group, t)
		}
	}
	return sums.List(), nil
}

// either says whether a filter takes a value; an empty one takes all.
func either(filter, value string) bool { return filter == "" || filter == value }
