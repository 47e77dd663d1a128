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
// Each Rest it forgets the events that were in memory a Rest ago. If there is Spare memory after a
// load, the memory is collected and given back.
func (e *Engine) rest() {
	var lull lull
	for last := e.pending.written(); backoff.Wait(e.inputs.over, e.bounds.Rest); {
		e.events.age()
		now := e.pending.written()
		if lull.gives(now-last, &e.bounds) && spareMemory() >= e.bounds.Spare {
			debug.FreeOSMemory()
		}
		last = now
	}
}

// lull counts the Rests with few writes since one with many.
type lull int

// gives says, after a Rest with this many writes, whether memory goes back. Under load it would be
// needed again at once. The first two Rests of a lull give it back, because the last requests of a
// load may hold memory for one. Later ones are Again Rests apart: what pages and rounds leave is a
// little each time, and with many endpoints a collection takes 100 ms of a processor.
func (l *lull) gives(writes int64, b *Bounds) bool {
	if writes >= b.Restless {
		*l = 0
		return false
	}
	*l++
	return *l <= 2 || int(*l)%b.Again == 0
}

// spareMemory is how many bytes of the heap have no use: free ones that the process has all the
// same, and those of objects made since the last collection, most of which are garbage by now.
func spareMemory() int64 {
	is := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(is)
	free, objects, live := is[0].Value.Uint64(), is[1].Value.Uint64(), is[2].Value.Uint64()
	return int64(free) + int64(objects) - int64(live)
}
