package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Replays keeps jobs that deliver again.
type Replays interface {
	// PutReplay creates a replay (Revision 0) or changes the status, reason, rate and times of the one that has this revision; another
	// one there, or one that is over, is grapnel.CodeConflict. What it counts, its cursor and UpTo are the store's own and do not
	// change the revision. It returns the new revision; configuration gets no new version.
	PutReplay(ctx context.Context, scope Scope, r grapnel.Replay, with With) (Put, error)
	Replay(ctx context.Context, scope Scope, id string) (grapnel.Replay, error)
	// ReplayList returns replays, the newest first.
	ReplayList(ctx context.Context, scope Scope, q ReplayQuery) ([]grapnel.Replay, error)
	// Candidates returns deliveries of an endpoint that were over by a time and match a selection, the oldest first, with their marks, at
	// most limit, of those with a higher number than after. It may look at so much and no more: resume is the number after which to go on,
	// 0 when there is nothing more. Selection.Again is not looked at: whoever asks sees by the marks what to leave out, and can count it.
	Candidates(ctx context.Context, scope Scope, q CandidateQuery) (list []grapnel.Delivery, resume int64, err error)
	// Advance makes the next deliveries of a running replay and moves its cursor, all in one transaction: only if it is running, and its
	// cursor still is where the step expects it, else grapnel.CodeConflict. What becomes of the new deliveries is counted by the store, in
	// the transaction in which they end, and noted on the originals. What it returns is parallel to the items; one whose original is not a
	// finished delivery of the replay's endpoint (it may have been purged) makes nothing, and its entry is zero. grapnel.CodeNotFound when
	// there is no such replay, and when its endpoint is absent or marked as deleted.
	Advance(ctx context.Context, s ReplayStep) ([]Redelivered, error)
	// ReplayItems returns what a replay has made, in that order, after the original with the given number.
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

// CandidateQuery selects deliveries to make once more.
type CandidateQuery struct {
	Endpoint  string
	Selection grapnel.Selection
	OverBy    time.Time // only what was over at this time or before
	UpTo      int64     // and has at most this number, which no clock can make wrong (Replay.UpTo); 0: any
	After     int64
	Limit     int
}

// ReplayStep is one step of a replay.
type ReplayStep struct {
	Replay string
	From   int64        // the cursor before
	To     int64        // and after
	Items  []Redelivery // by rising Of, all after From and not after To; only Of, Ordered and Delay count
	At     time.Time
}
