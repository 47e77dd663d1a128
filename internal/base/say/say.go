// Package say writes numbers and durations as people read them. Pages, API, command line, alerts
// and status page call the same functions, so one value reads the same everywhere. It is pure.
package say

import (
	"fmt"
	"strconv"
	"strings"
	"time"
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

// AtLeast is a number with its noun at the beginning of a sentence; more says that it is a lower
// bound.
func AtLeast[N ~int | ~int64](n N, more bool, one, many string) string {
	if more {
		return "At least " + Many(n, one, many)
	}
	return Many(n, one, many)
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

// Capped is a number that may be a lower bound.
func Capped[N ~int | ~int64](n N, more bool) string {
	if more {
		return Count(n) + "+"
	}
	return Count(n)
}

// Cut is a text of which at most so many bytes are left, and of a character all or nothing.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Times is how often something happened: "once", "three times", "8 times".
func Times(n int) string {
	words := []string{"0 times", "once", "twice", "three times", "four times", "five times", "six times"}
	if n < len(words) {
		return words[n]
	}
	return Count(n) + " times"
}

// Bytes is a size: "512 bytes", "1.5 KiB", "20 GiB".
func Bytes(n int) string {
	if n < 1024 {
		return Many(n, "byte", "bytes")
	}
	size, unit := float64(n)/1024, 0
	for units := []string{" KiB", " MiB", " GiB", " TiB"}; ; unit++ {
		if size < 1024 || unit == len(units)-1 {
			return strings.TrimSuffix(strconv.FormatFloat(size, 'f', 1, 64), ".0") + units[unit]
		}
		size /= 1024
	}
}
