package policy

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that is a string in JSON: "1h30m". It is read by ParseDuration, and
// written without days.
type Duration time.Duration

// ParseDuration reads a Go duration string, before which there may be days of 24 hours: "30d",
// "1d12h".
func ParseDuration(text string) (time.Duration, error) {
	number, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		return time.ParseDuration(text)
	}
	days, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(days) || strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+") {
		return 0, errNotDuration
	}
	var more time.Duration
	if rest != "" {
		if more, err = time.ParseDuration(rest); err != nil {
			return 0, errNotDuration
		}
	}
	if strings.HasPrefix(number, "-") {
		more = -more
	}
	sum := days*float64(24*time.Hour) + float64(more)
	if math.Abs(sum) >= math.MaxInt64 {
		return 0, errNotDuration
	}
	return time.Duration(days*float64(24*time.Hour)) + more, nil
}

// Std is the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String leaves out the parts that are zero: "24h", not "24h0m0s".
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText writes the duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON accepts the syntax of ParseDuration only: the unit of a bare number would be a
// guess.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return errNotDuration
	}
	parsed, err := ParseDuration(text)
	if err != nil {
		return errNotDuration
	}
	*d = Duration(parsed)
	return nil
}

var errNotDuration = errors.New(`is not a duration such as "90s", "1h30m" or "30d"`)
