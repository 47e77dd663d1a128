package api

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
)

// limitedReplays are replays for callers of limited scopes: those of the endpoints in scope.
type limitedReplays struct{ replay.Jobs }

// Plan counts for an endpoint in scope.
func (j limitedReplays) Plan(ctx context.Context, scope store.Scope, r replay.Request) (replay.Plan, error) {
	whole, err := about(scope, r.Endpoint)
	if err != nil {
		return replay.Plan{}, err
	}
	return j.Jobs.Plan(ctx, whole, r)
}

// Start begins a replay of an endpoint in scope.
func (j limitedReplays) Start(ctx context.Context, scope store.Scope, o replay.Order) (replay.Started, error) {
	whole, err := about(scope, o.Endpoint)
	if err != nil {
		return replay.Started{}, err
	}
	return j.Jobs.Start(ctx, whole, o)
}

// Get finds a replay of an endpoint in scope.
func (j limitedReplays) Get(ctx context.Context, scope store.Scope, id string) (replay.Progress, error) {
	p, err := j.Jobs.Get(ctx, scope.Whole(), id)
	if err == nil && !scope.Covers(p.Tenant, p.Endpoint) {
		return replay.Progress{}, store.ErrNotFound("replay")
	}
	return p, err
}

// List merges the lists of the endpoints.
func (j limitedReplays) List(ctx context.Context, scope store.Scope, q store.ReplayQuery) ([]replay.Progress, error) {
	newest := func(a, b replay.Progress) int { return newestReplay(a.ID, b.ID) }
	of := q.Endpoint
	return visible(scope, &q.Before, q.Limit, func(p *replay.Progress) (string, bool) { return p.ID, scope.Hides("", p.Endpoint) },
		func() ([]replay.Progress, error) {
			return merge(scope, of, q.Limit, newest, func(whole store.Scope, endpoint string) ([]replay.Progress, error) {
				q.Endpoint = endpoint
				return j.Jobs.List(ctx, whole, q)
			})
		})
}

// Items finds those of a replay of an endpoint in scope.
func (j limitedReplays) Items(ctx context.Context, scope store.Scope, id string, after int64, limit int) ([]grapnel.ReplayItem, error) {
	if _, err := j.Get(ctx, scope, id); err != nil {
		return nil, err
	}
	return j.Jobs.Items(ctx, scope.Whole(), id, after, limit)
}

// Pause pauses a replay of an endpoint in scope.
func (j limitedReplays) Pause(ctx context.Context, scope store.Scope, id string, by grapnel.By) (replay.Progress, error) {
	return j.steer(ctx, scope, id, by, replay.Jobs.Pause)
}

// Resume resumes one.
func (j limitedReplays) Resume(ctx context.Context, scope store.Scope, id string, by grapnel.By) (replay.Progress, error) {
	return j.steer(ctx, scope, id, by, replay.Jobs.Resume)
}

// Cancel cancels one.
func (j limitedReplays) Cancel(ctx context.Context, scope store.Scope, id string, by grapnel.By) (replay.Progress, error) {
	return j.steer(ctx, scope, id, by, replay.Jobs.Cancel)
}

func (j limitedReplays) steer(ctx context.Context, scope store.Scope, id string, by grapnel.By,
	order replayOrder) (replay.Progress, error) {
	if _, err := j.Get(ctx, scope, id); err != nil {
		return replay.Progress{}, err
	}
	return order(j.Jobs, ctx, scope.Whole(), id, by)
}
