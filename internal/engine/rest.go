package engine

import (
	"runtime/debug"
	"time"
)

// rest gives memory back after a load, until the engine stops. Go collects garbage when the heap
// has doubled, which is never while nothing happens, and then keeps most of the freed memory. So
// the most memory that a load needs would stay with the process.
//
// Each Rest it forgets the events that were in memory a Rest ago. A load is over when a Rest has
// less than a tenth of the writes that the busiest one had since memory was given back last.
func (e *Engine) rest() {
	tick := time.NewTicker(e.bounds.Rest)
	defer tick.Stop()
	last, busiest := e.pending.written(), int64(0)
	for {
		select {
		case <-tick.C:
		case <-e.inputs.over:
			return
		}
		e.events.age()
		now := e.pending.written()
		writes := now - last
		last, busiest = now, max(busiest, writes)
		if busiest >= e.bounds.RestWorth && 10*writes < busiest {
			busiest = writes
			debug.FreeOSMemory()
		}
	}
}

