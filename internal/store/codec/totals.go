package codec

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

func countsOf(t *grapnel.Totals) [8]*int64 {
	return [...]*int64{&t.Delivered, &t.Failed, &t.Dropped, &t.Discarded, &t.Skipped, &t.Retried, &t.FirstAttemptSuccess, &t.Attempts}
}

// Cells number all other counts of totals. The numbers are in databases and never change; rows of
// earlier versions have only the latencies. Each part has room to grow at its end.
const (
	cellLatency    = 0
	cellDuplicates = 90
	cellSpent      = 91
	cellTries      = 92
	cellReasons    = 112
	cellClasses    = 128
	cellRetries    = 160
	cellSuccess    = 192
	cellFirst      = 320
)

// EachCell calls take with the number and the count of each cell that is not zero, in their order.
func EachCell(t *grapnel.Totals, take func(cell int, n int64)) {
	each(cellLatency, t.Latency[:], take)
	each(cellDuplicates, []int64{t.Duplicates, t.Spent}, take)
	each(cellTries, t.Tries[:], take)
	each(cellReasons, t.Reasons[:], take)
	each(cellClasses, t.Classes[:], take)
	each(cellRetries, t.Retries[:], take)
	each(cellSuccess, t.Success[:], take)
	each(cellFirst, []int64{t.FirstAttempts}, take)
}

func each[N int64 | uint64](first int, counts []N, take func(int, int64)) {
	for i, n := range counts {
		if n != 0 {
			take(first+i, int64(n))
		}
	}
}

// SetCell sets a cell. false: this version has no such cell.
func SetCell(t *grapnel.Totals, cell int, n int64) bool {
	switch {
	case cell < 0:
		return false
	case cell < cellDuplicates:
		return set(t.Latency[:], cell-cellLatency, n)
	case cell == cellDuplicates:
		t.Duplicates = n
	case cell == cellSpent:
		t.Spent = n
	case cell < cellReasons:
		return set(t.Tries[:], cell-cellTries, n)
	case cell < cellClasses:
		return set(t.Reasons[:], cell-cellReasons, n)
	case cell < cellRetries:
		return set(t.Classes[:], cell-cellClasses, n)
	case cell < cellSuccess:
		return set(t.Retries[:], cell-cellRetries, n)
	case cell < cellFirst:
		return set(t.Success[:], cell-cellSuccess, n)
	case cell == cellFirst:
		t.FirstAttempts = n
	default:
		return false
	}
	return true
}

func set[N int64 | uint64](counts []N, i int, n int64) bool {
	if i >= len(counts) {
		return false
	}
	counts[i] = N(n)
	return true
}

// EncodeTotals writes the counts, then the cells that are not zero: how many zeros are before it,
// and its count.
func EncodeTotals(t *grapnel.Totals) []byte {
	e := encoder{b: make([]byte, 0, 128)}
	for _, n := range countsOf(t) {
		e.int(*n)
	}
	next := 0
	EachCell(t, func(cell int, n int64) {
		e.uint(uint64(cell - next))
		e.uint(uint64(n))
		next = cell + 1
	})
	return e.b
}

// DecodeTotals reads them.
func DecodeTotals(b []byte) (grapnel.Totals, error) {
	var t grapnel.Totals
	d := decoder{b: b}
	for _, n := range countsOf(&t) {
		*n = d.int()
	}
	for cell := uint64(0); len(d.b) > 0; cell++ {
		if cell += d.uint(); cell > 1<<16 || !SetCell(&t, int(cell), int64(d.uint())) {
			return grapnel.Totals{}, ErrMangled
		}
	}
	if d.bad {
		return grapnel.Totals{}, ErrMangled
	}
	return t, nil
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
