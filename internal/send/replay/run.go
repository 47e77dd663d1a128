package replay

import (
	"context"
	"maps"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Run carries out replays until ctx ends, and returns when every job has returned. An unfinished
// replay continues with the next Run.
func (r *Runner) Run(ctx context.Context) {
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	for failures := 0; ctx.Err() == nil; {
		rest := r.bounds.Sweep
		if err := r.sweep(ctx); err != nil && ctx.Err() == nil {
			if failures++; backoff.Tells(failures) {
				r.log.Error("reading active replays failed; retrying", "failures", failures, "err", err)
			}
			rest = backoff.Store.After(failures)
		} else {
			failures = 0
		}
		wait(ctx, rest, r.appeared, nil)
	}
	r.mu.Lock()
	r.ctx = nil
	r.mu.Unlock()
	r.work.Wait()
}

// sweep gives every running replay a goroutine, at the node that decides about its endpoint, and
// every paused one whose endpoint is deleted: its job ends it.
func (r *Runner) sweep(ctx context.Context) error {
	var active []grapnel.Replay
	for q := (store.ReplayQuery{Active: true, Limit: r.bounds.Active}); ; {
		page, err := r.store.ReplayList(ctx, store.Everyone(), q)
		if err != nil {
			return err
		}
		active = append(active, page...)
		if len(page) < r.bounds.Active {
			break
		}
		q.Before = page[len(page)-1].ID
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = active
	paused := map[string]bool{}
	for i := range active {
		one := &active[i]
		_, there := r.engine.Endpoint(store.Everyone(), one.Endpoint)
		switch {
		case !r.engine.Decides(one.Endpoint):
		case one.Status == grapnel.ReplayRunning || !there:
			r.begin(one.ID, one.Endpoint)
		default:
			paused[one.ID] = true
		}
	}
	maps.DeleteFunc(r.looks, func(id string, _ grapnel.Replay) bool { return r.jobs[id] == nil && !paused[id] })
	return nil
}
