package words

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/wire"
)

// Fails names the endpoint of an issue, and how it fails.
func Fails(i *wire.Issue, name string) string {
	return name + " " + hasDone(i.StatusCode, i.ErrorClass)
}

// Issue names the failure, its beginning, its counts and the issue's state. Name is the endpoint's.
func Issue(i *wire.Issue, name string) string {
	what := Fails(i, name)
	about := ""
	if i.Approximate { // keys are not more than deliveries, so they are no estimate alone
		about = "about "
	}
	failed := say.Many(i.Failures, "attempt", "attempts") + " of " + about + say.Many(i.Deliveries, "delivery", "deliveries") + " failed"
	again, all := "", ""
	if i.Regressions > 0 {
		again, all = ", after it was resolved", " in all"
	}
	text := fmt.Sprintf("%s since %s%s: %s%s, the last one on %s.", what, minute(&i.Since), again, failed, all, minute(&i.LastSeen))
	switch i.State {
	case "resolved":
		return fmt.Sprintf("Resolved on %s (%s). From %s until %s it was: %s; %s.", minute(i.ResolvedAt), i.Resolution,
			minute(&i.FirstSeen), minute(&i.LastSeen), what, failed)
	case "acknowledged":
		return text + " It is acknowledged."
	case "muted":
		return text + " It is muted until " + minute(i.MutedUntil) + "."
	}
	return text
}

func minute(t *time.Time) string { return t.UTC().Format("2 Jan 15:04") + " UTC" }
