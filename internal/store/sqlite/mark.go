package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// Annotate writes only the mark.
func (s *Store) Annotate(ctx context.Context, scope store.Scope, a store.Annotation) error {
	return s.write(ctx, &change{do: func(t *tx) error { return t.annotate(scope, &a) }})
}

func (t *tx) annotate(scope store.Scope, a *store.Annotation) error {
	of, err := t.origin(a.Delivery)
	if err != nil {
		return err
	}
	if of == nil || !scope.Allows(of.owner) {
		return store.ErrNotFound("delivery")
	}
	if err := decide.Annotate(of.status, a); err != nil {
		return err
	}
	if a.Note != nil {
		if err := t.q.setNote.Int(a.Delivery).Text(*a.Note).Run(); err != nil {
			return err
		}
	}
	if a.Discard != "" {
		if err := t.q.setDiscard.Int(a.Delivery).Int(codec.Micros(a.At)).Text(a.Discard).Run(); err != nil {
			return err
		}
	}
	return t.note(a.Audit)
}
