package issue

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Delta has the counts of failures of one group. Merging deltas in any order gives the same
// result.
type Delta struct {
	Count       int64     `json:"count"` // failed attempts
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
	Oldest      time.Time `json:"oldest,omitzero"`       // creation of the oldest delivery
	Redelivered bool      `json:"redelivered,omitempty"` // see Failure.Again
	Deliveries  sketch    `json:"deliveries"`
	Keys        sketch    `json:"keys"`
	Examples    []Example `json:"examples"` // the newest first
	Hours       []Hour    `json:"hours"`    // rising; those without failures are left out

	streak int64 // successes of the endpoint before its last failure; see Tally
}

// Example is a delivery of an issue.
type Example struct {
	Delivery string    `json:"delivery"` // its public id
	At       time.Time `json:"at"`       // of its last failure of the issue
}

// Hour has the failures of one hour.
type Hour struct {
	At    int64 `json:"at"` // hours since 1970
	Count int64 `json:"count"`
}

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// add counts one failure.
func (d *Delta) add(f *Failure) {
	d.Count++
	d.First, d.Oldest = earlier(d.First, f.At), earlier(d.Oldest, f.Created)
	d.Last = later(d.Last, f.At)
	d.Redelivered = d.Redelivered || f.Again
	d.Deliveries.add(f.Delivery)
	if f.Key != "" {
		d.Keys.add(f.Key)
	}
	d.example(Example{f.Delivery, f.At})
	d.hour(Hour{hourOf(f.At), 1})
	d.trim()
}

// Merge adds what another delta counted.
func (d *Delta) Merge(o *Delta) {
	d.Count += o.Count
	d.First, d.Oldest = earlier(d.First, o.First), earlier(d.Oldest, o.Oldest)
	d.Last = later(d.Last, o.Last)
	d.Redelivered = d.Redelivered || o.Redelivered
	d.streak = max(d.streak, o.streak)
	d.Deliveries.merge(o.Deliveries)
	d.Keys.merge(o.Keys)
	for _, e := range o.Examples {
		d.example(e)
	}
	for _, h := range o.Hours {
		d.hour(h)
	}
	d.trim()
}

// example adds a delivery, or its newer failure.
func (d *Delta) example(e Example) {
	if len(d.Examples) == examples && newest(d.Examples[examples-1], e) < 0 {
		return
	}
	at := slices.IndexFunc(d.Examples, func(x Example) bool { return x.Delivery == e.Delivery })
	switch {
	case at < 0:
		d.Examples = append(d.Examples, e)
	case e.At.After(d.Examples[at].At):
		d.Examples[at] = e
	}
	slices.SortFunc(d.Examples, newest)
	d.Examples = d.Examples[:min(len(d.Examples), examples)]
}

func newest(a, b Example) int {
	return cmp.Or(b.At.Compare(a.At), strings.Compare(b.Delivery, a.Delivery))
}

func (d *Delta) hour(h Hour) {
	at, there := slices.BinarySearchFunc(d.Hours, h.At, func(x Hour, at int64) int { return cmp.Compare(x.At, at) })
	if !there {
		d.Hours = slices.Insert(d.Hours, at, Hour{At: h.At})
	}
	d.Hours[at].Count += h.Count
}

// trim forgets the hours that are too long before the last failure. What one merge forgets, each
// later one would forget too, because Last only grows.
func (d *Delta) trim() {
	first := hourOf(d.Last) - hours + 1
	d.Hours = slices.DeleteFunc(d.Hours, func(h Hour) bool { return h.At < first })
}

// clone returns a delta that shares nothing.
func (d *Delta) clone() *Delta {
	c := new(Delta)
	*c = *d
	c.Deliveries, c.Keys = slices.Clone(d.Deliveries), slices.Clone(d.Keys)
	c.Examples, c.Hours = slices.Clone(d.Examples), slices.Clone(d.Hours)
	return c
}

// earlier is the earlier of two times; a zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
