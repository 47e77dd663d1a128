package engine

import (
	"sync"

	"github.com/grapnelhq/grapnel"
)

// cache keeps events that were just accepted, so that their first attempts need not read them back. It forgets the oldest
// first and never holds more than its bound.
type cache struct {
	mu    sync.Mutex
	limit int64
	bytes int64
	byseq map[int64]*grapnel.Event
	queue []int64 // the order of arrival
}

// eventOverhead is about what an event costs besides its data.
const eventOverhead = 512

func newCache(limit int64) *cache {
	return &cache{limit: limit, byseq: map[int64]*grapnel.Event{}}
}

func (c *cache) put(seq int64, ev *grapnel.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byseq[seq] != nil {
		return
	}
	c.byseq[seq] = ev
	c.queue = append(c.queue, seq)
	c.bytes += eventOverhead + int64(len(ev.Data))
	for c.bytes > c.limit && len(c.queue) > 1 {
		old := c.queue[0]
		c.queue = c.queue[1:]
		c.bytes -= eventOverhead + int64(len(c.byseq[old].Data))
		delete(c.byseq, old)
	}
}

func (c *cache) get(seq int64) *grapnel.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byseq[seq]
}
