package client

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel/wire"
)

type (
	Feed     = wire.Feed     // a page of what an endpoint should have received
	FeedItem = wire.FeedItem // an event as its endpoint should have received it
)

// FeedQuery asks for a page of an endpoint's feed.
type FeedQuery struct {
	Endpoint string        // its id
	After    string        // Next of the last page; empty: from the oldest event that is stored
	Limit    int           // events at most; 0: 50
	Wait     time.Duration // for an event, if there is none
}

// Feed reads the events that an endpoint should have received, the oldest first.
func (c *Client) Feed(ctx context.Context, q FeedQuery) (*Feed, error) {
	wait := ""
	if q.Wait > 0 {
		wait = q.Wait.String()
	}
	return get[Feed](ctx, c, "/v1/feed", query("endpoint", q.Endpoint, "after", q.After, "limit", max(0, q.Limit), "wait", wait))
}
