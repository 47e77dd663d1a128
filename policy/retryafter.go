package policy

import (
	"strconv"
	"strings"
	"time"
)

// ParseRetryAfter reads a Retry-After header: seconds, with or without a fraction, or an HTTP date.
// A date is compared with date, the Date of the same response, so that a receiver with a wrong
// clock still gets the pause it meant; without a Date pass the time of receipt. Invalid values,
// times in the past, and pauses longer than seven days are ignored: false.
func ParseRetryAfter(value string, date time.Time) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	wait, ok := retrySeconds(value)
	if !ok {
		wait, ok = retryDate(value, date)
	}
	if !ok || wait < 0 || wait > credibleRetryAfter {
		return 0, false
	}
	return wait, true
}

// retrySeconds takes digits and at most one point: no sign, no exponent, no "Inf".
func retrySeconds(value string) (time.Duration, bool) {
	whole, fraction, pointed := strings.Cut(value, ".")
	if !digits(whole) || pointed && !digits(fraction) {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(value, 64)
	// checked before the conversion below can overflow
	if err != nil || seconds > credibleRetryAfter.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond), true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// retryDate reads the three forms of RFC 9110, as net/http does; importing that here would put a
// network stack below a pure package.
func retryDate(value string, date time.Time) (time.Duration, bool) {
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if at, err := time.Parse(layout, value); err == nil {
			return at.Sub(date.Truncate(time.Second)), true
		}
	}
	return 0, false
}
