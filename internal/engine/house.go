package engine

import (
	"time"
)

// keepHouse deletes answers that have expired, counts what is in doubt, and balances the books, until the engine stops.
func (e *Engine) keepHouse() {
	tick := time.NewTicker(e.bounds.Recorder.Tidy)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-e.over:
			return
		}
		e.incidents.count()
		if e.shards != nil {
			e.pending.doubt() // other nodes write as well
		}
		err := e.pending.recount(func() ([]share, error) { return e.countPending(e.sending) })
		if err != nil && e.sending.Err() == nil {
			e.log.Error("what waits could not be counted", "error", err)
		}
		for e.shards.leads() {
			n, err := e.store.Forget(e.sending, e.now(), e.bounds.Recorder.Forget)
			if err != nil && e.sending.Err() == nil {
				e.log.Error("expired answers could not be deleted", "error", err)
			}
			if err != nil || n < e.bounds.Recorder.Forget {
				break
			}
		}
		if e.shards.leads() {
			e.unlearn()
			e.balance()
		}
	}
}

// unlearn forgets what requests were known by, once their sources' windows are over, and removes what was set aside for as long as records
// are kept.
func (e *Engine) unlearn() {
	for {
		now := e.now()
		var before time.Time
		if e.keep.For > 0 {
			before = now.Add(-e.keep.For)
		}
		n, err := e.store.Unlearn(e.sending, now, before, e.bounds.Recorder.Forget)
		if err != nil && e.sending.Err() == nil {
			e.log.Error("what is known of old requests could not be forgotten", "error", err)
		}
		if err != nil || n < e.bounds.Recorder.Forget {
			return
		}
	}
}

// balance asks whether every delivery that was made is still accounted for.
func (e *Engine) balance() {
	off, err := e.store.Imbalance(e.sending)
	switch {
	case err != nil && e.sending.Err() == nil:
		e.log.Error("the deliveries' counts could not be compared", "error", err)
	case err != nil:
	default:
		e.metrics.imbalance.Set(float64(off))
		if off != 0 {
			e.log.Error("deliveries are missing or too many: those made are not those that wait, ended and were purged", "difference", off)
		}
	}
}
