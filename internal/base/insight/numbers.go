package insight

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// sizes returns one candidate: the size from which on requests fail, where that separates failures
// from successes best. Every size in use counts as tried.
func sizes(all []*Observation) []candidate {
	s := slices.Clone(all)
	slices.SortStableFunc(s, func(a, b *Observation) int { return cmp.Compare(b.Size, a.Size) })
	failures, successes := count(all)
	var best candidate
	var most float64
	failed, tried := 0, 0
	for i, o := range s {
		failed += outcome(o)
		if i+1 == len(s) || s[i+1].Size == o.Size {
			continue // the largest part with all of one size
		}
		tried++
		delivered := i + 1 - failed
		if e := evidence(failed, delivered, failures, successes); e > most && failed*(successes+failures) > failures*(i+1) {
			most = e
			best.Cause = Cause{Kind: Size, Bytes: o.Size, Failed: failed, Delivered: delivered}
		}
	}
	if most == 0 {
		return nil
	}
	at := best.Bytes
	best.tried, best.covers = tried, func(o *Observation) bool { return o.Size >= at }
	return []candidate{best}
}

// A time limit is at least leastLimit, and failures end within one part in limitWidth after it.
const (
	leastLimit = time.Second
	limitWidth = 20
	ownTimeout = "timeout" // the class of attempts that the endpoint's own timeout ended
)

// timeLimits returns one candidate: the duration at which slow failures end although successes are
// quicker, as behind a gateway that gives up after a fixed time. Attempts that ended by the
// endpoint's own timeout tell of no such limit. Every duration in use counts as tried.
func timeLimits(all []*Observation) []candidate {
	slow := slices.DeleteFunc(slices.Clone(all), func(o *Observation) bool {
		return o.Took < leastLimit || o.Failed && o.Class == ownTimeout
	})
	slices.SortStableFunc(slow, func(a, b *Observation) int { return cmp.Compare(a.Took, b.Took) })
	failures, successes := count(all)
	longer, _ := count(slow) // failures that took this long or longer
	delivered := len(slow) - longer
	var best candidate
	var most float64
	for i, end, within := 0, 0, 0; i < len(slow); i++ { // within: failures of slow[i:end]
		from := slow[i].Took
		for end < len(slow) && slow[end].Took <= from+from/limitWidth {
			within += outcome(slow[end])
			end++
		}
		e := evidence(longer, delivered, failures, successes)
		if e > most && within*10 >= longer*9 && longer*(successes+failures) > failures*(longer+delivered) {
			most = e
			best.Cause = Cause{Kind: TimeLimit, Value: from.Round(from / 100).String(), Failed: longer, Delivered: delivered}
			best.covers = func(o *Observation) bool { return o.Took >= from && (!o.Failed || o.Class != ownTimeout) }
		}
		within, longer, delivered = within-outcome(slow[i]), longer-outcome(slow[i]), delivered-1+outcome(slow[i])
	}
	if most == 0 {
		return nil
	}
	best.tried = len(slow)
	return []candidate{best}
}

// spans returns the span of time that failed most unlike the rest, as an outage if it ended soon,
// or as a moment since which attempts fail. A pair of moments counts as tried for each two
// observations.
func spans(all []*Observation, failures, successes int) []candidate {
	from, to, ok := densest(all, failures, successes)
	if !ok {
		return nil
	}
	first, last := all[from].At, all[to].At
	failed, delivered := count(all[from : to+1])
	c := candidate{
		Cause:  Cause{From: first, To: last, Failed: failed, Delivered: delivered},
		tried:  len(all) * len(all),
		covers: func(o *Observation) bool { return !o.At.Before(first) && !o.At.After(last) },
	}
	_, after := count(all[to+1:])
	switch {
	case after >= healed && last.Sub(first) <= longestOutage && delivered*4 <= failed:
		c.Kind = Outage
	case after < healed && from >= healed:
		c.Kind = Since
	default:
		return nil // neither has a sentence: it came and went, slowly
	}
	return []candidate{c}
}

// healed is the number of successes after a span that show that it ended, and of attempts before
// one that show that it began.
const healed = 5

// densest returns the span with the most failures for its length: the largest sum of weights, where
// a failure adds and a success takes away as if the span failed at the rate high, and the rest at
// the overall rate (Kadane's algorithm).
func densest(all []*Observation, failures, successes int) (from, to int, ok bool) {
	const high = 0.95
	rate := min(0.9, (float64(failures)+0.5)/(float64(failures+successes)+1))
	adds, takes := math.Log(high/rate), math.Log((1-high)/(1-rate))
	var best, sum float64
	start := 0
	for i, o := range all {
		if sum <= 0 {
			sum, start = 0, i
		}
		if o.Failed {
			sum += adds
		} else {
			sum += takes
		}
		if sum > best {
			best, from, to, ok = sum, start, i, true
		}
	}
	// attempts of one instant are in the span together or not at all
	for ok && from > 0 && all[from-1].At.Equal(all[from].At) {
		from--
	}
	for ok && to+1 < len(all) && all[to+1].At.Equal(all[to].At) {
		to++
	}
	return from, to, ok
}

func outcome(o *Observation) int {
	if o.Failed {
		return 1
	}
	return 0
}

func count(all []*Observation) (failures, successes int) {
	for _, o := range all {
		failures += outcome(o)
	}
	return failures, len(all) - failures
}

// evidence is half of the likelihood ratio statistic of a table of two by two: how much likelier
// the failures are, in powers of e, if attempts with and without something fail at rates of their
// own, than if all fail at one. By chance alone it is above x about as often as exp(-x).
func evidence(failed, delivered, failures, successes int) float64 {
	return likelihood(failed, delivered) + likelihood(failures-failed, successes-delivered) - likelihood(failures, successes)
}
