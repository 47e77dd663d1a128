package engine

import (
	"math"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Retention says how long what is over is kept. The zero Retention keeps everything.
type Retention struct {
	For   time.Duration
	Rules []store.KeepRule // for a tenant or types; the first that matches says it instead
}

// What is old is purged a page at a time. Every page is several transactions, and while one lasts no outcome can be recorded. So pages are
// kept short, and between two of them others have so many times as long for theirs that fewer than one in a hundred finds us in its way.
// That is too slow for much that is old and has to be gone soon: the longer a round lasts, the less others get, down to inHaste.
const (
	longPage  = 40 * time.Millisecond
	shortPage = 10 * time.Millisecond

	atLeisure = 199
	inHaste   = 4

	leastPause = 10 * time.Millisecond
	mostPause  = 10 * time.Second
	wholeDays  = 24 * time.Hour   // what a store may be late with that removes a day at once
	busyPause  = 2 * time.Second  // when others have to wait without us
	mostRest   = 10 * time.Minute // between two rounds, so that none of them is large
)

// auditKept is how long it is told who did what, if full records are not kept for longer.
const auditKept = 365 * 24 * time.Hour

// longest is how long the last of what became over at a moment is kept. A replay is kept as long, so that its report is there while
// what it tells of is.
func (r Retention) longest() time.Duration {
	longest := r.For
	for _, rule := range r.Rules {
		longest = max(longest, rule.For)
	}
	return longest
}

// promised is how long after its time the last of what is old is gone.
func (r Retention) promised() time.Duration {
	shortest := r.For
	for _, rule := range r.Rules {
		shortest = min(shortest, rule.For)
	}
	return max(20*time.Second, shortest/10)
}

// every is how often to look for what is old. Half of the time in which it is promised to be gone is left for removing it.
func (r Retention) every() time.Duration { return min(r.promised()/2, mostRest) }

// pause is how long others get after a page that took so long, in a round that has lasted so long.
func (r Retention) pause(took, lasted time.Duration) time.Duration {
	patience := r.promised() / 8
	hurry := min(max(0, lasted.Seconds()/patience.Seconds()), 1)
	times := atLeisure * math.Pow(float64(inHaste)/atLeisure, hurry)
	return min(max(time.Duration(times*float64(took)), leastPause), mostPause, patience/4)
}

// purge removes what is older than it is kept, until the engine stops.
func (e *Engine) purge() {
	if e.keep.For <= 0 {
		return
	}
	tick := time.NewTicker(e.keep.every())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if e.shards.leads() {
				e.purgeOnce()
			}
		case <-e.over:
			return
		}
	}
}

// purgeOnce removes all that is old by now.
func (e *Engine) purgeOnce() {
	r := round{engine: e, keep: store.Keep{Now: e.now(), For: e.keep.For, Rules: e.keep.Rules, Slack: wholeDays}, page: e.bounds.Recorder.LeastPage}
	longest := e.keep.longest()
	old := store.Clearing{Replays: r.keep.Now.Add(-longest), Audit: r.keep.Now.Add(-max(longest, auditKept))}
	// Before what is purged, because purging cuts off the log, where these would be as well.
	if r.all(func(page int) (int, error) { return e.store.Clear(e.sending, old, page) }); r.removed > 0 {
		e.log.Info("cleared replays and audit entries that were kept for long enough", "removed", r.removed)
	}
	r.removed = 0
	r.all(func(page int) (int, error) {
		n, err := e.store.Purge(e.sending, r.keep, page)
		e.metrics.purged.Add(float64(n))
		return n, err
	})
	if r.removed > 0 && !e.isOver() {
		e.log.Info("purged what was older than it is kept", "deliveries", r.removed, "took", e.now().Sub(r.keep.Now))
	}
}

// round is one time of removing what is old.
type round struct {
	engine  *Engine
	keep    store.Keep // its Now is when it began
	page    int
	removed int
}

// all removes page after page until one is not full, or the engine stops.
func (r *round) all(remove func(page int) (int, error)) {
	e := r.engine
	for failures := 0; !e.isOver(); {
		if !e.admission.calm() {
			e.wait(busyPause)
			continue
		}
		at := e.admission.clock()
		n, err := remove(r.page)
		took := e.admission.clock().Sub(at)
		r.removed += n
		switch {
		case err != nil && e.sending.Err() != nil:
			return
		case err != nil:
			failures++
			e.log.Error("what is older than it is kept could not be removed; it will be tried again", "error", err)
			e.wait(pause(failures))
			continue
		case n < r.page:
			return
		}
		failures = 0
		if took > longPage {
			r.page = max(r.page/2, e.bounds.Recorder.LeastPage)
		} else if took < shortPage {
			r.page = max(min(r.page*2, e.bounds.Recorder.MostPage), e.bounds.Recorder.LeastPage)
		}
		e.wait(e.keep.pause(took, e.now().Sub(r.keep.Now)))
	}
}

func (e *Engine) isOver() bool {
	select {
	case <-e.over:
		return true
	default:
		return false
	}
}
