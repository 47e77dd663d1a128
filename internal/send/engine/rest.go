package engine

import (
	"runtime/debug"
	"runtime/metrics"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

// rest gives memory back after a load, until the engine stops. Go collects garbage when the heap
// has doubled, which is never while nothing happens, and then keeps most of the freed memory. So
// the most memory that a load needs would stay with the process.
//
// Each Rest it forgets the events that were in memory a Rest ago. If the Rest had few writes and
// there is Spare memory, the memory is collected and given back: it takes some milliseconds then,
// and under load it would be needed again at once.
func (e *Engine) rest() {
	for last := e.pending.written(); backoff.Wait(e.inputs.over, e.bounds.Rest); {
		e.events.age()
		now := e.pending.written()
		if now-last < e.bounds.Restless && spareMemory() >= e.bounds.Spare {
			debug.FreeOSMemory()
		}
		last = now
	}
}

// spareMemory is how many bytes of the heap have no use: free ones that the process has all the
// same, and those of objects made since the last collection, most of which are garbage by now.
func spareMemory() int64 {
	is := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(is)
	free, objects, live := is[0].Value.Uint64(), is[1].Value.Uint64(), is[2].Value.Uint64()
	return int64(free) + int64(objects) - int64(live)
}
