package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Held returns the ids, sorted, of endpoints that get no scheduled attempts now: their circuit is
// open or they are not enabled. Probes and attempts on a person's request still run.
func (e *Engine) Held() []string {
	ids := append(e.OwnOpen(), e.shards.Open()...)
	for _, ep := range e.Snapshot().Endpoints() {
		if ep.Status != grapnel.EndpointEnabled {
			ids = append(ids, ep.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Healths returns the states of endpoints; zero ones while the engine does not run.
func (e *Engine) Healths(ids []string) []grapnel.Health {
	all := e.OwnHealths(ids)
	e.shards.Healths(ids, all)
	return all
}

// OwnHealths is Healths of the endpoints that this node owns; the zero Health for others.
func (e *Engine) OwnHealths(ids []string) []grapnel.Health {
	all := make([]grapnel.Health, 0, len(ids))
	for part := range slices.Chunk(ids, e.bounds.Healths) {
		if e.inputs.ask(context.Background(), func(c *core.Core, now time.Time) {
			for _, id := range part {
				all = append(all, c.Health(now, id))
			}
		}) != nil {
			return make([]grapnel.Health, len(ids))
		}
	}
	return all
}

// CountFirsts has the core judge which endpoints are degraded.
func (e *Engine) CountFirsts(failed map[string]core.Firsts) {
	e.inputs.send(core.Counted{Failed: failed})
}

// OwnOpen lists the endpoints of this node whose circuit is open.
func (e *Engine) OwnOpen() (ids []string) {
	// Without an answer the engine does not run, and attempts nothing.
	_ = e.inputs.ask(context.Background(), func(c *core.Core, _ time.Time) { ids = c.Open() })
	return ids
}

// Consumers lists the consumers that other nodes have seen at a queue.
func (e *Engine) Consumers(queue string) []grapnel.Consumer { return e.shards.Consumers(queue) }

// OwnConsumers lists those that this node has seen.
func (e *Engine) OwnConsumers(queue string) []grapnel.Consumer {
	if e.seen == nil {
		return nil
	}
	return e.seen(queue)
}

// Unable returns the reason for which single events are refused for longer than a moment: the disk
// is nearly full, or the store hangs. nil: neither. A slow store and a full quota are no such
// reasons.
func (e *Engine) Unable() error { return e.admission.unable() }

// FailedCommits is the number of commits that failed since one succeeded.
func (e *Engine) FailedCommits() int {
	e.admission.mu.Lock()
	defer e.admission.mu.Unlock()
	return e.admission.failed
}

// Moves returns an error if the engine's loop takes no turn before ctx ends. An engine that does
// not run yet takes none.
func (e *Engine) Moves(ctx context.Context) error {
	err := e.inputs.ask(ctx, func(*core.Core, time.Time) {})
	if errors.Is(err, errStopping) {
		return nil
	}
	return err
}

// Listening returns the enabled endpoints that would get an event, as of the configuration in
// memory.
func (e *Engine) Listening(ctx context.Context, ev *grapnel.Event) (all []*grapnel.Endpoint) {
	conf := e.Snapshot()
	for _, t := range targets(ctx, conf)(ev, nil) {
		if ep := conf.Endpoint(store.Of(ev.Tenant), t.Endpoint); ep != nil && ep.Queue == nil && ep.Status == grapnel.EndpointEnabled {
			all = append(all, ep)
		}
	}
	return all
}
