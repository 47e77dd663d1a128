package sqlite

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// PutDocuments reads all revisions before it writes. While the disk is full it only deletes. The
// journal can hold it unless it has an idempotency key or events.
func (s *changer) PutDocuments(ctx context.Context, scope store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error) {
	if err := s.bounds.Documents.Check(scope, writes); err != nil {
		return store.Put{}, err
	}
	writes, err := store.SealDocuments(ctx, s.sealer, writes)
	if err != nil {
		return store.Put{}, err
	}
	if with.Once == nil && with.Operational == nil {
		o := &documenting{writes: writes, audit: with.Audit}
		err := s.write(ctx, o)
		return o.done, err
	}
	return s.putting(ctx, &putting{with: with, keep: true, full: !stores(writes),
		do: func(t *tx) (int64, error) { return putDocuments(t, writes) }})
}

// documenting is the operation of PutDocuments.
type documenting struct {
	writes []store.DocumentWrite
	audit  *grapnel.AuditEntry
	done   store.Put
}

func (o *documenting) grows() bool { return stores(o.writes) }

// stores says whether not all writes are deletions.
func stores(writes []store.DocumentWrite) bool {
	return slices.ContainsFunc(writes, func(w store.DocumentWrite) bool { return !w.Delete })
}

func (o *documenting) apply(t *tx) error {
	revision, err := putDocuments(t, o.writes)
	o.done = store.Put{Revision: revision, Version: t.version}
	if err == nil {
		err = writeAudit(t, o.audit)
	}
	return err
}

func putDocuments(t *tx, writes []store.DocumentWrite) (revision int64, err error) {
	for i := range writes {
		w := &writes[i]
		is, err := rows.Integer(t.q.document.Text(w.Tenant).Text(w.Kind).Text(w.ID))
		if err != nil {
			return 0, err
		}
		if is != w.Revision {
			return 0, store.ErrDocumentChanged(w.ID)
		}
	}
	for i := range writes {
		w := &writes[i]
		if w.Delete {
			err = t.q.dropDocument.Text(w.Tenant).Text(w.Kind).Text(w.ID).Run()
		} else {
			body := w.Body
			if body == nil {
				body = []byte{} // nil would be NULL
			}
			err = t.q.setDocument.Text(w.Tenant).Text(w.Kind).Text(w.ID).Int(w.Revision + 1).Int(codec.Micros(w.At)).Blob(body).Run()
		}
		if err != nil {
			return 0, err
		}
	}
	return store.Written(writes), nil
}
