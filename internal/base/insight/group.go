package insight

import (
	"cmp"
	"slices"
)

// has says whether an observation is a failure of the group.
func (g *Group) has(o *Observation) bool {
	return o.Failed && o.Endpoint == g.Endpoint && o.Class == g.Class && o.Status == g.Status && o.Answer == g.Answer
}

// Groups puts failures into groups, the largest first. Those of which neither class nor status is
// known are in none.
func Groups(all []Observation) []Group {
	type key struct {
		endpoint, class string
		status          int
		answer          string
	}
	at := map[key]int{}
	var groups []Group
	for i := range all {
		o := &all[i]
		if !o.Failed || o.Class == "" && o.Status == 0 {
			continue
		}
		k := key{o.Endpoint, o.Class, o.Status, o.Answer}
		n, ok := at[k]
		if !ok {
			n = len(groups)
			at[k] = n
			groups = append(groups, Group{Endpoint: o.Endpoint, Class: o.Class, Status: o.Status, Answer: o.Answer,
				First: o.At, Last: o.At, Example: i})
		}
		g := &groups[n]
		g.Count++
		if o.At.Before(g.First) {
			g.First = o.At
		}
		if !o.At.Before(g.Last) {
			g.Last, g.Example = o.At, i
		}
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Class, b.Class),
			cmp.Compare(a.Status, b.Status), cmp.Compare(a.Answer, b.Answer))
	})
	return groups
}
