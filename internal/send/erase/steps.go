package erase

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// step does the next part of a job and stores how far it is. Each part can be repeated: a crash
// between both does it again.
func (r *Runner) step(ctx context.Context, j *Job) error {
	if j.State == Ending {
		return r.finish(ctx, j)
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
		if wanted, err := wants(e); err == nil && wanted && e.ErasedAt.IsZero() {
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

// ending forgets what the job has searched for, and notes in the audit what it has done.
func (r *Runner) ending(ctx context.Context, j *Job) error {
	j.State, j.Selection = Ending, nil
	return r.save(ctx, j, &grapnel.AuditEntry{At: r.o.Now(), Tenant: j.Tenant, Actor: grapnel.ActorItself, Verb: grapnel.VerbErase,
		Endpoint: j.ID, Reason: "everything is erased: " + j.counted()})
}

func (j *Job) counted() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(j.Counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, j.Counts[what]))
	}
	if len(parts) == 0 {
		return "there was nothing"
	}
	return strings.Join(parts, ", ")
}

// finish has the store remove the bytes from its files, and ends the job.
func (r *Runner) finish(ctx context.Context, j *Job) error {
	left, err := r.o.Store.Reclaim(ctx)
	if err != nil {
		return err
	}
	j.State, j.FinishedAt, j.Remains = Done, r.o.Now(), nil
	if left != "" {
		j.Remains = append(j.Remains, left)
	}
	if r.o.Backups != nil {
		for _, name := range r.o.Backups() {
			j.Remains = append(j.Remains, "backup "+name)
		}
	}
	before, err := j.document(j.FinishedAt)
	if err != nil {
		return err
	}
	after := before
	after.Kind, after.Revision = kindDone, 0
	_, err = r.o.Store.PutDocuments(ctx, store.Everyone(),
		[]store.DocumentWrite{{Document: before, Delete: true}, {Document: after}}, store.With{})
	if err == nil {
		r.o.Log.Info("erasure done", "erasure", j.ID, "counts", j.counted())
	}
	return err
}

func (r *Runner) save(ctx context.Context, j *Job, audit *grapnel.AuditEntry) error {
	d, err := j.document(r.o.Now())
	if err != nil {
		return err
	}
	put, err := r.o.Store.PutDocuments(ctx, store.Everyone(), []store.DocumentWrite{{Document: d}}, store.With{Audit: audit})
	j.Revision = put.Revision
	return err
}
