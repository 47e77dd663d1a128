package policy

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Duration is a time.Duration that is a Go duration string in JSON: "1h30m".
type Duration time.Duration

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

// UnmarshalJSON takes a Go duration string and nothing else: a bare number would leave its unit to guesswork.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return errNotDuration
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return errNotDuration
	}
	*d = Duration(parsed)
	return nil
}

var errNotDuration = errors.New(`is not a duration such as "90s" or "1h30m"`)
