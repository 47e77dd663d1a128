package insight

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// near is how long before its first failure a change may lie that is named with a moment.
const near = 15 * time.Minute

// Sentence says a cause in plain words, with both rates. A change shortly before the first failure
// is named with it.
func (c *Cause) Sentence(changes []Change) string {
	switch c.Kind {
	case Outage:
		return fmt.Sprintf("%s between %s and %s (%s), and it went by itself: the receiver was restarted or deployed, or its network was away.",
			c.most(), clock(c.From), clock(c.To), c.To.Sub(c.From).Round(time.Second))
	case TimeLimit:
		return fmt.Sprintf("%s failures %sended after %s, and %s successes took as long: a time limit of the receiver or of a gateway in front of it.",
			share(c.Failed, c.Failures), c.of(), c.Value, c.rest())
	case Since:
		return fmt.Sprintf("%s since %s%s.", c.most(), clock(c.From), before(c.From, changes))
	default:
		return fmt.Sprintf("%s failures %s%s, and %s successes.", share(c.Failed, c.Failures), c.of(), c.with(), c.rest())
	}
}

// most says how many of the failures are in a span.
func (c *Cause) most() string {
	return share(c.Failed, c.Failures) + " failures " + c.of() + "are"
}

// with says what failures are associated with.
func (c *Cause) with() string {
	switch c.Kind {
	case Secret:
		return "were signed with the secret " + c.Value
	case Certificate:
		return "met the certificate " + c.Value
	case Address:
		return "went to the address " + c.Value
	case Endpoint:
		return "are of the endpoint " + c.Value
	case Settings:
		return "were made with the endpoint's settings of revision " + c.Value
	case Type:
		return "are events of type " + c.Value
	case Size:
		return "have a body of " + bytes(c.Bytes) + " or more"
	}
	if c.Value == Absent {
		return "have no field " + path(c.Name)
	}
	return "have " + path(c.Name) + " = " + c.Value
}

func path(name string) string { return "data." + name }

// before names the last change that is close enough before a moment.
func before(at time.Time, changes []Change) string {
	var last *Change
	for i := range changes {
		if c := &changes[i]; !c.At.After(at) && at.Sub(c.At) <= near && (last == nil || c.At.After(last.At)) {
			last = c
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf(", %s after %s", at.Sub(last.At).Round(time.Second), last.What)
}

func clock(t time.Time) string { return t.UTC().Format("2 Jan 15:04:05") + " UTC" }

// of says which failures were compared; empty: all.
func (c *Cause) of() string {
	switch g := c.Group; {
	case g == nil:
		return ""
	case g.Status > 0:
		return fmt.Sprintf("with status %d ", g.Status)
	default:
		return fmt.Sprintf("with the error %s ", g.Class)
	}
}

// share is a part of a number, in words where it is all of it.
func share(n, of int) string {
	if n == of {
		return fmt.Sprintf("All %d", of)
	}
	return fmt.Sprintf("%s of the %d", percent(n, of), of)
}

// rest is how many of the successes have the same.
func (c *Cause) rest() string {
	if c.Delivered == 0 {
		return fmt.Sprintf("none of the %d", c.Successes)
	}
	return fmt.Sprintf("%s of the %d", percent(c.Delivered, c.Successes), c.Successes)
}

func percent(n, of int) string {
	return strings.TrimSuffix(Percent(float64(n)/float64(of)), ".0") + " %"
}

// Percent is a part with one digit; 0 only if it is none, 100 only if it is all.
func Percent(part float64) string {
	p := part * 100
	if 0 < part && part < 1 {
		p = min(max(p, 0.1), 99.9)
	}
	return strconv.FormatFloat(p, 'f', 1, 64)
}

func bytes(n int) string {
	if n < 1024 {
		return strconv.Itoa(n) + " bytes"
	}
	return strings.TrimSuffix(strconv.FormatFloat(float64(n)/1024, 'f', 1, 64), ".0") + " KiB"
}
