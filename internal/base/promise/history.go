package promise

import (
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// History has the counts of the last 28 days, by the hour.
type History struct{ hours map[int64]*Hour }

// NewHistory returns one without counts.
func NewHistory() *History { return &History{hours: map[int64]*Hour{}} }

func hourOf(at time.Time) int64 {
	s := at.Unix()
	return (s - ((s%3600)+3600)%3600) / 3600
}

// Set replaces the hour that a time is in.
func (h *History) Set(at time.Time, is Hour) { h.hours[hourOf(at)] = &is }

// Forget removes hours that no window reaches any more.
func (h *History) Forget(now time.Time) {
	oldest := hourOf(now.Add(-Window - 24*time.Hour))
	maps.DeleteFunc(h.hours, func(at int64, _ *Hour) bool { return at < oldest })
}

// Since is the first slot with a count; zero: there is none.
func (h *History) Since() time.Time {
	if len(h.hours) == 0 {
		return time.Time{}
	}
	first := slices.Min(slices.Collect(maps.Keys(h.hours)))
	for s, of := range h.hours[first].slots {
		if of != [indicators]Count{} {
			return time.Unix(first*3600, 0).UTC().Add(time.Duration(s) * Slot)
		}
	}
	return time.Unix(first*3600, 0).UTC()
}

// slot is the count of some indicators in the slot that begins at a time.
func (h *History) slot(at time.Time, of []Indicator) (n Count) {
	hour := h.hours[hourOf(at)]
	if hour == nil {
		return n
	}
	for _, i := range of {
		n.add(hour.slots[slotOf(at)][i])
	}
	return n
}

// Sum is the count of a window. It has fractions, because the oldest slot of a window counts with
// the part of it that the window covers.
type Sum struct{ Good, Bad float64 }

// All is the number of events.
func (s Sum) All() float64 { return s.Good + s.Bad }

// Ratio is the share of bad events; 0 if there are none.
func (s Sum) Ratio() float64 {
	if s.All() == 0 {
		return 0
	}
	return s.Bad / s.All()
}

// Over is the sum of some indicators over the window of a length that ends now. Events of one slot
// count as spread evenly over it: that is exact for whole slots, and off by less than a slot's
// events otherwise.
func (h *History) Over(now time.Time, length time.Duration, of []Indicator) (sum Sum) {
	from := now.Add(-length)
	for at := from.Truncate(Slot); !at.After(now); at = at.Add(Slot) {
		part := 1.0
		if at.Before(from) {
			part = float64(at.Add(Slot).Sub(from)) / float64(Slot)
		}
		n := h.slot(at, of)
		sum.Good += part * float64(n.Good)
		sum.Bad += part * float64(n.Bad)
	}
	return sum
}

// Day has the counts of one day, in UTC.
type Day struct {
	Date time.Time
	Count
	Slots  int  // slots in which anything was bad
	Gaps   int  // slots without any measurement, between the first measurement and now
	Before bool // nothing was measured yet
}

// Daily are the days of the window, the oldest first; the last one is today.
func (h *History) Daily(now time.Time, of []Indicator) []Day {
	today, since := now.UTC().Truncate(24*time.Hour), h.Since()
	days := make([]Day, Days)
	all := make([]Indicator, indicators)
	for i := range all {
		all[i] = Indicator(i)
	}
	for i := range days {
		d := &days[i]
		d.Date = today.AddDate(0, 0, i-Days+1)
		d.Before = since.IsZero() || !d.Date.Add(24*time.Hour).After(since)
		for at := d.Date; at.Before(d.Date.Add(24 * time.Hour)); at = at.Add(Slot) {
			n := h.slot(at, of)
			d.add(n)
			switch {
			case n.Bad > 0:
				d.Slots++
			case !at.Before(since) && at.Add(Slot).Before(now) && !since.IsZero() && h.slot(at, all) == Count{}:
				d.Gaps++
			}
		}
	}
	return days
}

// Took are durations of an indicator that has them, over whole hours.
func (h *History) Took(now time.Time, length time.Duration, of Indicator) (all grapnel.Latency) {
	for at, first := hourOf(now), hourOf(now.Add(-length)); at >= first; at-- {
		if hour := h.hours[at]; hour != nil {
			all.Add(&hour.took[of])
		}
	}
	return all
}
