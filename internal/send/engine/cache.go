package engine

import (
	"sync"

	"github.com/grapnelhq/grapnel"
)

// cache holds events that were just accepted, so that their first attempts need not read them back.
// It evicts the oldest first and never holds more bytes than its limit, except for one event.
//
// Of two events with one row id it holds the later one: a store that was set back gives a row id a
// second time. Engine.event compares each event with the delivery before it is sent.
type cache struct {
	mu    sync.Mutex
	limit int64
	bytes int64
	byseq map[int64]*grapnel.Event
	queue []int64 // the order of arrival
	old   int     // events at the beginning of the queue that were there at the last age
}

// cost estimates the memory that an event takes.
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
		// it stays in its position in the queue: the events there are about as old
		c.bytes -= cost(old)
	} else {
		c.queue = append(c.queue, seq)
	}
	c.byseq[seq] = ev
	c.bytes += cost(ev)
	for c.bytes > c.limit && len(c.queue) > 1 {
		c.evict()
	}
}

// evict forgets the oldest event.
func (c *cache) evict() {
	oldest := c.queue[0]
	c.queue, c.old = c.queue[1:], max(0, c.old-1)
	c.bytes -= cost(c.byseq[oldest])
	delete(c.byseq, oldest)
}

// age forgets the events that were here at its last call: most are delivered, and the others are
// read from the store.
func (c *cache) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.old > 0 {
		c.evict()
	}
	c.old = len(c.queue)
	if c.old == 0 {
		c.byseq, c.queue = map[int64]*grapnel.Event{}, nil // a map never shrinks
	}
}

func (c *cache) get(seq int64) *grapnel.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byseq[seq]
}
