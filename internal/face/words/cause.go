package words

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/insight"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// Change is a change of an endpoint that may explain later failures.
type Change struct {
	At   time.Time
	What string // a plain phrase: "its secret was rotated"
}

// near is how long before its first failure a change may lie that is named with a moment.
const near = 15 * time.Minute

// Cause says a cause in plain words, with both rates. A change shortly before the first failure
// is named with it.
func Cause(of *insight.Cause, changes []Change) string {
	c := cause{of}
	switch c.Kind {
	case insight.Outage:
		return fmt.Sprintf("%s between %s and %s (%s), and it went by itself: the receiver was restarted or deployed, or its network was away.",
			c.most(), second(c.From), second(c.To), c.To.Sub(c.From).Round(time.Second))
	case insight.TimeLimit:
		return fmt.Sprintf("%s failures %sended after %s, and %s successes took as long: a time limit of the receiver or of a gateway in front of it.",
			share(c.Failed, c.Failures), c.of(), c.Value, c.rest())
	case insight.Since:
		return fmt.Sprintf("%s since %s%s.", c.most(), second(c.From), before(c.From, changes))
	default:
		return fmt.Sprintf("%s failures %s%s, and %s successes.", share(c.Failed, c.Failures), c.of(), c.with(), c.rest())
	}
}

// cause has the parts of that sentence.
type cause struct{ *insight.Cause }

// most says how many of the failures are in a span.
func (c cause) most() string {
	return share(c.Failed, c.Failures) + " failures " + c.of() + "are"
}

// withValue are the words before the value that failures have in common.
var withValue = map[insight.Kind]string{
	insight.Secret: "were signed with the secret ", insight.Certificate: "met the certificate ", insight.Address: "went to the address ",
	insight.Endpoint: "are of the endpoint ", insight.Settings: "were made with the endpoint's settings of revision ",
	insight.Type: "are events of type ",
}

// with says what failures are associated with.
func (c cause) with() string {
	switch text, known := withValue[c.Kind]; {
	case known:
		return text + c.Value
	case c.Kind == insight.Size:
		return "have a body of " + say.Bytes(c.Bytes) + " or more"
	case c.Value == insight.Absent:
		return "have no field data." + c.Name
	}
	return "have data." + c.Name + " = " + c.Value
}

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

func second(t time.Time) string { return t.UTC().Format("2 Jan 15:04:05") + " UTC" }

// of says which failures were compared; empty: all.
func (c cause) of() string {
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
	return fmt.Sprintf("%s %% of the %d", say.Percent(int64(n), int64(of)), of)
}

// rest is how many of the successes have the same.
func (c cause) rest() string {
	if c.Delivered == 0 {
		return fmt.Sprintf("none of the %d", c.Successes)
	}
	return fmt.Sprintf("%s %% of the %d", say.Percent(int64(c.Delivered), int64(c.Successes)), c.Successes)
}
