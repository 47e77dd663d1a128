package store

import (
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Replays stores replays: jobs that redeliver finished deliveries.
type Replays interface {
	// PutReplay creates a replay (Revision 0) or changes status, reason, rate and times of the one
	// with this revision. It fails with grapnel.CodeConflict if the stored revision is another one,
	// or if the replay is finished. The counts, the cursor and UpTo belong to the store and do not
	// change the revision. PutReplay returns the new revision; the configuration gets no new
	// version.
	PutReplay(ctx context.Context, scope Scope, r grapnel.Replay, with With) (Put, error)
	Replay(ctx context.Context, scope Scope, id string) (grapnel.Replay, error)
	// ReplayList returns replays, the newest first.
	ReplayList(ctx context.Context, scope Scope, q ReplayQuery) ([]grapnel.Replay, error)
	// Candidates returns deliveries of an endpoint that had finished by a time and match a
	// selection, with their marks, the oldest first: at most limit, with row ids above After. It
	// reads a bounded number of rows: resume is the row id after which to go on, 0 when the list is
	// complete. Selection.Again is ignored: the caller sees by the marks which ones to leave out,
	// and can count them.
	Candidates(ctx context.Context, scope Scope, q CandidateQuery) (list []grapnel.Delivery, resume int64, err error)
	// Advance creates the next deliveries of a running replay and moves its cursor in one
	// transaction. It fails with grapnel.CodeConflict unless the replay is running and its cursor
	// is at s.From, and with grapnel.CodeNotFound if the replay is absent, or its endpoint is
	// absent or marked as deleted. The store counts the results of the new deliveries in the
	// transactions in which they finish, and marks the originals. The result is parallel to the
	// items. An item whose original is not a finished delivery of the replay's endpoint (it may
	// have been purged), or was overtaken, creates nothing, and its entry is zero.
	Advance(ctx context.Context, s ReplayStep) ([]Redelivered, error)
	// ReplayItems returns the deliveries that a replay has created, in order, after the original
	// with the given row id.
	ReplayItems(ctx context.Context, scope Scope, id string, after int64, limit int) ([]grapnel.ReplayItem, error)
}

// ReplayQuery selects replays.
type ReplayQuery struct {
	Tenant   string
	Endpoint string
	Active   bool   // only those that are running or paused
	Before   string // only those with a lower id; empty: from the newest
	Limit    int    // at most; 0: none
}

// CandidateQuery selects deliveries to redeliver.
type CandidateQuery struct {
	Endpoint  string
	Selection grapnel.Selection
	OverBy    time.Time // only deliveries that had finished at this time
	UpTo      int64     // only row ids up to this one, because clocks can be wrong (Replay.UpTo); 0: any
	After     int64
	Limit     int
}

// Takes says whether a delivery in scope, whose event was accepted at a time, matches the query. It
// takes for granted that the delivery is one of those that the selection names, if it names any.
func (q *CandidateQuery) Takes(scope Scope, d *grapnel.Delivery, accepted time.Time) bool {
	sel := &q.Selection
	switch {
	case d.EndpointID != q.Endpoint, !d.Status.Final(), d.FinishedAt.UnixMicro() > q.OverBy.UnixMicro(), q.UpTo != 0 && d.Seq > q.UpTo,
		!scope.Allows(d.Tenant):
		return false
	case len(sel.Deliveries) > 0:
		return true
	}
	when := EventQuery{From: sel.From, To: sel.To}
	return (slices.Contains(sel.Status, d.Status) || len(sel.Status) == 0 && d.Status == grapnel.Failed) && sel.Ended(&d.Last) &&
		sel.Of(d.Type, d.Key) && when.Takes(scope, d.Tenant, d.Type, d.Key, accepted)
}

// ReplayStep is one step of a replay.
type ReplayStep struct {
	Replay string
	From   int64        // the cursor before
	To     int64        // and after
	Items  []Redelivery // by rising Of, all above From and at most To; only Of, Ordered, Delay and Seen count
	At     time.Time
}
