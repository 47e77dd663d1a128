package engine

import (
	"time"
)

// tidyEvery is how often the house is kept, forgetPage how many answers of idempotency keys that have expired are deleted in one transaction.
const (
	tidyEvery  = time.Minute
	forgetPage = 1000
)

// keepHouse deletes what has expired and counts what is in doubt, until the engine stops.
func (e *Engine) keepHouse() {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-e.over:
			return
		}
		err := e.pending.recount(func() ([]share, error) { return e.countPending(e.sending) })
		if err != nil && e.sending.Err() == nil {
			e.log.Error("what waits could not be counted", "error", err)
		}
		for {
			n, err := e.store.Forget(e.sending, e.now(), forgetPage)
			if err != nil && e.sending.Err() == nil {
				e.log.Error("expired answers could not be deleted", "error", err)
			}
			if err != nil || n < forgetPage {
				break
			}
		}
	}
}
