package erase

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// New returns a Runner. No job runs before Run, but orders are accepted.
func New(o Options) *Runner {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Random = cmp.Or(o.Random, rand.Reader)
	return &Runner{o: o, bounds: bounds.Fill(o.Bounds), asked: make(chan struct{}, 1)}
}

// Events begins an erasure of a tenant's events. once may be nil.
func (r *Runner) Events(ctx context.Context, tenant string, s Selection, by grapnel.By, once func(*Job) *store.Once) (*Job, *store.Answer, error) {
	if _, err := s.wants(); err != nil {
		return nil, nil, grapnel.Invalid("/filter", "%v", err)
	}
	// The newest event is the last one that is looked at: later ones are not erased.
	newest, err := r.o.Store.EventList(ctx, store.Of(tenant), store.EventQuery{Tenant: tenant, Limit: 1})
	if err != nil {
		return nil, nil, err
	}
	j := &Job{State: Running, Tenant: tenant, By: s.by(), Selection: &s, Before: 1}
	if len(newest) > 0 {
		j.Before = newest[0].Seq + 1
	}
	return r.begin(ctx, j, by, once)
}

// begin stores a new job.
func (r *Runner) begin(ctx context.Context, j *Job, by grapnel.By, once func(*Job) *store.Once) (*Job, *store.Answer, error) {
	now := r.o.Now()
	j.ID, j.StartedAt, j.StartedBy, j.Reason = grapnel.NewID(Prefix, now, r.o.Random), now, by.Actor, by.Reason
	d, err := j.document(now)
	if err != nil {
		return nil, nil, err
	}
	with := store.With{Audit: j.entry(by, now)}
	if once != nil {
		with.Once = once(j)
	}
	put, err := r.o.Store.PutDocuments(ctx, store.Everyone(), []store.DocumentWrite{{Document: d}}, with)
	if err != nil || put.Answer != nil {
		return nil, put.Answer, err
	}
	j.Revision = put.Revision
	backoff.Wake(r.asked)
	return j, nil, nil
}

// Run runs the jobs while this node leads, until ctx ends.
func (r *Runner) Run(ctx context.Context) {
	var retaining sync.WaitGroup
	retaining.Go(func() { r.retain(ctx) })
	defer retaining.Wait()
	for failures := 0; ctx.Err() == nil; {
		wait := r.bounds.Look
		if r.o.Engine.Leads() {
			more, err := r.turn(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				failures++
				if wait = backoff.Store.After(failures); backoff.Tells(failures) {
					r.o.Log.Error("erasure failed; retrying", "failures", failures, "err", err)
				}
			case more:
				failures, wait = 0, r.bounds.Pause
			default:
				failures = 0
			}
		}
		select {
		case <-time.After(wait):
		case <-r.asked:
		case <-ctx.Done():
		}
	}
}

// turn takes one step of each job. more is true if a job moved: it may have another step.
func (r *Runner) turn(ctx context.Context) (more bool, err error) {
	if err := r.adopt(ctx); err != nil {
		return true, err
	}
	jobs, err := r.list(ctx, kindActive, "", r.bounds.Jobs)
	for _, j := range slices.Backward(jobs) { // the oldest first
		was := j.Revision
		failed := r.step(ctx, j)
		if grapnel.CodeOf(failed) == grapnel.CodeConflict {
			failed = nil // another node has made a step: look again
		}
		if failed != nil {
			failed = fmt.Errorf("erasure %s: %w", j.ID, failed)
		}
		err, more = errors.Join(err, failed), more || j.Revision != was
	}
	return more, err
}
