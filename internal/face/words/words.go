// Package words says numbers and states to people: durations, counts, deliveries, failures, issues,
// causes, the health of endpoints, and the verdict of an overview. API, dashboard and command line
// use it, so that they say the same about the same fact. It is pure: the time is an argument.
//
// It does not escape anything: names of endpoints come from outside.
package words

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Spoken is a duration in its two largest units: "4 min 12 s", "3 h", "2 days". The script on the
// page does the same.
func Spoken(d time.Duration) string {
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

// Roughly is a duration in its largest unit.
func Roughly(d time.Duration) string {
	switch {
	case d >= time.Hour:
		d = d.Truncate(time.Hour)
	case d >= time.Minute:
		d = d.Truncate(time.Minute)
	}
	return Spoken(d)
}

func units(d, large time.Duration, name string, small time.Duration, rest string) string {
	if left := d % large / small; left > 0 {
		return fmt.Sprintf("%d %s %d %s", d/large, name, left, rest)
	}
	return fmt.Sprintf("%d %s", d/large, name)
}

// Took is how long something took, with the digits that matter.
func Took(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 ms"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Second && d >= time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return Spoken(d)
}

// Count is a number with a space between thousands.
func Count[N ~int | ~int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// Many is a number with its noun.
func Many[N ~int | ~int64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + more
}

// Percent is part of whole, with one digit; 0 only if it is none, 100 only if it is all.
func Percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	return strings.TrimSuffix(Share(float64(part)/float64(whole)), ".0")
}

// Share is a share in percent, with one digit; 0 only if it is none, 100 only if it is all.
func Share(part float64) string {
	p := part * 100
	if 0 < part && part < 1 {
		p = min(max(p, 0.1), 99.9)
	}
	return strconv.FormatFloat(p, 'f', 1, 64)
}

// List joins names as a sentence does.
func List(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

var instant = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z`)

// Instants are the instants of a text as people write them: "23 Nov, 14:45 UTC" for
// 2026-11-23T14:45:29Z.
func Instants(text string) string {
	return instant.ReplaceAllStringFunc(text, func(written string) string {
		at, err := time.Parse(time.RFC3339, written)
		if err != nil {
			return written
		}
		return at.Format("2 Jan, 15:04 UTC")
	})
}

// Sentence begins with a capital, ends with a full stop, and has instants as people write them.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	text = Instants(text)
	_, size := utf8.DecodeRuneInString(text)
	text = strings.ToUpper(text[:size]) + text[size:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}
