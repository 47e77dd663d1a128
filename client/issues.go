package client

import (
	"context"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of issues.
type (
	// Issue is failed attempts of one endpoint that look alike, and what people have decided about
	// them.
	Issue = wire.Issue
	// IssueChanges changes what people say about an issue; fields that are not set stay.
	IssueChanges   = wire.IssueChanges
	NewIssueReplay = wire.NewIssueReplay // has the settings of a replay of an issue's dead letters
)

// IssueFilter selects issues; the zero value selects all.
type IssueFilter struct {
	States           []string // open, acknowledged, muted, resolved
	Endpoint, Tenant string
	Limit            int
	Cursor           string
}

// Issues lists issues, the one that failed last first.
func (c *Client) Issues(ctx context.Context, f IssueFilter) (*Page[Issue], error) {
	return get[Page[Issue]](ctx, c, "/v1/issues", window(f.Limit, f.Cursor, "endpoint", f.Endpoint, "tenant", f.Tenant, "state", f.States))
}

// Issue returns an issue, and why its deliveries fail.
func (c *Client) Issue(ctx context.Context, id string) (*Issue, error) {
	return get[Issue](ctx, c, at("/v1/issues", id), nil)
}

// ChangeIssue acknowledges, mutes, resolves or reopens an issue, or sets its owner and note.
func (c *Client) ChangeIssue(ctx context.Context, id string, changes IssueChanges) (*Issue, error) {
	return patch[Issue](ctx, c, at("/v1/issues", id), nil, changes)
}

// PlanIssueReplay counts the dead letters that ReplayIssue would deliver again.
func (c *Client) PlanIssueReplay(ctx context.Context, id string, r NewIssueReplay) (*ReplayPlan, error) {
	r.DryRun = true
	return post[ReplayPlan](ctx, c, at("/v1/issues", id, "replay"), r)
}

// ReplayIssue starts a replay of the dead letters that ended as the issue's failures did.
func (c *Client) ReplayIssue(ctx context.Context, id string, r NewIssueReplay) (*Replay, error) {
	return post[Replay](ctx, c, at("/v1/issues", id, "replay"), r)
}
