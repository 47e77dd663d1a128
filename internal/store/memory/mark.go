package memory

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// Annotate changes only the mark.
func (s *model) Annotate(_ context.Context, scope store.Scope, a store.Annotation) error {
	d := s.delivery(a.Delivery)
	if d == nil || !scope.Allows(d.event.Tenant) {
		return store.ErrNotFound("delivery")
	}
	if err := decide.Annotate(d.status, &a); err != nil {
		return err
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
