package engine

import (
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Retention says how long what is over is kept. The zero Retention keeps everything.
type Retention struct {
	For   time.Duration
	Rules []store.KeepRule // for a tenant or types; the first that matches says it instead
}

// What is old is purged a page at a time. Every page is a transaction, and while it lasts no outcome can be recorded; so pages are kept
// short, and between two of them others have four times as long for theirs.
const (
	leastPage = 200
	mostPage  = 2000
	longPage  = 40 * time.Millisecond
	shortPage = 10 * time.Millisecond
	othersGet = 4

	leastPause = 10 * time.Millisecond
	mostPause  = time.Second
	busyPause  = 2 * time.Second  // when others have to wait without us
	mostRest   = 10 * time.Minute // between two rounds, so that none of them is large
)

// every is how often to look for what is old. It is promised to be gone 20 seconds after its time, or a tenth of that time, if that is
// longer; half of it is left for removing it.
func (r Retention) every() time.Duration {
	shortest := r.For
	for _, rule := range r.Rules {
		shortest = min(shortest, rule.For)
	}
	return min(max(20*time.Second, shortest/10)/2, mostRest)
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
			e.purgeOnce()
		case <-e.over:
			return
		}
	}
}

// purgeOnce removes all that is old by now.
func (e *Engine) purgeOnce() {
	keep := store.Keep{Now: e.now(), For: e.keep.For, Rules: e.keep.Rules}
	began, removed, failures := e.now(), 0, 0
	for page := leastPage; ; {
		if e.isOver() {
			return
		}
		if !e.admission.calm() {
			e.wait(busyPause)
			continue
		}
		at := e.admission.clock()
		n, err := e.store.Purge(e.sending, keep, page)
		took := e.admission.clock().Sub(at)
		removed += n
		e.metrics.purged.Add(float64(n))
		switch {
		case err != nil && e.sending.Err() != nil:
			return
		case err != nil:
			failures++
			e.log.Error("what is older than it is kept could not be purged; it will be tried again", "error", err)
			e.wait(pause(failures))
			continue
		case n < page:
			if removed > 0 {
				e.log.Info("purged what was older than it is kept", "deliveries", removed, "took", e.now().Sub(began))
			}
			return
		}
		failures = 0
		if took > longPage {
			page = max(page/2, leastPage)
		} else if took < shortPage {
			page = min(page*2, mostPage)
		}
		e.wait(min(max(othersGet*took, leastPause), mostPause))
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
