package erase

import (
	"context"
	"fmt"

	"github.com/grapnelhq/grapnel/internal/store"
)

// step does the next part of a job and stores how far it is. Each part can be repeated: a crash
// between both does it again.
func (r *Runner) step(ctx context.Context, j *Job) error {
	switch {
	case j.State == Ending:
		return r.finish(ctx, j)
	case j.By == ByTenant:
		return r.tenant(ctx, j)
	}
	return r.events(ctx, j)
}

// events erases a page of events.
func (r *Runner) events(ctx context.Context, j *Job) error {
	wants, err := j.Selection.wants()
	if err != nil {
		return err
	}
	page, err := r.o.Store.EventList(ctx, store.Of(j.Tenant),
		store.EventQuery{Tenant: j.Tenant, Key: j.Selection.Key, Before: j.Before, Limit: r.bounds.Page})
	if err != nil {
		return err
	}
	var chosen []int64
	ids := map[int64]string{}
	for i := range page {
		e := &page[i]
		j.Before = e.Seq
		// A filter that cannot be evaluated for an event does not match it, as at endpoints.
		if wanted, err := wants(e); err == nil && wanted && (e.ErasedAt.IsZero() || e.Key != "") {
			chosen, ids[e.Seq] = append(chosen, e.Seq), e.ID
		}
	}
	if err := r.erase(ctx, j, chosen, ids); err != nil {
		return err
	}
	if len(page) < r.bounds.Page {
		return r.ending(ctx, j)
	}
	return r.save(ctx, j, nil)
}

// erase empties events. Those with pending deliveries come again once these have ended.
func (r *Runner) erase(ctx context.Context, j *Job, seqs []int64, ids map[int64]string) error {
	for len(seqs) > 0 {
		done, err := r.o.Store.EraseEvents(ctx, store.Erasure{Tenant: j.Tenant, Events: seqs, At: r.o.Now(), Keys: true})
		if err != nil {
			return err
		}
		j.count("events", done.Events)
		j.count("deliveries", done.Deliveries)
		j.count("attempts", done.Attempts)
		seqs = done.Pending
		ended := 0
		for _, seq := range seqs {
			n, err := r.o.Engine.EndErased(ctx, j.Tenant, ids[seq])
			if err != nil {
				return fmt.Errorf("ending the deliveries of event %s: %w", ids[seq], err)
			}
			ended += n
		}
		j.count("deliveries_ended", ended)
		if len(seqs) > 0 && ended == 0 {
			return fmt.Errorf("event %s has a pending delivery that cannot be ended", ids[seqs[0]])
		}
	}
	return nil
}
