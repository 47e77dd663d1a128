package erase

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The deletion of a tenant. The order is an access record, in one transaction with its audit entry:
// every node has it before the order is answered, and refuses the tenant. The job's document is
// made of the record, so an order whose node dies at once is carried out by the leader. The record
// goes when everything else has gone, before the job is done.

// Tenant orders the deletion of a tenant with all that it has. A tenant that is being deleted has
// the job of the first order. once may be nil.
func (r *Runner) Tenant(ctx context.Context, tenant string, by grapnel.By, once func(*Job) *store.Once) (*Job, *store.Answer, error) {
	now := r.o.Now()
	end := grapnel.TenantEnd{Tenant: tenant, Job: grapnel.NewID(Prefix, now, r.o.Random), At: now, By: by}
	j := ordered(&end)
	with := store.With{Audit: j.entry(by, now)}
	if once != nil {
		with.Once = once(j)
	}
	if err := r.known(ctx, tenant); err != nil {
		return nil, nil, err
	}
	is, put, err := r.o.Engine.EndTenant(ctx, end, with)
	switch {
	case err != nil || put.Answer != nil:
		return nil, put.Answer, err
	case is.Job != end.Job:
		j, err = r.Get(ctx, is.Job)
		return j, nil, err
	}
	backoff.Wake(r.asked)
	return j, nil, nil
}

// known returns grapnel.CodeNotFound for a tenant of which there is nothing: no part of the
// configuration, no event, and no entry of the audit but those about erasures.
func (r *Runner) known(ctx context.Context, tenant string) error {
	if _, has := slices.BinarySearch(r.o.Engine.Tenants(), tenant); has {
		return nil
	}
	if slices.ContainsFunc(r.o.Engine.TenantEnds(), func(e grapnel.TenantEnd) bool { return e.Tenant == tenant }) {
		return nil
	}
	events, err := r.o.Store.EventList(ctx, store.Of(tenant), store.EventQuery{Tenant: tenant, Limit: 1})
	if err != nil || len(events) > 0 {
		return err
	}
	entries, err := r.o.Store.AuditList(ctx, store.Of(tenant), store.AuditQuery{Tenant: tenant, Limit: r.bounds.Jobs})
	if err != nil || slices.ContainsFunc(entries, func(e grapnel.AuditEntry) bool { return e.Verb != grapnel.VerbErase }) {
		return err
	}
	return store.ErrNotFound("tenant")
}

// adopt makes the documents of jobs that were ordered.
func (r *Runner) adopt(ctx context.Context) error {
	for _, end := range r.o.Engine.TenantEnds() {
		j, err := r.Get(ctx, end.Job)
		if err != nil {
			return err
		}
		if j.Revision > 0 {
			continue
		}
		if err := r.save(ctx, j, nil); err != nil && grapnel.CodeOf(err) != grapnel.CodeConflict {
			return err
		}
	}
	return nil
}

// tenant does the next part of the deletion of a tenant.
func (r *Runner) tenant(ctx context.Context, j *Job) error {
	switch j.Part {
	case Objects:
		return r.objects(ctx, j)
	case Quiet:
		if r.o.Now().Before(j.Until) {
			return nil
		}
		j.Part, j.After, j.Late = Again, 0, 0
		return r.save(ctx, j, nil)
	}
	return r.rows(ctx, j)
}

// objects deletes the tenant's configuration. Other jobs for the tenant end first: they would write
// to the audit.
func (r *Runner) objects(ctx context.Context, j *Job) error {
	deleted, left, err := r.o.Engine.ClearTenant(ctx, j.Tenant, r.bounds.Page)
	if err != nil {
		return err
	}
	if !left {
		jobs, err := r.list(ctx, kindActive, "", r.bounds.Jobs)
		if err != nil {
			return err
		}
		left = slices.ContainsFunc(jobs, func(other *Job) bool { return other.Tenant == j.Tenant && other.ID != j.ID })
	}
	if !left {
		j.Part = Rows
	}
	if left && deleted == 0 {
		return nil
	}
	j.count("objects", deleted)
	return r.save(ctx, j, nil)
}

// rows deletes a page of the tenant's rows, after the last one its data key. A part of the
// configuration that was stored before its node knew of the order is deleted first.
func (r *Runner) rows(ctx context.Context, j *Job) error {
	done, err := r.o.Store.EraseTenant(ctx, store.TenantErasure{Tenant: j.Tenant, Limit: r.bounds.Rows, After: j.After})
	if grapnel.CodeOf(err) == grapnel.CodeConflict {
		j.Part, j.After = Objects, 0
		return r.save(ctx, j, nil)
	}
	if err != nil {
		return err
	}
	j.count("events", done.Events)
	j.count("deliveries", done.Deliveries)
	j.count("attempts", done.Attempts)
	j.count("rows", done.Rows)
	j.After, j.Late = done.After, j.Late+done.Events+done.Rows
	switch {
	case done.More:
	case j.Part == Again && j.Late == 0:
		return r.ending(ctx, j)
	default:
		if err := r.o.Engine.KeyGone(ctx, j.Tenant); err != nil {
			return err
		}
		j.Part, j.Until = Quiet, r.o.Now().Add(r.bounds.Quiet)
	}
	return r.save(ctx, j, nil)
}
