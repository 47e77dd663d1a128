package engine

import (
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
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

// Healths returns the states of endpoints at one instant, with one question to the core; zero ones
// while the engine does not run.
func (e *Engine) Healths(ids []string) []grapnel.Health {
	all := e.OwnHealths(ids)
	e.shards.Healths(ids, all)
	return all
}

// OwnHealths is Healths of the endpoints that this node owns; the zero Health for others.
func (e *Engine) OwnHealths(ids []string) []grapnel.Health {
	all := make([]grapnel.Health, len(ids))
	if e.inputs.ask(context.Background(), func(c *core.Core, now time.Time) {
		for i, id := range ids {
			all[i] = c.Health(now, id)
		}
	}) != nil {
		return make([]grapnel.Health, len(ids))
	}
	return all
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
