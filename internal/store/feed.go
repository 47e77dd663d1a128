package store

import "github.com/grapnelhq/grapnel"

// FeedQuery selects the deliveries of an endpoint that a reader of its feed has not got yet.
type FeedQuery struct {
	Endpoint string
	After    *FeedMark // nil: from the oldest one that is stored
	Limit    int       // at most; 0: none
}

// FeedMark identifies the last delivery that a reader has got. If Of is zero, the reader has got
// none, and Seq is the highest row id that was purged before it began.
type FeedMark struct {
	Seq int64
	Of  Identity
}

// MarkOf is the mark of a delivery.
func MarkOf(d *grapnel.Delivery) FeedMark {
	return FeedMark{Seq: d.Seq, Of: Identity{Event: d.EventSeq, Endpoint: d.EndpointID, CreatedAt: d.CreatedAt}}
}

// FeedPage is a page of a feed.
type FeedPage struct {
	Deliveries []grapnel.Delivery // without attempts, by row id
	Next       FeedMark           // the After of the next page
	More       bool               // the limit ended the page; more may follow at once
	// Gap says that deliveries behind After are not in the feed any more: they were purged. Or the
	// database has lost the delivery of After: then the page begins with the oldest delivery that is
	// stored.
	Gap bool
}

// FeedState is what a store knows of an endpoint when it has read a page.
type FeedState struct {
	UpTo   int64 // every transaction that draws a lower or the same row id has ended
	Purged int64 // the highest row id of the endpoint's purged deliveries
	Known  bool  // the delivery of After is stored
}

// Lost says that a database does not have the delivery that a mark names, although it was not
// purged: the database is an earlier or another one.
func (m *FeedMark) Lost(is FeedState) bool {
	return m != nil && m.Seq > is.Purged && !is.Known
}

// Page completes a page with the deliveries that a store has read behind After, some of which its
// caller may not see. The state is of a time after the read, so a purge in between shows as a gap.
func (q *FeedQuery) Page(scope Scope, read []grapnel.Delivery, is FeedState) FeedPage {
	p := FeedPage{More: len(read) > 0 && len(read) >= q.Limit}
	switch {
	case len(read) > 0:
		p.Next = MarkOf(&read[len(read)-1])
	case q.After == nil || q.After.Seq < is.Purged:
		p.Next = FeedMark{Seq: min(is.Purged, is.UpTo)}
	}
	if q.After != nil {
		p.Gap = q.After.Seq < is.Purged
		if p.Next.Seq <= q.After.Seq {
			p.Next = *q.After
		}
	}
	for i := range read {
		if scope.Allows(read[i].Tenant) {
			p.Deliveries = append(p.Deliveries, read[i])
		}
	}
	return p
}
