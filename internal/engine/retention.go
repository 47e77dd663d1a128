package engine

import (
	"math"
	"time"

	"github.com/grapnelhq/grapnel/internal/backoff"
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
	shortest := r.For
	for _, rule := range r.Rules {
		shortest = min(shortest, rule.For)
	}
	return max(20*time.Second, shortest/10)
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

// purge deletes rows after their retention, until the engine stops.
func (k *keeper) purge() {
	if k.keep.For <= 0 {
		return
	}
	tick := time.NewTicker(k.keep.every())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if k.leads() {
				k.purgeOnce()
			}
		case <-k.over:
			return
		}
	}
}

// purgeOnce deletes all rows that are old now.
func (k *keeper) purgeOnce() {
	r := round{keeper: k, keep: store.Keep{Now: k.now(), For: k.keep.For, Rules: k.keep.Rules, Slack: wholeDays}, page: k.bounds.LeastPage}
	longest := k.keep.longest()
	old := store.Clearing{Replays: r.keep.Now.Add(-longest), Audit: r.keep.Now.Add(-max(longest, auditKept))}
	// This comes first, because Purge also truncates the log, which would otherwise still hold
	// these rows.
	if r.all(func(page int) (int, error) { return k.store.Clear(k.sending, old, page) }); r.removed > 0 {
		k.log.Info("old replays and audit entries deleted", "deleted", r.removed)
	}
	r.removed = 0
	r.all(func(page int) (int, error) {
		n, err := k.store.Purge(k.sending, r.keep, page)
		k.metrics.purged.Add(float64(n))
		return n, err
	})
	if r.removed > 0 && !k.isOver() {
		k.log.Info("old deliveries purged", "deliveries", r.removed, "took", k.now().Sub(r.keep.Now))
	}
}

// round is one round of purging.
type round struct {
	keeper  *keeper
	keep    store.Keep // its Now is the start of the round
	page    int
	removed int
}

// all deletes page after page until one is not full, or the engine stops.
func (r *round) all(remove func(page int) (int, error)) {
	k := r.keeper
	for failures := 0; !k.isOver(); {
		if !k.admission.calm() {
			backoff.Wait(k.over, busyPause)
			continue
		}
		at := k.admission.clock()
		n, err := remove(r.page)
		took := k.admission.clock().Sub(at)
		r.removed += n
		switch {
		case err != nil && k.sending.Err() != nil:
			return
		case err != nil:
			failures++
			k.log.Error("purge failed; retrying", "err", err)
			backoff.Wait(k.over, backoff.Store.After(failures))
			continue
		case n < r.page:
			return
		}
		failures = 0
		if took > longPage {
			r.page = max(r.page/2, k.bounds.LeastPage)
		} else if took < shortPage {
			r.page = max(min(r.page*2, k.bounds.MostPage), k.bounds.LeastPage)
		}
		backoff.Wait(k.over, k.keep.pause(took, k.now().Sub(r.keep.Now)))
	}
}

func (k *keeper) isOver() bool {
	select {
	case <-k.over:
		return true
	default:
		return false
	}
}
