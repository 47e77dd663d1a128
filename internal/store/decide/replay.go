package decide

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// StoredReplay is a replay with the number that rows have for it.
type StoredReplay struct {
	Number int64
	grapnel.Replay
}

// Shown is the replay; nil: there is none.
func (s *StoredReplay) Shown() *grapnel.Replay {
	if s == nil {
		return nil
	}
	return &s.Replay
}

// Replay returns r as PutReplay stores it, without its new revision: of a stored replay only a few
// fields change. there is the stored one, or nil.
func Replay(scope store.Scope, there *grapnel.Replay, r grapnel.Replay) (grapnel.Replay, error) {
	switch {
	case !scope.Allows(r.Tenant), there == nil && r.Revision != 0, there != nil && there.Tenant != r.Tenant:
		return r, store.ErrNotFound("replay")
	case there == nil:
		return r, nil
	case there.Revision != r.Revision:
		return r, grapnel.Errorf(grapnel.CodeConflict, "the replay has changed since it was read")
	case there.Status.Final():
		return r, grapnel.Errorf(grapnel.CodeConflict, "the replay is finished")
	}
	kept := *there
	kept.Status, kept.Reason, kept.Rate, kept.UpdatedAt, kept.FinishedAt = r.Status, r.Reason, r.Rate, r.UpdatedAt, r.FinishedAt
	return kept, nil
}

// Step says whether a replay may make a step. A repeated step finds the cursor elsewhere.
func Step(r *grapnel.Replay, step *store.ReplayStep) error {
	if r.Status != grapnel.ReplayRunning || r.Cursor != step.From {
		return grapnel.Errorf(grapnel.CodeConflict, "the replay is not running or was deleted")
	}
	last := step.From
	for _, i := range step.Items {
		if i.Of <= last || i.Of > step.To {
			return grapnel.Errorf(grapnel.CodeInvalid, "the step goes back, or farther than it says")
		}
		last = i.Of
	}
	if step.To < step.From {
		return grapnel.Errorf(grapnel.CodeInvalid, "the step goes back")
	}
	return nil
}

// Annotate says whether a delivery with a status may be annotated; an empty status is pending.
func Annotate(status grapnel.Status, a *store.Annotation) error {
	switch {
	case status == "", !status.Final():
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is not finished")
	case a.Discard != "" && status != grapnel.Failed:
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is not a dead letter")
	}
	return nil
}

// Recall checks the unexpired answer of an idempotency key, which may be nil, for a call.
func Recall(a *store.Answer, once *store.Once) (*store.Answer, error) {
	if a != nil && a.Fingerprint != once.Fingerprint {
		return nil, grapnel.Errorf(grapnel.CodeMismatch, "the idempotency key was used for another request")
	}
	return a, nil
}
