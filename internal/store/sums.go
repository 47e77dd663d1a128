package store

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Sums adds totals up by time or by group, as a query asks for.
type Sums struct {
	by  Grouping
	all map[sumOf]*grapnel.Totals
}

// sumOf is a sum's time, or its name.
type sumOf struct {
	at   time.Time
	name string
}

// NewSums returns empty sums for a query.
func NewSums(q *TotalsQuery) *Sums { return &Sums{by: q.By, all: make(map[sumOf]*grapnel.Totals)} }

// Of is the sum to which totals of a time, an endpoint, a tenant or a type belong. group is the name
// of that which the query groups by; totals by time do not use it.
func (s *Sums) Of(at time.Time, group string) *grapnel.Totals {
	of := sumOf{name: group}
	if s.by == ByTime {
		of = sumOf{at: at}
	}
	return Entry(s.all, of)
}

// Add adds totals to the sum to which they belong.
func (s *Sums) Add(at time.Time, group string, t *grapnel.Totals) { s.Of(at, group).Add(t) }

// Entry returns the value of a key, which it adds to the map if there is none.
func Entry[K comparable, V any](m map[K]*V, key K) *V {
	v := m[key]
	if v == nil {
		v = new(V)
		m[key] = v
	}
	return v
}

// AddDuplicates adds only the duplicates of totals.
func (s *Sums) AddDuplicates(at time.Time, group string, t *grapnel.Totals) {
	if t.Duplicates != 0 {
		s.Add(at, group, &grapnel.Totals{Duplicates: t.Duplicates})
	}
}

// List returns the sums as Totals does. The groups that keep their names are those with the most
// attempts, deliveries and duplicates.
func (s *Sums) List() []grapnel.Bucket {
	if len(s.all) == 0 {
		return nil
	}
	// The keys are sorted: totals are kilobytes.
	keys := slices.SortedFunc(maps.Keys(s.all), func(a, b sumOf) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	list := make([]grapnel.Bucket, len(keys))
	for i, of := range keys {
		list[i] = grapnel.Bucket{At: of.at, Name: of.name, Totals: *s.all[of]}
	}
	if s.by != ByTime && len(list) > MostGroups {
		list = Busiest(list, MostGroups)
		slices.SortFunc(list, func(a, b grapnel.Bucket) int { return cmp.Compare(a.Name, b.Name) })
	}
	return list
}

// Busiest returns the groups with the most attempts, deliveries and duplicates, at most `most`
// named ones, the busiest first. All others are added up in the group without a name, which is the
// last.
func Busiest(list []grapnel.Bucket, most int) []grapnel.Bucket {
	weight := func(b *grapnel.Bucket) int64 { return b.Attempts + b.Finished() + b.Duplicates }
	slices.SortFunc(list, func(a, b grapnel.Bucket) int {
		if (a.Name == "") != (b.Name == "") {
			return cmp.Compare(b.Name, a.Name) // the one without a name is the last
		}
		return cmp.Or(cmp.Compare(weight(&b), weight(&a)), cmp.Compare(a.Name, b.Name))
	})
	named := len(list)
	if named > 0 && list[named-1].Name == "" {
		named--
	}
	if named <= most {
		return list
	}
	var rest grapnel.Bucket
	for i := most; i < len(list); i++ {
		rest.Add(&list[i].Totals)
	}
	return append(list[:most:most], rest)
}
