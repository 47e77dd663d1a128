package scheme

import (
	"fmt"
	"strconv"
	"time"
)

// parseStamp parses a timestamp: seconds, milliseconds or microseconds since 1970, by the number of
// digits, or RFC 3339.
func parseStamp(text string) (time.Time, bool) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			at, err := time.Parse(time.RFC3339, text)
			return at, err == nil
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || len(text) > 16:
		return time.Time{}, false
	case len(text) <= 11:
		return time.Unix(n, 0), true
	case len(text) <= 14:
		return time.UnixMilli(n), true
	default:
		return time.UnixMicro(n), true
	}
}

// fresh checks that a timestamp is near enough to now, in both directions.
func (in *Request) fresh(text string) bool {
	at, ok := parseStamp(text)
	if !ok {
		return in.failed("the timestamp cannot be read")
	}
	in.Time = at
	tolerance := in.v.Tolerance
	// Sub ends at the longest duration, and the negative of the shortest is itself: so not -age.
	switch age, ahead := in.now.Sub(at), at.Sub(in.now); {
	case age > tolerance:
		return in.faulty(TooOldOrNew, "timestamp "+rounded(age)+" old, more than "+rounded(tolerance))
	case ahead > tolerance:
		return in.faulty(TooOldOrNew, "timestamp "+rounded(ahead)+" in the future, more than "+rounded(tolerance))
	case ahead > 0:
		return in.passed("timestamp " + rounded(ahead) + " in the future")
	default:
		return in.passed("timestamp " + rounded(age) + " old")
	}
}

func rounded(d time.Duration) string {
	switch {
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < 72*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	default:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
}
