package engine

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Targets returns the deliveries that an event creates: at the endpoints of its tenant that
// subscribe to it, or, if only is not nil, at those of these endpoints that exist.
type Targets = func(ev *grapnel.Event, only []string) []store.Target

// PutDocuments commits the writes and the events that compose returns, and with, in one
// transaction. Then the core learns of the events' deliveries. with.Tell is ignored. compose is
// called again if the configuration has changed since; it must then return the same as if it had
// not been called before.
//
// Admission does not ask whether there is room, as for other operational events: an alert about an
// overload has to get through.
func (e *Engine) PutDocuments(ctx context.Context, scope store.Scope, with store.With,
	compose func(Targets) ([]store.DocumentWrite, []store.Incoming)) (store.Put, error) {
	for {
		conf := e.Snapshot()
		writes, events := compose(targets(ctx, conf))
		with.Operational = nil
		if len(events) > 0 {
			with.Operational = &store.Batch{Config: conf.Version, Events: events}
		}
		put, err := e.counted(with.Operational, func() (store.Put, error) { return e.store.PutDocuments(ctx, scope, writes, with) })
		if errors.Is(err, store.ErrStale) {
			if err := e.Refreshed(ctx, conf.Version); err != nil {
				return put, err
			}
			continue
		}
		e.operationalStored(with.Operational, put.Operational)
		return put, err
	}
}

// counted commits, and counts the deliveries of the events that the write publishes.
func (e *Engine) counted(tell *store.Batch, write func() (store.Put, error)) (store.Put, error) {
	e.pending.begin()
	put, err := write()
	var told []share
	if put.Operational != nil {
		told = made(nil, tell.Events, *put.Operational)
	}
	e.pending.end(nil, told, err)
	return put, err
}

func targets(ctx context.Context, conf *configuration.Snapshot) Targets {
	return func(ev *grapnel.Event, only []string) []store.Target {
		if only == nil {
			// As in event: beyond the budget the event counts as not wanted.
			found, _ := conf.Match(ev, nil, match.NewBudget(ctx, newsBudget))
			return found
		}
		var named []store.Target
		for _, id := range only {
			if t, there := conf.TargetAt(ev.Tenant, id); there {
				named = append(named, t)
			}
		}
		return named
	}
}
