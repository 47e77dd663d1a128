package replay

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Start counts the replay's deliveries and creates the replay.
func (r *Runner) Start(ctx context.Context, scope store.Scope, o Order) (Started, error) {
	ep, err := r.check(scope, &o.Request)
	if err != nil {
		return Started{}, err
	}
	// The selection covers deliveries finished by now. A store's times are in microseconds, so one
	// that finishes in the rest of this microsecond is left out.
	now := r.now().Round(0).UTC().Truncate(time.Microsecond)
	plan := counted(&o.Selection, r.bounds.Plan, r.now().Add(r.bounds.Within))
	if err := r.count(plan, r.candidates(ctx, &ep, plan, now)); err != nil {
		return Started{}, err
	}
	made := grapnel.Replay{
		ID: grapnel.NewID(grapnel.ReplayPrefix, now, r.random), Tenant: ep.Tenant, Endpoint: ep.ID, Selection: o.Selection,
		Rate: o.Rate, StopAfter: o.StopAfter, Canary: o.Canary, Status: grapnel.ReplayRunning, Total: plan.Total,
		CreatedAt: now, UpdatedAt: now, Actor: o.By.Actor,
	}
	with := store.With{Audit: entry(&made, grapnel.VerbReplay, o.By, now)}
	if o.Once != nil {
		with.Once = o.Once(made)
	}
	put, err := r.engine.PutReplay(ctx, scope, made, with)
	backoff.Wake(r.appeared) // after an error too: it may have been stored
	if err != nil || put.Answer != nil {
		return Started{Answer: put.Answer}, err
	}
	made.Revision = put.Revision
	r.log.Info("replay started", "replay", made.ID, "endpoint", made.Endpoint, "tenant", made.Tenant, "deliveries", made.Total,
		"rate", made.Rate, "actor", made.Actor)
	return Started{Replay: made}, nil
}

// Get returns a replay.
func (r *Runner) Get(ctx context.Context, scope store.Scope, id string) (Progress, error) {
	one, err := r.store.Replay(ctx, scope, id)
	if err != nil {
		return Progress{}, err
	}
	return r.progress(one), nil
}

// List returns replays.
func (r *Runner) List(ctx context.Context, scope store.Scope, q store.ReplayQuery) ([]Progress, error) {
	list, err := r.store.ReplayList(ctx, scope, q)
	if err != nil {
		return nil, err
	}
	all := make([]Progress, len(list))
	for i := range list {
		all[i] = r.progress(list[i])
	}
	return all, nil
}

// Items returns the deliveries that a replay has created.
func (r *Runner) Items(ctx context.Context, scope store.Scope, id string, after int64, limit int) ([]grapnel.ReplayItem, error) {
	return r.store.ReplayItems(ctx, scope, id, after, limit)
}

// Pause keeps a replay from creating deliveries until it is resumed.
func (r *Runner) Pause(ctx context.Context, scope store.Scope, id string, by grapnel.By) (Progress, error) {
	return r.set(ctx, scope, id, grapnel.ReplayPaused, by)
}

// Resume continues a paused replay.
func (r *Runner) Resume(ctx context.Context, scope store.Scope, id string, by grapnel.By) (Progress, error) {
	return r.set(ctx, scope, id, grapnel.ReplayRunning, by)
}

// Cancel ends a replay.
func (r *Runner) Cancel(ctx context.Context, scope store.Scope, id string, by grapnel.By) (Progress, error) {
	return r.set(ctx, scope, id, grapnel.ReplayCancelled, by)
}

// set stores another status of a replay. If its own job ends it at the same moment, the end counts.
func (r *Runner) set(ctx context.Context, scope store.Scope, id string, status grapnel.ReplayStatus, by grapnel.By) (Progress, error) {
	for {
		one, err := r.store.Replay(ctx, scope, id)
		if err != nil {
			return Progress{}, err
		}
		if one.Status == status {
			return r.progress(one), nil
		}
		if one.Status.Final() {
			return Progress{}, grapnel.Errorf(grapnel.CodeConflict, "the replay is already %s", one.Status)
		}
		now := r.now()
		one.Status, one.Reason, one.UpdatedAt = status, by.Reason, now
		if status == grapnel.ReplayRunning {
			one.Reason = ""
		}
		if status.Final() {
			one.FinishedAt = now
		}
		put, err := r.engine.PutReplay(ctx, scope, one, store.With{Audit: entry(&one, verbs[status], by, now)})
		r.changed(id) // after an error too: it may have been stored
		if grapnel.CodeOf(err) == grapnel.CodeConflict && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return Progress{}, err
		}
		if status.Final() {
			r.finished(&one)
		}
		one.Revision = put.Revision
		return r.progress(one), nil
	}
}

// progress adds the reason why a replay waits, and its estimated end. The job of this node has
// measured its speed; a replay of another node is judged by its row. Deliveries that qualify only
// after they were counted, because a redelivery of theirs was pending then, raise the total when
// they are created.
func (r *Runner) progress(one grapnel.Replay) Progress {
	one.Total = max(one.Total, one.Started)
	p := Progress{Replay: one}
	if one.Status != grapnel.ReplayRunning {
		return p
	}
	now, perSecond := r.now(), 0.0
	r.mu.Lock()
	j := r.jobs[one.ID]
	r.mu.Unlock()
	ep, there := r.engine.Endpoint(store.Everyone(), one.Endpoint)
	switch {
	case j != nil:
		p.Reason, perSecond = j.standing(now)
	case there && one.Started < one.Total:
		p.Reason = r.stall(&one, &ep)
	case there && one.Started > one.Done:
		p.Reason = remains(&one)
	}
	if j == nil {
		perSecond = float64(one.Done) / max(now.Sub(one.CreatedAt), time.Second).Seconds()
	}
	// The end of deliveries that are all created is up to their keys and schedules, not to the pace.
	if left := one.Total - one.Done; perSecond > 0 && one.Started < one.Total && ep.Status == grapnel.EndpointEnabled {
		p.ETA = now.Add(cost(perSecond, max(left, 0))).Truncate(time.Second).Add(time.Second)
	}
	return p
}
