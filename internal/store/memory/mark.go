package memory

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Annotate changes only the mark.
func (s *Store) Annotate(ctx context.Context, scope store.Scope, a store.Annotation) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	d := s.delivery(a.Delivery)
	switch {
	case d == nil || !scope.Allows(d.event.Tenant):
		return store.ErrNotFound("delivery")
	case !d.status.Final():
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is not finished")
	case a.Discard != "" && d.status != grapnel.Failed:
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is not a dead letter")
	}
	if a.Note != nil {
		d.mark.Note = *a.Note
	}
	if a.Discard != "" {
		d.mark.DiscardedAt, d.mark.DiscardReason = micro(a.At), a.Discard
	}
	s.note(a.Audit)
	return nil
}
