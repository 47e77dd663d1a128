package web

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// moment is an instant on a page: relative to now in the text, absolute on hover.
type moment struct{ At, Now time.Time }

func (v *visit) at(t time.Time) moment { return moment{t, v.now} }

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

// Clock is the instant in UTC, short: with its day if that is not today.
func (m moment) Clock() string {
	at, now := m.At.UTC(), m.Now.UTC()
	switch {
	case at.YearDay() == now.YearDay() && at.Year() == now.Year():
		return at.Format("15:04:05")
	case at.Sub(now).Abs() < 6*24*time.Hour:
		return at.Format("Mon 15:04")
	}
	return at.Format("2 Jan 15:04")
}

// Relative is how long ago the instant was, or in how long it will be.
func (m moment) Relative() string {
	switch d := m.At.Sub(m.Now); {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return roughly(-d) + " ago"
	default:
		return "in " + spoken(d)
	}
}

// spoken is a duration in its two largest units: "4 min 12 s", "3 h", "2 days". The script on the
// page does the same.
func spoken(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 10*time.Minute:
		return units(d, time.Minute, "min", time.Second, "s")
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 10*time.Hour:
		return units(d, time.Hour, "h", time.Minute, "min")
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// roughly is a duration in its largest unit.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return spoken(d)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return spoken(d)
}

func units(d, large time.Duration, name string, small time.Duration, rest string) string {
	if left := d % large / small; left > 0 {
		return fmt.Sprintf("%d %s %d %s", d/large, name, left, rest)
	}
	return fmt.Sprintf("%d %s", d/large, name)
}

// took is how long something took, with the digits that matter.
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 ms"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Second && d >= time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return spoken(d)
}

// count is a number with a space between thousands.
func count[N ~int | ~int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// many is a number with its noun.
func many[N ~int | ~int64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + more
}

// percent is part of whole, with one digit; 100 only if it is all.
func percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	p := float64(part) / float64(whole) * 100
	if part < whole && p > 99.9 {
		p = 99.9
	}
	return strings.TrimSuffix(strconv.FormatFloat(p, 'f', 1, 64), ".0")
}

// list joins names as a sentence does.
func list(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// sentence begins with a capital and ends with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// pill is a state: its colour, its sign and its word.
type pill struct{ Tone, Word string }

// The tones of states. Each has a colour and a sign in app.css.
const (
	toneOK   = "ok"   // it went
	toneWait = "wait" // it will be tried again
	toneHold = "hold" // it waits in order
	toneBad  = "bad"  // an operator has to look
	toneNone = "none" // it ended, and no operator has to look
)

// deliveryPill is the state of a delivery. A pending one that was attempted is being retried.
func deliveryPill(status grapnel.Status, attempts int) pill {
	switch status {
	case grapnel.Delivered:
		return pill{toneOK, "delivered"}
	case grapnel.Failed:
		return pill{toneBad, "failed"}
	case grapnel.Held:
		return pill{toneHold, "held"}
	case grapnel.Pending:
		if attempts > 0 {
			return pill{toneWait, "retrying"}
		}
		return pill{toneWait, "pending"}
	}
	return pill{toneNone, string(status)}
}

// healthPill is the state of an endpoint.
func healthPill(state grapnel.HealthState) pill {
	switch state {
	case grapnel.HealthHealthy:
		return pill{toneOK, "healthy"}
	case grapnel.HealthFailing:
		return pill{toneWait, "failing"}
	case grapnel.HealthOpen:
		return pill{toneBad, "circuit open"}
	case grapnel.HealthRecovering:
		return pill{toneWait, "recovering"}
	case grapnel.HealthThrottled:
		return pill{toneWait, "throttled"}
	case grapnel.HealthPaused:
		return pill{toneHold, "paused"}
	case grapnel.HealthDisabled:
		return pill{toneBad, "disabled"}
	}
	return pill{toneNone, "unknown"}
}

// classes says in words what an attempt ended in. The number of the status comes before it.
var classes = map[string]string{
	"dns": "name not found", "connect": "connection refused", "tls": "TLS failed", "timeout": "timeout", "reset": "connection reset",
	"protocol": "not HTTP", "redirect": "redirect", "blocked": "address blocked",
}

// result is what an attempt ended in: its status, or what kept it from having one.
func result(status int, class string) string {
	if status != 0 {
		return strconv.Itoa(status)
	}
	if word := classes[class]; word != "" {
		return word
	}
	return class
}
