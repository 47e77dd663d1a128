package erase

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// ending forgets what the job has searched for, and notes in the audit what it has done.
func (r *Runner) ending(ctx context.Context, j *Job) error {
	j.State, j.Selection = Ending, nil
	return r.save(ctx, j, j.entry(grapnel.By{Actor: grapnel.ActorItself, Reason: "everything is erased: " + j.counted()}, r.o.Now()))
}

// entry is an entry of the audit about a job. That about the deletion of a tenant is the
// operator's: it stays as it is when the tenant's are deleted.
func (j *Job) entry(by grapnel.By, at time.Time) *grapnel.AuditEntry {
	e := &grapnel.AuditEntry{At: at, Tenant: j.Tenant, Actor: by.Actor, Verb: grapnel.VerbErase, Endpoint: j.ID, Reason: by.Reason}
	if j.By == ByTenant {
		e.Tenant, e.Reason = "", "tenant "+j.Tenant+": "+by.Reason
	}
	return e
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
			if name = "backup " + name; j.By == ByTenant {
				name += ": if it is sealed, it opens with the master key of its time: destroy that key after a rotation"
			}
			j.Remains = append(j.Remains, name)
		}
	}
	if j.By == ByTenant {
		if err := r.reopen(ctx, j); err != nil {
			return err
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

// reopen lets a tenant of the same name begin.
func (r *Runner) reopen(ctx context.Context, j *Job) error {
	now := r.o.Now()
	return r.o.Engine.TenantEnded(ctx, grapnel.TenantEnd{Tenant: j.Tenant, Job: j.ID},
		grapnel.EndedSessions{Before: now, Until: now.Add(grapnel.LongestSession)})
}
