package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// Annotate writes only the mark.
func (s *Store) Annotate(ctx context.Context, scope store.Scope, a store.Annotation) error {
	return s.write(ctx, &annotating{scope: scope, annotation: a})
}

// annotating is the operation of Annotate.
type annotating struct {
	scope      store.Scope
	annotation store.Annotation
}

func (o *annotating) grows() bool { return true }

func (o *annotating) apply(t *tx) error {
	a := &o.annotation
	of, err := t.origin(a.Delivery)
	if err != nil {
		return err
	}
	if of == nil || !o.scope.Allows(of.tenant) {
		return store.ErrNotFound("delivery")
	}
	switch {
	case of.status == "":
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is not finished")
	case a.Discard != "" && of.status != grapnel.Failed:
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is not a dead letter")
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
	if a.Audit == nil {
		return nil
	}
	return t.note(a.Audit)
}
