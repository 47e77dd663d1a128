package web

import (
	"cmp"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// atOr is an instant that may be missing.
func (v *visit) atOr(t *time.Time) moment {
	if t == nil {
		return moment{Now: v.now}
	}
	return v.at(*t)
}

// Set says whether there is one.
func (m moment) Set() bool { return !m.At.IsZero() }

// ISO is the instant for programs, such as the script that keeps the text up to date.
func (m moment) ISO() string { return m.At.UTC().Format("2006-01-02T15:04:05.000Z") }

// Absolute is the instant in UTC.
func (m moment) Absolute() string { return m.At.UTC().Format("Mon 2 Jan 2006, 15:04:05 UTC") }

// Clock is the instant in UTC, short: with its day if that is not today, and with its year if that
// is not this one.
func (m moment) Clock() string {
	at, now := m.At.UTC(), m.Now.UTC()
	switch {
	case at.YearDay() == now.YearDay() && at.Year() == now.Year():
		return at.Format("15:04:05")
	case at.Sub(now).Abs() < 6*24*time.Hour:
		return at.Format("Mon 15:04")
	case at.Year() != now.Year():
		return at.Format("2 Jan 2006 15:04")
	}
	return at.Format("2 Jan 15:04")
}

// Relative is how long ago the instant was, or in how long it will be.
func (m moment) Relative() string {
	switch d := m.At.Sub(m.Now); {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return say.Roughly(-d) + " ago"
	default:
		return "in " + say.Spoken(d)
	}
}

// texts are names as plain texts.
func texts[S ~string](names []S) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	return all
}

// tally counts things, in the order in which they first came.
type tally[T comparable] struct {
	n     map[T]int
	order []T
}

func (t *tally[T]) add(one T) {
	if t.n == nil {
		t.n = map[T]int{}
	}
	if t.n[one]++; t.n[one] == 1 {
		t.order = append(t.order, one)
	}
}

// often has the most frequent first.
func (t *tally[T]) often() []T {
	slices.SortStableFunc(t.order, func(a, b T) int { return t.n[b] - t.n[a] })
	return t.order
}

// The tones of states. Each has a colour and a sign in app.css.
const (
	toneOK   = words.OK
	toneWait = words.Wait
	toneHold = words.Hold
	toneBad  = words.Bad
	toneNone = words.None
)

func deliveryPill(status grapnel.Status, attempts int) pill {
	return pill(words.Delivery(status, attempts))
}
func healthPill(state grapnel.HealthState) pill { return pill(words.Health(state)) }

// pillIn is the pill of a state in a table; one that is not in it has no tone.
func pillIn[S ~string](table map[S]pill, state S) pill {
	return cmp.Or(table[state], pill{toneNone, string(state)})
}
