package engine

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/configuration"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/match"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Publish matches events against the endpoints of their tenants and commits them with their
// deliveries. When it returns without error all of it is durable. Events carry their id and
// acceptance time; Publish fills in Targets. If the store is overloaded, or a tenant has too many
// pending deliveries, nothing is written and the error says when to retry.
func (e *Engine) Publish(ctx context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error) {
	kind := single
	if len(events) > 1 {
		kind = batch
	}
	if err := e.admission.enter(kind); err != nil {
		return store.Accepted{}, err
	}
	defer e.admission.leave()
	return e.append(ctx, kind, events, once, func(c *configuration.Snapshot) error {
		if err := c.AllHere(events); err != nil {
			return err
		}
		pass := e.filters.pass(events[0].Event.Tenant)
		budget := match.NewBudget(ctx, e.bounds.Filters).Stepwise(pass.step)
		defer func() { pass.end(budget.Untold()) }()
		for i := range events {
			targets, err := c.Match(events[i].Event, nil, budget)
			if errors.Is(err, match.ErrTooCostly) {
				return grapnel.Errorf(grapnel.CodeTooCostly, "The filters of the tenant's endpoints cost too much for this request. "+
					"Send fewer events at once, or make the filters simpler or fewer.")
			}
			if errors.Is(err, errFiltersBusy) {
				refusal := e.admission.refusal(kind, crowded)
				refusal.Detail = "Too many requests of the tenant wait for its endpoints' filters, which cost much work."
				return refusal
			}
			if err != nil {
				return err
			}
			events[i].Targets = targets
		}
		return nil
	})
}

// Test sends one event to one endpoint, whatever it subscribes to.
func (e *Engine) Test(
	ctx context.Context,
	scope store.Scope,
	endpoint string,
	ev *grapnel.Event,
	once *store.Once,
) (store.Accepted, error) {
	events := []store.Incoming{{Event: ev}}
	return e.append(ctx, asked, events, once, func(c *configuration.Snapshot) error {
		ep := c.Endpoint(scope, endpoint)
		if ep == nil {
			return store.ErrNotFound("endpoint")
		}
		if ep.DropReason() != "" {
			return errDrops
		}
		if err := c.Away(ep.Tenant); err != nil {
			return err
		}
		ev.Tenant = ep.Tenant
		events[0].Targets = []store.Target{{Endpoint: ep.ID, Trigger: grapnel.TriggerTest}}
		return nil
	})
}

// append commits events with the targets that match gives them, and matches again if the
// configuration changes in between.
func (e *Engine) append(ctx context.Context, kind work, events []store.Incoming, once *store.Once,
	match func(*configuration.Snapshot) error) (store.Accepted, error) {
	for {
		config := e.Snapshot()
		if err := match(config); err != nil {
			return store.Accepted{}, err
		}
		expected := expecting(events)
		if err := e.admission.announce(e.pending, kind, expected...); err != nil {
			return store.Accepted{}, err
		}
		began := e.admission.begin()
		accepted, err := e.store.Append(ctx, store.Batch{Config: config.Version, Events: events, Once: once})
		e.admission.end(began, err)
		e.pending.end(expected, made(nil, events, accepted), err)
		if errors.Is(err, store.ErrStale) {
			if err := e.Book.Refreshed(ctx, config.Version); err != nil {
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

// accepted hints at the heads of events that are durable.
func (e *Engine) accepted(events []store.Incoming, accepted store.Accepted) {
	for i, placed := range accepted.Events {
		if !placed.Duplicate && !placed.Conflict && placed.Deliveries > 0 {
			e.events.put(placed.Seq, events[i].Event)
		}
		e.metrics.accepted(placed)
	}
	e.arrived(accepted.Heads)
}

// arrived hints at new heads: those of queues to their consumers, the others to the core that owns
// their endpoint.
func (e *Engine) arrived(heads []store.Head) {
	heads, queues := e.Snapshot().Pulled(heads)
	e.rouse(queues)
	e.shards.Rouse(queues)
	heads = e.shards.Hint(heads)
	if len(heads) > 0 {
		e.send(core.Arrived{Heads: heads})
	}
}

// rouse notifies consumers on this node that their queue may have something due.
func (e *Engine) rouse(queues []string) {
	if e.ready == nil {
		return
	}
	for _, queue := range queues {
		e.ready(queue)
	}
}
