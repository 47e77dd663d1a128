package insight

import (
	"cmp"
	"math"
	"slices"
)

// Explain returns the causes of the failures among the observations, the best first. It is greedy:
// each further cause is sought among the observations without the causes before it, so two names of
// one cause are not both returned. If the failures together have no cause, the largest groups of
// failures that look alike are explained one by one: failures of another kind may have hidden it.
func Explain(all []Observation) []Cause {
	causes := explain(sorted(all), leastEvidence)
	if len(causes) > 0 {
		return causes
	}
	groups := Groups(all)
	groups = groups[:min(len(groups), mostGroups)]
	if len(groups) < 2 {
		return nil
	}
	least := leastEvidence + math.Log(float64(len(groups)))
	for i := range groups {
		g := &groups[i]
		others := func(o *Observation) bool { return o.Failed && !g.has(o) }
		for _, c := range explain(slices.DeleteFunc(sorted(all), others), least) {
			c.Group = g
			causes = append(causes, c)
		}
	}
	slices.SortStableFunc(causes, func(a, b Cause) int { return cmp.Compare(b.Evidence, a.Evidence) })
	return causes[:min(len(causes), mostCauses)]
}

// explain returns the causes that have at least so much evidence.
func explain(rest []*Observation, least float64) (causes []Cause) {
	for len(causes) < mostCauses {
		best, covers, ok := strongest(rest, least)
		if !ok {
			break
		}
		causes = append(causes, best)
		rest = slices.DeleteFunc(rest, covers)
	}
	return causes
}

// sorted returns the observations in an order that does not depend on the one they came in.
func sorted(all []Observation) []*Observation {
	s := make([]*Observation, len(all))
	for i := range all {
		s[i] = &all[i]
	}
	slices.SortStableFunc(s, func(a, b *Observation) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Size, b.Size),
			cmp.Compare(outcome(a), outcome(b)))
	})
	return s
}

// strongest returns the cause with the most evidence, and which observations have it.
func strongest(all []*Observation, least float64) (best Cause, covers func(*Observation) bool, ok bool) {
	failures, successes := count(all)
	if failures < leastFailures {
		return Cause{}, nil, false
	}
	candidates := traits(all)
	candidates = append(candidates, sizes(all)...)
	candidates = append(candidates, timeLimits(all)...)
	candidates = append(candidates, spans(all, failures, successes)...)
	rank := func(k Kind) int { return slices.Index(kinds(), k) }
	for i := range candidates {
		c := &candidates[i]
		if c.Failures+c.Successes == 0 {
			c.Failures, c.Successes = failures, successes
		}
		c.Evidence = evidence(c.Failed, c.Delivered, c.Failures, c.Successes) - math.Log(float64(c.tried))
		if c.Evidence < least || !c.enough() {
			continue
		}
		if !ok || c.Evidence > best.Evidence+same ||
			c.Evidence > best.Evidence-same && rank(c.Kind) < rank(best.Kind) {
			best, covers, ok = c.Cause, c.covers, true
		}
	}
	return best, covers, ok
}

// same is a difference of evidence that decides nothing: causes of different kinds that explain the
// same attempts differ by the logarithm of how many of their kind were tried.
const same = 5

// enough says whether a cause with enough evidence is worth a sentence.
func (c *Cause) enough() bool {
	with := float64(c.Failed) / float64(max(1, c.Failed+c.Delivered))
	failed, delivered := c.Failures-c.Failed, c.Successes-c.Delivered
	without := (float64(failed) + 0.5) / (float64(failed+delivered) + 1)
	return c.Failed >= leastFailures && with >= leastRate && with >= leastLift*without
}

// traits returns a candidate for each value of each trait, and for the absence of each field,
// unless it has too few failures. Those count as tried all the same.
func traits(all []*Observation) []candidate {
	type tally struct {
		values            map[string]*[2]int // successes, failures
		failed, delivered int                // of all attempts with any value
	}
	type trait struct {
		kind Kind
		name string
	}
	tallies := map[trait]*tally{}
	for _, o := range all {
		for _, x := range o.everything() {
			t := tallies[trait{x.Kind, x.Name}]
			if t == nil {
				t = &tally{values: map[string]*[2]int{}}
				tallies[trait{x.Kind, x.Name}] = t
			}
			t.failed, t.delivered = t.failed+outcome(o), t.delivered+1-outcome(o)
			if x.Value == "" {
				continue
			}
			n := t.values[x.Value]
			if n == nil {
				if len(t.values) >= mostValues {
					continue
				}
				n = new([2]int)
				t.values[x.Value] = n
			}
			n[outcome(o)]++
		}
	}
	failures, successes := count(all)
	var found []candidate
	tried := 0
	add := func(c candidate) {
		if tried++; c.Failed >= leastFailures { // most values are of one attempt, and too rare for a cause
			found = append(found, c)
		}
	}
	for x, t := range tallies {
		for value, n := range t.values {
			c := with(Trait{x.kind, x.name, value}, n[1], n[0])
			if x.kind != Field { // unlike a field, none is absent: it was not looked at
				c.Failures, c.Successes = t.failed, t.delivered
			}
			add(c)
		}
		if x.kind == Field && t.failed+t.delivered < len(all) {
			add(with(Trait{Field, x.name, Absent}, failures-t.failed, successes-t.delivered))
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	})
	for i := range found {
		found[i].tried = tried
	}
	return found
}

func with(t Trait, failed, delivered int) candidate {
	return candidate{
		Cause:  Cause{Kind: t.Kind, Name: t.Name, Value: t.Value, Failed: failed, Delivered: delivered},
		covers: func(o *Observation) bool { return o.has(t) },
	}
}

// everything is an observation's traits with those that are fields of their own.
func (o *Observation) everything() []Trait {
	return append([]Trait{{Type, "", o.Type}, {Endpoint, "", o.Endpoint}}, o.Traits...)
}

func (o *Observation) has(t Trait) bool {
	for _, x := range o.everything() {
		if x.Kind == t.Kind && x.Name == t.Name && (t.Value == Absent || x.Value == t.Value) {
			return t.Value != Absent
		}
	}
	return t.Value == Absent
}
