package engine

import (
	"time"
)

// forgetEvery is how often answers of idempotency keys that have expired are deleted, forgetPage how many in one transaction.
const (
	forgetEvery = time.Minute
	forgetPage  = 1000
)

// keepHouse deletes what has expired, until the engine stops.
func (e *Engine) keepHouse() {
	tick := time.NewTicker(forgetEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-e.over:
			return
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
