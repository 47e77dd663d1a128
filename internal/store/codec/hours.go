package codec

import "time"

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
