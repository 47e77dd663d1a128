package engine

import (
	"context"
	"log/slog"
	"sync"

	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/send/core"
)

// chores carries out the effects that are neither attempts nor changes. The queue needs no bound of
// its own: the core has at most one load and one ending in progress for each endpoint.
type chores struct {
	store   Store
	book    *configuration.Book
	shards  *ownership.Shards
	log     *slog.Logger
	sending context.Context
	pending *pending
	metrics *Metrics

	send    func(core.Input) bool
	forget  func(ctx context.Context, endpoint string) error
	disable func(context.Context, core.Disable) error

	mu     sync.Mutex
	ready  *sync.Cond
	queue  []core.Effect
	closed bool
	pulses chan *ownership.Pulse // one for each worker
}

// open prepares the chores for their workers.
func (c *chores) open(workers int, dog *ownership.Watchdog) {
	c.ready = sync.NewCond(&c.mu)
	c.pulses = make(chan *ownership.Pulse, workers)
	for range workers {
		c.pulses <- dog.Pulse("chores")
	}
}

func (c *chores) add(effect core.Effect) {
	c.mu.Lock()
	c.queue = append(c.queue, effect)
	c.mu.Unlock()
	c.ready.Signal()
}

// close makes the workers return. Effects that are still queued are repeated after a restart.
func (c *chores) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.ready.Broadcast()
}

func (c *chores) run() {
	pulse := <-c.pulses
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && !c.closed {
			c.ready.Wait()
		}
		if c.closed {
			c.mu.Unlock()
			return
		}
		effect := c.queue[0]
		c.queue = c.queue[1:]
		c.mu.Unlock()
		switch effect.(type) {
		// these wait until all nodes know, up to the length of a lease
		case core.Forget, core.Disable:
		default:
			pulse.Work()
		}
		c.carryOut(effect)
		pulse.Rest()
	}
}

func (c *chores) carryOut(effect core.Effect) {
	ctx := c.sending
	switch effect := effect.(type) {
	case core.Load:
		ctx, cancel := c.shards.Reading(ctx)
		heads, err := c.store.Heads(ctx, effect.Endpoint, effect.Limit)
		cancel()
		c.complain("reading pending deliveries", effect.Endpoint, err)
		c.send(core.Loaded{Endpoint: effect.Endpoint, Heads: heads, Limit: effect.Limit, Err: err})
	case core.End:
		effect.Ending.Epoch = c.shards.Epoch(effect.Endpoint)
		n, err := c.end(ctx, effect)
		c.complain("finishing pending deliveries", effect.Endpoint, err)
		c.send(core.Ended{Endpoint: effect.Endpoint, Count: n, Err: err})
	case core.MakeDue:
		effect.MakingDue.Epoch = c.shards.Epoch(effect.Endpoint)
		n, err := c.store.MakeDue(ctx, effect.Endpoint, effect.MakingDue, effect.Limit)
		c.complain("making held deliveries due", effect.Endpoint, err)
		c.send(core.MadeDue{Endpoint: effect.Endpoint, Count: n, Err: err})
	case core.Forget:
		c.complain("removing a deleted endpoint", effect.Endpoint, c.forget(ctx, effect.Endpoint))
	case core.Disable:
		err := c.disable(ctx, effect)
		c.complain("disabling an endpoint", effect.Endpoint, err)
		c.send(core.Disabled{Endpoint: effect.Endpoint, Err: err})
	}
}

// end finishes pending deliveries of an endpoint.
func (c *chores) end(ctx context.Context, d core.End) (ended int, err error) {
	ep := c.book.Snapshot().At(d.Endpoint)
	d.Ending.Uncounted = ep != nil && ep.Uncounted()
	c.pending.begin()
	ended, err = c.store.End(ctx, d.Endpoint, d.Ending, d.Limit)
	var gone []share
	if ep != nil {
		gone = plus(nil, ep.Tenant, -int64(ended))
	}
	c.pending.end(nil, gone, err)
	c.metrics.ended(d.Ending.Status, ended)
	return ended, err
}

// complain logs a failed chore. The core asks for it again; a deleted endpoint is removed after the
// next start.
func (c *chores) complain(what, endpoint string, err error) {
	if err != nil && c.sending.Err() == nil {
		c.log.Error(what+" failed; trying again later", "endpoint", endpoint, "err", err)
	}
}
