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
// Each Rest it forgets the events that were in memory a Rest ago, and memory may go back.
func (e *Engine) rest() {
	last := heapNow()
	for written := e.pending.written(); backoff.Wait(e.inputs.over, e.bounds.Rest); {
		e.events.age()
		now, writes := heapNow(), e.pending.written()
		if givesBack(writes-written, now.made-last.made, now.spare, &e.bounds) {
			debug.FreeOSMemory()
		}
		last, written = now, writes
	}
}

// givesBack says, after a Rest with this many writes that made this many bytes, whether the spare
// ones are collected and given back. Under load they would be needed again at once. So would they
// be while people look at pages: with 10,000 endpoints a collection takes 100 ms of a processor, and
// the next page would wait for its memory.
func givesBack(writes, made, spare int64, b *Bounds) bool {
	return writes < b.Restless && made < b.Made && spare >= b.Spare
}

// heap is how many bytes of the heap were ever made, and how many have no use: free ones that the
// process has all the same, and those of objects made since the last collection, most of which are
// garbage by now.
type heap struct{ made, spare int64 }

func heapNow() heap {
	is := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(is)
	of := func(i int) int64 { return int64(is[i].Value.Uint64()) }
	return heap{made: of(3), spare: of(0) + of(1) - of(2)}
}
