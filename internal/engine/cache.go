package engine

import (
	"sync"

	"github.com/grapnelhq/grapnel"
)

// cache keeps events that were just accepted, so that their first attempts need not read them back. It forgets the oldest
// first and never holds more than its bound.
//
// Of two events with one number it keeps the one that was put last: a store that went back to an earlier state
// gives a number again. Whoever gets an event compares it with the delivery (Engine.event).
type cache struct {
	mu    sync.Mutex
	limit int64
	bytes int64
	byseq map[int64]*grapnel.Event
	queue []int64 // the order of arrival
}

// cost is about what an event takes in memory.
func cost(ev *grapnel.Event) int64 {
	n := 512 + len(ev.Data) + len(ev.Key)
	for name, value := range ev.Metadata {
		n += 64 + len(name) + len(value)
	}
	return int64(n)
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, byseq: map[int64]*grapnel.Event{}}
}

func (c *cache) put(seq int64, ev *grapnel.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.byseq[seq]; old != nil {
		c.bytes -= cost(old) // it stays in its place in the queue, whose events have about the same age
	} else {
		c.queue = append(c.queue, seq)
	}
	c.byseq[seq] = ev
	c.bytes += cost(ev)
	for c.bytes > c.limit && len(c.queue) > 1 {
		old := c.queue[0]
		c.queue = c.queue[1:]
		c.bytes -= cost(c.byseq[old])
		delete(c.byseq, old)
	}
}

func (c *cache) get(seq int64) *grapnel.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byseq[seq]
}
