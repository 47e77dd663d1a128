package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/send/catalogue"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// publisher stores events with their deliveries, and hints at the heads that these become.
type publisher struct {
	store     Store
	book      *configuration.Book
	shards    *ownership.Shards
	admission *admission
	pending   *pending
	pacing    *pacing
	rates     *rates
	filters   *filterWork
	types     *typeLimit
	schemas   *catalogue.Cache
	events    *cache
	metrics   *Metrics
	repeated  *duplicates
	log       *slog.Logger
	bounds    Bounds
	inputs    *inputs
	traces    *trace.Tracer
	ready     func(queue string) // nil, or called when a queue may have something due
}

// Publish matches events against the endpoints of their tenants and commits them with their
// deliveries. When it returns without error all of it is durable. Events carry their id and
// acceptance time; Publish fills in Targets. If the store is overloaded, or a tenant has too many
// pending deliveries or publishes too much, nothing is written and the error says when to retry.
func (p *publisher) Publish(ctx context.Context, events []store.Incoming, once *store.Once) (done store.Accepted, err error) {
	kind := single
	if len(events) > 1 {
		kind = batch
	}
	taken, err := p.rates.take(ctx, events)
	if err != nil {
		p.metrics.limited(kind, err)
		return store.Accepted{}, err
	}
	defer func() { p.rates.end(taken, events, done, err) }()
	p.pacing.wait(ctx, events[0].Event.Tenant)
	if err := p.admission.enter(kind); err != nil {
		p.types.tried(events, nil)
		return store.Accepted{}, err
	}
	defer p.admission.leave()
	return p.append(ctx, kind, events, once, func(c *configuration.Snapshot) error {
		if !slices.ContainsFunc(events, func(in store.Incoming) bool { return c.Filters(in.Event.Tenant) }) {
			return p.target(c, kind, events, nil)
		}
		pass := p.filters.pass(events[0].Event.Tenant)
		budget := match.NewBudget(ctx, p.bounds.Filters).Stepwise(pass.step)
		defer func() { pass.end(budget.Untold()) }()
		return p.target(c, kind, events, budget)
	})
}

// Quota is the limit of publishing of which a tenant has least left, at this node; nil: it has no
// limit.
func (p *publisher) Quota(tenant string) *grapnel.Quota { return p.rates.quota(tenant) }

// target sets the targets of events. The budget is nil if no tenant of theirs has filters.
func (p *publisher) target(c *configuration.Snapshot, kind work, events []store.Incoming, budget *match.Budget) error {
	for i := range events {
		targets, err := c.Match(events[i].Event, nil, budget)
		if errors.Is(err, match.ErrTooCostly) {
			return grapnel.Errorf(grapnel.CodeTooCostly, "The filters of the tenant's endpoints cost too much for this request. "+
				"Send fewer events at once, or make the filters simpler or fewer.")
		}
		if errors.Is(err, errFiltersBusy) {
			refusal := p.admission.refusal(kind, crowded)
			refusal.Detail = "Too many requests of the tenant wait for its endpoints' filters, which cost much work."
			return refusal
		}
		if err != nil {
			return err
		}
		events[i].Targets = targets
	}
	return nil
}

// Test sends one event to one endpoint, whatever it subscribes to, not before the delay has passed.
func (p *publisher) Test(ctx context.Context, scope store.Scope, endpoint string, ev *grapnel.Event, delay time.Duration,
	once *store.Once) (store.Accepted, error) {
	events := []store.Incoming{{Event: ev}}
	return p.append(ctx, asked, events, once, func(c *configuration.Snapshot) error {
		ep := c.Endpoint(scope, endpoint)
		if ep == nil {
			return store.ErrNotFound("endpoint")
		}
		if ep.DropReason() != "" {
			return errDrops
		}
		ev.Tenant = ep.Tenant
		events[0].Targets = []store.Target{{Endpoint: ep.ID, Trigger: grapnel.TriggerTest, Delay: delay}}
		return nil
	})
}

// append commits events with the targets that match gives them, and matches again if the
// configuration changes in between.
func (p *publisher) append(ctx context.Context, kind work, events []store.Incoming, once *store.Once,
	match func(*configuration.Snapshot) error) (accepted store.Accepted, err error) {
	spans := produce(p.traces, events)
	defer func() {
		p.types.tried(events, accepted.Events)
		spans.end(p.traces, events, accepted, err)
	}()
	added, err := p.types.refused(ctx, events)
	if err != nil {
		return store.Accepted{}, err
	}
	if len(added) > 0 {
		return store.Accepted{}, grapnel.Errorf(grapnel.CodeTooManyTypes, "The type %q %s.", events[added[0]].Event.Type, p.types.crowded())
	}
	for {
		config := p.book.Snapshot()
		if err := match(config); err != nil {
			return store.Accepted{}, err
		}
		for i := range events { // the store refuses a batch that was matched before its tenant's end
			if err := config.Accepts(events[i].Event.Tenant); err != nil {
				return store.Accepted{}, err
			}
		}
		expected := expecting(events)
		if err := p.admission.announce(p.pending, kind, expected...); err != nil {
			return store.Accepted{}, err
		}
		began := p.admission.begin()
		accepted, err = p.store.Append(ctx, store.Batch{Config: config.Version, Events: events, Once: once})
		p.admission.end(began, err)
		p.pending.end(expected, made(nil, events, accepted), err)
		if errors.Is(err, store.ErrStale) {
			if err := p.book.Refreshed(ctx, config.Version); err != nil {
				return accepted, err
			}
			continue
		}
		if err != nil {
			return store.Accepted{}, err
		}
		if accepted.Answer != nil {
			p.metrics.duplicates.WithLabelValues(stageKey).Inc()
			return accepted, nil
		}
		p.repeated.note(events, accepted.Events)
		p.accepted(events, accepted)
		if p.pacing.counts() {
			for _, s := range p.toMake(config, events, accepted.Events) {
				p.pacing.accepted(s.tenant, s.n)
			}
		}
		return accepted, nil
	}
}

// toMake counts the deliveries of accepted events that this node makes as soon as it can.
func (p *publisher) toMake(conf *configuration.Snapshot, events []store.Incoming, placed []store.Placed) (shares []share) {
	for i, is := range placed {
		if is.Duplicate || is.Conflict || !events[i].NotBefore.IsZero() {
			continue
		}
		n := int64(0)
		for _, target := range events[i].Targets {
			ep := conf.At(target.Endpoint)
			if target.Drop == "" && ep != nil && ep.Queue == nil && ep.Status == grapnel.EndpointEnabled && p.shards.Epoch(ep.ID) >= 0 {
				n++
			}
		}
		shares = plus(shares, events[i].Event.Tenant, n)
	}
	return shares
}

// accepted hints at the heads of events that are durable.
func (p *publisher) accepted(events []store.Incoming, accepted store.Accepted) {
	for i, placed := range accepted.Events {
		if !placed.Duplicate && !placed.Conflict && placed.Deliveries > 0 {
			p.events.put(placed.Seq, events[i].Event)
		}
		p.metrics.accepted(&events[i], placed)
	}
	p.arrived(accepted.Heads)
}

// arrived hints at new heads: those of queues to their consumers, the others to the core that owns
// their endpoint.
func (p *publisher) arrived(heads []store.Head) {
	heads, queues := p.book.Snapshot().Pulled(heads)
	p.wakeQueues(queues)
	p.shards.WakeQueues(queues)
	heads = p.shards.Hint(heads)
	if len(heads) > 0 {
		p.inputs.send(core.Arrived{Heads: heads})
	}
}

// wakeQueues notifies consumers on this node that their queue may have something due.
func (p *publisher) wakeQueues(queues []string) {
	if p.ready == nil {
		return
	}
	for _, queue := range queues {
		p.ready(queue)
	}
}

// operationalStored hints at operational events that are durable; done is nil if there are none.
func (p *publisher) operationalStored(tell *store.Batch, done *store.Accepted) {
	if done == nil {
		return
	}
	for i, placed := range done.Events {
		if placed.Conflict {
			p.log.Error("operational event dropped: its id is taken", "event", tell.Events[i].Event.ID, "type", tell.Events[i].Event.Type)
		}
	}
	p.accepted(tell.Events, *done)
}

// Hinted takes hints from another node.
func (p *publisher) Hinted(heads []store.Head, queues []string) {
	p.wakeQueues(queues)
	if len(heads) > 0 {
		p.inputs.send(core.Arrived{Heads: heads})
	}
}

// notes writes what publishes have noted, until the engine stops; then the rest.
func (p *publisher) notes() {
	for more := true; more; {
		more = backoff.Wait(p.repeated.over, p.bounds.Duplicates.Every)
		p.repeated.write()
		ctx, cancel := context.WithTimeout(context.Background(), p.bounds.Duplicates.Every)
		p.rates.write(ctx)
		cancel()
	}
}
