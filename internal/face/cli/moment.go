package cli

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/policy"
)

// Moment is a flag for a point in time: RFC 3339, or how long ago it was.
type Moment struct {
	time.Time
	past bool // a time in the future is refused: a range that begins there is empty
}

// Past refuses times in the future.
func (m *Moment) Past() *Moment {
	m.past = true
	return m
}

// Set reads the text form.
func (m *Moment) Set(text string) error {
	now := time.Now()
	var at time.Time
	if ago, err := policy.ParseDuration(text); err != nil {
		if at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return errors.New("write 2026-01-31T12:00:00Z, or 6h or 7d for that long ago")
		}
	} else if at = now.Add(-ago); ago < 0 {
		return errors.New("a negative duration is in the future; write 6h for six hours ago")
	}
	if m.past && at.After(now) {
		return errors.New("a range cannot begin in the future")
	}
	m.Time = at
	return nil
}

func (m *Moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.UTC().Format(time.RFC3339Nano)
}

// Type names the kind of value in help texts.
func (*Moment) Type() string { return "time" }

// Ahead is a flag for a time to come: a time, or a duration from now.
type Ahead struct{ time.Time }

// Set reads the text form.
func (a *Ahead) Set(text string) (err error) {
	if wait, e := policy.ParseDuration(text); e == nil && wait >= 0 {
		a.Time = time.Now().Add(wait)
	} else if a.Time, err = time.Parse(time.RFC3339Nano, text); err != nil {
		err = errors.New("write 2026-01-31T12:00:00Z, or 6h or 7d for that long from now")
	}
	return err
}

func (a *Ahead) String() string { return (&Moment{Time: a.Time}).String() }

// Type names the kind of value in help texts.
func (*Ahead) Type() string { return "time|duration" }

// Pointer is nil for a flag that was not given.
func (a *Ahead) Pointer() *time.Time { return (&Moment{Time: a.Time}).Pointer() }

// Pointer is nil for a flag that was not given.
func (m *Moment) Pointer() *time.Time {
	if m.IsZero() {
		return nil
	}
	return &m.Time
}

// namesOfTimes are the two names of the begin and of the end of a range.
var namesOfTimes = map[string]string{"from": "since", "since": "from", "to": "until", "until": "to"}

// NamesOfTimes lets a flag for a time be given by its other name too.
func NamesOfTimes(flags *pflag.FlagSet, name string) pflag.NormalizedName {
	flags.VisitAll(func(f *pflag.Flag) { // Lookup would ask this function again
		if f.Value.Type() == "time" && namesOfTimes[f.Name] == name {
			name = f.Name
		}
	})
	return pflag.NormalizedName(name)
}
