package engine

import (
	"math"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Retention says how long finished deliveries are retained. The zero Retention retains everything.
type Retention struct {
	For   time.Duration
	Rules []store.KeepRule // for a tenant or types; the first that matches replaces For
}

// Old rows are purged a page at a time. A page is several transactions, and no outcome can be
// recorded during one. So pages are short, and after each the purge pauses for atLeisure times as
// long as the page took: fewer than one commit in a hundred meets a purge. That is too slow if many
// rows are old and have to be deleted soon. So the longer a round lasts, the shorter the pauses
// become, down to inHaste times.
const (
	longPage  = 40 * time.Millisecond
	shortPage = 10 * time.Millisecond

	atLeisure = 199
	inHaste   = 4

	leastPause = 10 * time.Millisecond
	mostPause  = 10 * time.Second
	wholeDays  = 24 * time.Hour   // delay of a store that drops a whole day at once
	busyPause  = 2 * time.Second  // while the store is busy without the purge
	mostRest   = 10 * time.Minute // between two rounds, so that no round is large
)

// auditKept is the shortest retention of audit entries.
const auditKept = 365 * 24 * time.Hour

// documentsKept says how long documents of a kind are retained after their last write. The owner of
// a kind writes one that is still in use again before then. Other kinds are retained for ever, or
// deleted by their owner: an open alert has no write until it is resolved.
var documentsKept = []struct {
	kind string
	span time.Duration
}{
	{"issue", 90 * 24 * time.Hour},
	{store.DuplicatesKind, 90 * 24 * time.Hour},
	{"sli", 40 * 24 * time.Hour},
	{usageKind, 3 * 24 * time.Hour},
}

// longest is the longest retention of any delivery. A replay is retained as long, so that its
// report lasts as long as the deliveries it reports.
func (r Retention) longest() time.Duration {
	longest := r.For
	for _, rule := range r.Rules {
		longest = max(longest, rule.For)
	}
	return longest
}

// promised is the longest delay between expiry and removal.
func (r Retention) promised() time.Duration {
	keep := store.Keep{For: r.For, Rules: r.Rules}
	return max(20*time.Second, keep.Shortest()/10)
}

// every is the interval between two rounds. It is at most half of promised, so the other half is
// left for removing.
func (r Retention) every() time.Duration { return min(r.promised()/2, mostRest) }

// pause is the time left to others after a page, by the duration of the page and of the round so
// far.
func (r Retention) pause(took, lasted time.Duration) time.Duration {
	patience := r.promised() / 8
	hurry := min(max(0, lasted.Seconds()/patience.Seconds()), 1)
	times := atLeisure * math.Pow(float64(inHaste)/atLeisure, hurry)
	return min(max(time.Duration(times*float64(took)), leastPause), mostPause, patience/4)
}
