package codec

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

func countsOf(t *grapnel.Totals) [8]*int64 {
	return [...]*int64{&t.Delivered, &t.Failed, &t.Dropped, &t.Discarded, &t.Skipped, &t.Retried, &t.FirstAttemptSuccess, &t.Attempts}
}

// Counters number all other counts of totals. The numbers are in databases and never change. Each
// part has room to grow at its end.
const (
	counterLatency    = 0
	counterDuplicates = 90
	counterSpent      = 91
	counterTries      = 92
	counterReasons    = 112
	counterClasses    = 128
	counterRetries    = 160
	counterSuccess    = 192
	counterFirst      = 320
)

// EachCounter calls take with the number and the count of each counter that is not zero, in their
// order.
func EachCounter(t *grapnel.Totals, take func(counter int, n int64)) {
	each(counterLatency, t.Latency[:], take)
	each(counterDuplicates, []int64{t.Duplicates, t.Spent}, take)
	each(counterTries, t.Tries[:], take)
	each(counterReasons, t.Reasons[:], take)
	each(counterClasses, t.Classes[:], take)
	each(counterRetries, t.Retries[:], take)
	each(counterSuccess, t.Success[:], take)
	each(counterFirst, []int64{t.FirstAttempts}, take)
}

func each[N int64 | uint64](first int, counts []N, take func(int, int64)) {
	for i, n := range counts {
		if n != 0 {
			take(first+i, int64(n))
		}
	}
}

// AddCounter adds to a counter. false: this version has no such counter.
func AddCounter(t *grapnel.Totals, counter int, n int64) bool {
	switch {
	case counter < 0:
		return false
	case counter < counterDuplicates:
		return add(t.Latency[:], counter-counterLatency, n)
	case counter == counterDuplicates:
		t.Duplicates += n
	case counter == counterSpent:
		t.Spent += n
	case counter < counterReasons:
		return add(t.Tries[:], counter-counterTries, n)
	case counter < counterClasses:
		return add(t.Reasons[:], counter-counterReasons, n)
	case counter < counterRetries:
		return add(t.Classes[:], counter-counterClasses, n)
	case counter < counterSuccess:
		return add(t.Retries[:], counter-counterRetries, n)
	case counter < counterFirst:
		return add(t.Success[:], counter-counterSuccess, n)
	case counter == counterFirst:
		t.FirstAttempts += n
	default:
		return false
	}
	return true
}

func add[N int64 | uint64](counts []N, i int, n int64) bool {
	if i >= len(counts) {
		return false
	}
	counts[i] += N(n)
	return true
}

// EncodeTotals writes the counts, then the counters that are not zero: how many zeros are before
// it, and its count.
func EncodeTotals(t *grapnel.Totals) []byte {
	e := encoder{b: make([]byte, 0, 128)}
	for _, n := range countsOf(t) {
		e.int(*n)
	}
	next := 0
	EachCounter(t, func(counter int, n int64) {
		e.uint(uint64(counter - next))
		e.uint(uint64(n))
		next = counter + 1
	})
	return e.b
}

// DecodeTotals reads them.
func DecodeTotals(b []byte) (grapnel.Totals, error) {
	var t grapnel.Totals
	if err := AddTotals(b, &t); err != nil {
		return grapnel.Totals{}, err
	}
	return t, nil
}

// AddTotals adds them to others. It touches no counter that is zero, as most of the kilobytes of
// totals are. After an error only a part of them was added.
func AddTotals(b []byte, to *grapnel.Totals) error {
	d := decoder{b: b}
	for _, n := range countsOf(to) {
		*n += d.int()
	}
	for counter := uint64(0); len(d.b) > 0; counter++ {
		if counter += d.uint(); counter > 1<<16 || !AddCounter(to, int(counter), int64(d.uint())) {
			return ErrMangled
		}
	}
	if d.bad {
		return ErrMangled
	}
	return nil
}

// Totals are stored by hours and days of UTC, both numbered from the beginning of 1970. Earlier
// ones have negative numbers.
const (
	microsPerHour = int64(time.Hour / time.Microsecond)
	hoursPerDay   = 24
)

// HourOf is the hour of a stored time.
func HourOf(micros int64) int64 { return floor(micros, microsPerHour) }

// HourBegins is the time at which an hour begins, as Micros makes a number of it.
func HourBegins(hour int64) int64 { return hour * microsPerHour }

// DayOf is the day in which an hour lies.
func DayOf(hour int64) int64 { return floor(hour, hoursPerDay) }

// FirstHour is the hour with which a day begins.
func FirstHour(day int64) int64 { return day * hoursPerDay }

// Midnight is the hour with which an hour's day begins.
func Midnight(hour int64) int64 { return FirstHour(DayOf(hour)) }

// floor divides and rounds down, on both sides of zero.
func floor(n, by int64) int64 {
	q := n / by
	if n%by < 0 {
		q--
	}
	return q
}

// Took is the time between two stored times, the earlier one first.
func Took(from, to int64) time.Duration { return time.Duration(to-from) * time.Microsecond }
