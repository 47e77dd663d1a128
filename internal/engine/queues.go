package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/configuration"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Queues. The core attempts no delivery of a pulled endpoint: consumers take leases from the store
// (package queue), and the outcomes are recorded here, like those of other attempts.

// Settle records the outcomes of leases. A change that did not apply had no effect: its lease had
// expired, or was settled already.
func (e *Engine) Settle(ctx context.Context, changes []core.Change) ([]store.Changed, error) {
	return e.recorder.settle(ctx, changes)
}

// hush removes the operational events and the counting from a change of a quiet queue's delivery. A
// failure becomes a discard.
func hush(c *configuration.Snapshot, ch *core.Change) {
	ep := c.At(ch.Endpoint)
	if ep == nil || !ep.Quiet() {
		return
	}
	ch.News, ch.Uncounted = nil, true
	if ch.Status == grapnel.Failed || ch.Blocked {
		ch.Status, ch.ReasonCode, ch.Blocked = grapnel.Discarded, grapnel.ReasonNone, false
		ch.Reason = "discarded because the queue is quiet:  " + strings.TrimPrefix(ch.Reason, "failed: ")
	}
}

// after passes durable changes on: to metrics, logs, replays and waiting consumers.
func (e *Engine) after(page []core.Change, changes []store.Change, results []store.Changed) {
	e.metrics.recorded(page, results)
	e.ended(page, results)
	e.incidents.recorded(page, results)
	conf := e.Snapshot()
	var queues []string
	for i := range results {
		e.told(changes[i].Tell, results[i].Told)
		if results[i].Foreign {
			e.foreign(e.ids.Delivery(changes[i].Identity.CreatedAt, changes[i].Delivery), page[i].Endpoint)
		}
		if id := page[i].Endpoint; results[i].Next != nil && conf.Pulling() && conf.Pulls(id) && !slices.Contains(queues, id) {
			queues = append(queues, id)
		}
	}
	e.rouse(queues)
	e.shards.Rouse(queues)
}
