package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// chores carries out the effects that are neither attempts nor changes. The queue has no bound of its own: the core has at
// most one load and one end under way for each endpoint.
type chores struct {
	e      *Engine
	mu     sync.Mutex
	ready  *sync.Cond
	queue  []core.Effect
	closed bool
	pulses chan *pulse // one for each worker
}

func newChores(e *Engine) *chores {
	c := &chores{e: e, pulses: make(chan *pulse, e.bounds.Recorder.Workers)}
	for range e.bounds.Recorder.Workers {
		c.pulses <- e.pulse("chores")
	}
	c.ready = sync.NewCond(&c.mu)
	return c
}

func (c *chores) add(effect core.Effect) {
	c.mu.Lock()
	c.queue = append(c.queue, effect)
	c.mu.Unlock()
	c.ready.Signal()
}

// close makes the workers return; what is still queued can be done after a restart as well.
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
		case core.Forget, core.Disable: // these wait until all nodes know, which may take a lease
		default:
			c.e.work(pulse)
		}
		c.e.chore(effect)
		pulse.rest()
	}
}

func (e *Engine) chore(effect core.Effect) {
	ctx := e.sending
	switch effect := effect.(type) {
	case core.Load:
		ctx, cancel := e.reading(ctx)
		heads, err := e.store.Heads(ctx, effect.Endpoint, effect.Limit)
		cancel()
		e.complain("read what waits", effect.Endpoint, err)
		e.send(core.Loaded{Endpoint: effect.Endpoint, Heads: heads, Limit: effect.Limit, Err: err})
	case core.End:
		effect.Ending.Epoch = e.shards.epoch(effect.Endpoint)
		n, err := e.end(ctx, effect)
		e.noteSeal(effect.Endpoint, errors.Is(err, store.ErrFencedBySeal))
		e.complain("end what waits", effect.Endpoint, err)
		e.send(core.Ended{Endpoint: effect.Endpoint, Count: n, Err: err})
	case core.Hasten:
		effect.Hastening.Epoch = e.shards.epoch(effect.Endpoint)
		n, err := e.store.Hasten(ctx, effect.Endpoint, effect.Hastening, effect.Limit)
		e.noteSeal(effect.Endpoint, errors.Is(err, store.ErrFencedBySeal))
		e.complain("make due what waited", effect.Endpoint, err)
		e.send(core.Hastened{Endpoint: effect.Endpoint, Count: n, Err: err})
	case core.Forget:
		e.complain("forget a deleted endpoint", effect.Endpoint, e.forget(ctx, effect.Endpoint))
	case core.Disable:
		err := e.disable(ctx, effect)
		e.complain("disable", effect.Endpoint, err)
		e.send(core.Disabled{Endpoint: effect.Endpoint, Err: err})
	}
}

// end finishes what waits for an endpoint.
func (e *Engine) end(ctx context.Context, d core.End) (ended int, err error) {
	ep := e.config.Load().at(d.Endpoint)
	d.Ending.Uncounted = ep != nil && ep.Quiet()
	e.pending.begin()
	ended, err = e.store.End(ctx, d.Endpoint, d.Ending, d.Limit)
	var gone []share
	if ep != nil {
		gone = plus(nil, ep.Tenant, -int64(ended))
	}
	e.pending.end(nil, gone, err)
	return ended, err
}

// complain logs a chore's failure. The core tries again; what is to be forgotten is at the next start.
func (e *Engine) complain(what, endpoint string, err error) {
	if err != nil && e.sending.Err() == nil {
		e.log.Error("could not "+what, "endpoint", endpoint, "error", err)
	}
}

// disable makes durable that the core has disabled an endpoint. An operator may change the endpoint at the same moment,
// so the newest revision is what gets disabled.
func (e *Engine) disable(ctx context.Context, d core.Disable) error {
	for {
		ep, ok := e.Endpoint(store.Everyone(), d.Endpoint)
		if !ok || ep.Status == grapnel.EndpointDisabled {
			return nil
		}
		now := e.now()
		ep.Status, ep.DisabledReason, ep.DisabledAt, ep.UpdatedAt = grapnel.EndpointDisabled, d.Reason, now, now
		_, err := e.PutEndpoint(ctx, store.Everyone(), ep, store.With{Audit: &grapnel.AuditEntry{
			At: ep.UpdatedAt, Tenant: ep.Tenant, Actor: grapnel.ActorItself, Verb: grapnel.VerbDisable, Endpoint: ep.ID, Reason: d.Reason,
		}})
		if grapnel.CodeOf(err) != grapnel.CodeConflict {
			return err
		}
	}
}
