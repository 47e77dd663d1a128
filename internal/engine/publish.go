package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Publish matches events against the endpoints of their tenants and commits them with their deliveries. When it returns
// without error all of it is durable. Events carry their id and acceptance time; Targets are filled in here. When there is more to do than
// the store can take, or a tenant has too much waiting, nothing is written and the error says when to come again.
func (e *Engine) Publish(ctx context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error) {
	kind := single
	if len(events) > 1 {
		kind = batch
	}
	if err := e.admission.enter(kind); err != nil {
		return store.Accepted{}, err
	}
	defer e.admission.leave()
	return e.append(ctx, kind, events, once, func(c *configuration) error {
		if err := c.allHere(events); err != nil {
			return err
		}
		for i := range events {
			events[i].Targets = c.match(events[i].Event, nil)
		}
		return nil
	})
}

// announce announces deliveries that are about to wait, or refuses them.
func (e *Engine) announce(kind work, expected ...share) error {
	if kind == asked {
		e.pending.begin(expected...)
		return nil
	}
	err := e.pending.reserve(expected)
	if err == nil {
		return nil
	}
	refusal := e.admission.refusal(kind, overQuota)
	refusal.Detail = err.Error()
	return refusal
}

// Test sends one event to one endpoint, whatever that subscribes to.
func (e *Engine) Test(ctx context.Context, scope store.Scope, endpoint string, ev *grapnel.Event, once *store.Once) (store.Accepted, error) {
	events := []store.Incoming{{Event: ev}}
	return e.append(ctx, asked, events, once, func(c *configuration) error {
		ep := c.endpoint(scope, endpoint)
		if ep == nil {
			return store.ErrNotFound("endpoint")
		}
		if ep.DropReason() != "" {
			return errDrops
		}
		if err := c.away(ep.Tenant); err != nil {
			return err
		}
		ev.Tenant = ep.Tenant
		events[0].Targets = []store.Target{{Endpoint: ep.ID, Trigger: grapnel.TriggerTest}}
		return nil
	})
}

// append commits events with the targets that match gives them, again if the configuration changes in between.
func (e *Engine) append(ctx context.Context, kind work, events []store.Incoming, once *store.Once,
	match func(*configuration) error) (store.Accepted, error) {
	for {
		config := e.config.Load()
		if err := match(config); err != nil {
			return store.Accepted{}, err
		}
		expected := expecting(events)
		if err := e.announce(kind, expected...); err != nil {
			return store.Accepted{}, err
		}
		began := e.admission.begin()
		accepted, err := e.store.Append(ctx, store.Batch{Config: config.version, Events: events, Once: once})
		e.admission.end(began, err)
		e.pending.end(expected, made(nil, events, accepted), err)
		if errors.Is(err, store.ErrStale) {
			if err := e.refreshed(ctx, config.version); err != nil {
				return accepted, err
			}
			continue
		}
		if err != nil || accepted.Answer != nil {
			return accepted, err
		}
		e.accepted(events, accepted)
		return accepted, nil
	}
}

// accepted hints at the heads of events that are durable now.
func (e *Engine) accepted(events []store.Incoming, accepted store.Accepted) {
	for i, placed := range accepted.Events {
		if !placed.Duplicate && !placed.Conflict && placed.Deliveries > 0 {
			e.events.put(placed.Seq, events[i].Event)
		}
		e.metrics.accepted(placed)
	}
	e.arrived(accepted.Heads)
}

// arrived hints at new heads: those of queues where consumers wait, the others to the core that decides about them.
func (e *Engine) arrived(heads []store.Head) {
	heads, queues := e.config.Load().pulled(heads)
	e.rouse(queues)
	if e.shards != nil {
		e.shards.rouse(queues)
		heads = e.shards.hint(heads)
	}
	if len(heads) > 0 {
		e.send(core.Arrived{Heads: heads})
	}
}

// pulled takes heads of queues out, and returns which those are.
func (c *configuration) pulled(heads []store.Head) (pushed []store.Head, queues []string) {
	if c.queues == 0 {
		return heads, nil
	}
	for i := range heads {
		if id := heads[i].Endpoint; !c.pulls(id) {
			pushed = append(pushed, heads[i])
		} else if !slices.Contains(queues, id) {
			queues = append(queues, id)
		}
	}
	return pushed, queues
}

func (c *configuration) pulls(endpoint string) bool {
	ep := c.at(endpoint)
	return ep != nil && ep.Queue != nil
}

// rouse tells those who wait at queues here that something may be due.
func (e *Engine) rouse(queues []string) {
	if e.ready == nil {
		return
	}
	for _, queue := range queues {
		e.ready(queue)
	}
}

// refreshed returns once the configuration is newer than a version that the store has called stale. Mostly somebody is between
// committing a change and publishing it here; if nobody is, a change was committed whose answer was lost.
func (e *Engine) refreshed(ctx context.Context, version int64) error {
	if err := e.lockConfig(ctx); err != nil {
		return err
	}
	defer e.unlockConfig()
	if e.config.Load().version != version {
		ctx, cancel := e.reading(context.WithoutCancel(ctx))
		defer cancel()
		return e.settle(ctx)
	}
	return e.resync(context.WithoutCancel(ctx))
}

// resync reads what has changed of the configuration, or all of it where the store cannot tell, and has the core take it in; the caller has
// locked the configuration. It has a deadline of its own: on a connection over which nothing comes any more the lock would be held for ever.
func (e *Engine) resync(ctx context.Context) error {
	ctx, cancel := e.reading(ctx)
	defer cancel()
	conf := e.config.Load()
	type changes struct {
		store.ConfigChanges
		complete bool
	}
	d, err := within(ctx, func() (d changes, err error) {
		d.ConfigChanges, d.complete, err = e.store.Changes(ctx, conf.version)
		return d, err
	})
	switch {
	case err != nil:
	case !d.complete:
		err = e.reload(ctx)
	case d.Version != conf.version:
		e.adopt(conf.next(d.ConfigChanges))
	}
	if err != nil {
		return err
	}
	return e.settle(ctx)
}
