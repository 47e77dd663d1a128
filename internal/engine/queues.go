package engine

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Queues. The core attempts nothing of an endpoint that is pulled: consumers take leases from the store (package queue), and what comes of
// them is recorded here, like the outcome of any other attempt.

// Queues returns those in scope, sorted by id.
func (e *Engine) Queues(scope store.Scope) []grapnel.Endpoint {
	conf := e.config.Load()
	if conf.queues == 0 {
		return nil
	}
	var all []grapnel.Endpoint
	for _, ep := range conf.endpoints {
		if ep.Queue != nil && ep.DeletedAt.IsZero() && scope.Allows(ep.Tenant) {
			all = append(all, ep.Endpoint)
		}
	}
	return all
}

// Settle records what became of leases, with all that is told of it. A change that did not apply has done nothing: its lease was over, or
// settled already.
func (e *Engine) Settle(ctx context.Context, changes []core.Change) ([]store.Changed, error) {
	all := make([]store.Changed, 0, len(changes))
	for {
		conf := e.config.Load()
		if slices.ContainsFunc(changes, func(ch core.Change) bool { return e.nameless(conf, &ch) }) {
			changes = slices.Clone(changes)
			e.name(changes)
		}
		_, err := e.record(conf, changes[len(all):], recorded{
			done: func(page []core.Change, is []store.Change, results []store.Changed) {
				e.after(page, is, results)
				all = append(all, results...)
			},
			stuck: func(ch core.Change, err error) {
				e.log.Error("lease cannot be recorded in any form; it stays as it is", "endpoint", ch.Endpoint, "delivery", named(&ch), "err", err)
				all = append(all, store.Changed{})
			},
		})
		if errors.Is(err, store.ErrStale) {
			if err = e.refreshed(context.WithoutCancel(ctx), conf.version); err == nil {
				continue
			}
		}
		if err != nil {
			e.metrics.recordFailures.Inc()
			return nil, err
		}
		return all, nil
	}
}

// hush makes a change of a quiet queue's delivery one that nobody notices, whatever led to it.
func (c *configuration) hush(ch *core.Change) {
	ep := c.at(ch.Endpoint)
	if ep == nil || !ep.Quiet() {
		return
	}
	ch.News, ch.Uncounted = nil, true
	if ch.Status == grapnel.Failed || ch.Blocked {
		ch.Status, ch.ReasonCode, ch.Blocked = grapnel.Discarded, grapnel.ReasonNone, false
		ch.Reason = "discarded, because the queue is quiet: " + strings.TrimPrefix(ch.Reason, "failed: ")
	}
}

// after goes on with changes that are durable.
func (e *Engine) after(page []core.Change, changes []store.Change, results []store.Changed) {
	e.metrics.recorded(page, results)
	e.ended(page, results)
	e.incidents.recorded(page, results)
	conf := e.config.Load()
	var queues []string
	for i := range results {
		e.told(changes[i].Tell, results[i].Told)
		if results[i].Foreign {
			e.foreign(grapnel.DeliveryID(changes[i].Identity.CreatedAt, changes[i].Delivery), page[i].Endpoint)
		}
		if id := page[i].Endpoint; results[i].Next != nil && conf.queues > 0 && conf.pulls(id) && !slices.Contains(queues, id) {
			queues = append(queues, id)
		}
	}
	e.rouse(queues)
	if e.shards != nil {
		e.shards.rouse(queues)
	}
}

// Empty ends everything that is in a queue now as discarded, whoever has a lease, and says how many that were.
func (e *Engine) Empty(ctx context.Context, scope store.Scope, queue string, by grapnel.By) (int, error) {
	ep := e.config.Load().endpoint(scope, queue)
	if ep == nil || ep.Queue == nil {
		return 0, store.ErrNotFound("queue")
	}
	_, newest, err := e.store.Version(ctx)
	if err != nil {
		return 0, err
	}
	at := e.now()
	entry := grapnel.AuditEntry{At: at, Tenant: ep.Tenant, Actor: by.Actor, Verb: grapnel.VerbEmpty, Endpoint: ep.ID, Reason: by.Reason}
	if err := e.store.Note(ctx, entry); err != nil {
		return 0, err
	}
	ending := store.Ending{UpTo: newest, Status: grapnel.Discarded, Reason: "discarded: the queue was emptied", At: at}
	if by.Reason != "" {
		ending.Reason += ": " + by.Reason
	}
	for all := 0; ; {
		n, err := e.end(ctx, core.End{Endpoint: ep.ID, Ending: ending, Limit: e.bounds.Recorder.Empty})
		if all += n; err != nil || n < e.bounds.Recorder.Empty {
			return all, err
		}
	}
}
