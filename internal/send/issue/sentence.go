package issue

import (
	"fmt"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// says are the failures of a class, as something that an endpoint has done.
var says = map[policy.Class]string{
	policy.ClassDNS: "has had a name that cannot be resolved", policy.ClassConnect: "has refused connections",
	policy.ClassTLS: "has failed in the TLS handshake", policy.ClassTimeout: "has not answered in time",
	policy.ClassReset: "has broken connections off", policy.ClassProtocol: "has answered with something that is not HTTP",
	policy.ClassBlocked: "has had an address that is not allowed", ClassOther: "has failed in further ways",
}

// What says what the endpoint does, without its name: "has answered with status 503".
func (i *Issue) What() string {
	switch said := says[i.Class]; {
	case i.Status > 0:
		return "has answered with status " + strconv.Itoa(i.Status)
	case said != "":
		return said
	default:
		return "has failed with the error " + string(i.Class)
	}
}

// Sentence names the failure, its beginning, its counts and the issue's state. Name is the
// endpoint's.
func (i *Issue) Sentence(name string, now time.Time) string {
	n, _, _ := i.Affected()
	about := ""
	if _, estimate := i.Deliveries.count(); estimate {
		about = "about "
	}
	text := fmt.Sprintf("%s %s since %s: %s of %s%s failed, the last one on %s.", name, i.What(), clock(i.Began()),
		many(i.Count, "attempt", "attempts"), about, many(int64(n), "delivery", "deliveries"), clock(i.Last))
	if i.Regressions > 0 {
		text = fmt.Sprintf("%s %s since %s, after it was resolved: %s of %s%s failed in all, the last one on %s.", name, i.What(),
			clock(i.Began()), many(i.Count, "attempt", "attempts"), about, many(int64(n), "delivery", "deliveries"), clock(i.Last))
	}
	switch i.At(now) {
	case Resolved:
		return fmt.Sprintf("Resolved on %s (%s). From %s until %s it was: %s %s; %s of %s%s failed.", clock(i.ResolvedAt), i.Resolution,
			clock(i.First), clock(i.Last), name, i.What(), many(i.Count, "attempt", "attempts"), about, many(int64(n), "delivery", "deliveries"))
	case Acknowledged:
		return text + " It is acknowledged."
	case Muted:
		return text + " It is muted until " + clock(i.MutedUntil) + "."
	}
	return text
}

func clock(t time.Time) string { return t.UTC().Format("2 Jan 15:04") + " UTC" }

func many(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + more
}
