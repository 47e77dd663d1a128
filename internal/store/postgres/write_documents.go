package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

const (
	documentQuery  = "SELECT revision, at, body FROM document WHERE tenant = $1 AND kind = $2 AND id = $3"
	addDocument    = "INSERT INTO document (tenant, kind, id, revision, at, body) VALUES ($1, $2, $3, 1, $4, $5) ON CONFLICT DO NOTHING"
	setDocument    = "UPDATE document SET revision = $4 + 1, at = $5, body = $6 WHERE tenant = $1 AND kind = $2 AND id = $3 AND revision = $4"
	dropDocument   = "DELETE FROM document WHERE tenant = $1 AND kind = $2 AND id = $3 AND revision = $4"
	clearDocuments = `DELETE FROM document WHERE ctid = ANY(ARRAY(SELECT ctid FROM document WHERE kind = $1 AND at < $2 ORDER BY at LIMIT $3
		FOR UPDATE SKIP LOCKED))`
)

// PutDocuments writes in the order of the primary key, so that transactions which write the same
// documents do not wait for each other in a circle. A write that changes no row is a conflict, and
// undoes the transaction.
func (s *changer) PutDocuments(ctx context.Context, scope store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error) {
	if err := s.bounds.Documents.Check(scope, writes); err != nil {
		return store.Put{}, err
	}
	writes, err := store.SealDocuments(ctx, s.sealer, writes)
	if err != nil {
		return store.Put{}, err
	}
	sorted := slices.SortedFunc(slices.Values(writes), func(a, b store.DocumentWrite) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	return s.put(ctx, &putting{with: with, keep: true, do: func(t *tx) (int64, error) {
		return store.Written(writes), writeDocuments(t, sorted)
	}})
}

func writeDocuments(t *tx, writes []store.DocumentWrite) error {
	if len(writes) == 0 {
		return nil
	}
	var changed error // the first conflict
	b := new(pgx.Batch)
	for i := range writes {
		w := &writes[i]
		body := w.Body
		if body == nil {
			body = []byte{} // nil would be NULL
		}
		var q *pgx.QueuedQuery
		switch {
		case w.Delete:
			q = b.Queue(dropDocument, w.Tenant, w.Kind, w.ID, w.Revision)
		case w.Revision == 0:
			q = b.Queue(addDocument, w.Tenant, w.Kind, w.ID, codec.Micros(w.At), body)
		default:
			q = b.Queue(setDocument, w.Tenant, w.Kind, w.ID, w.Revision, codec.Micros(w.At), body)
		}
		q.Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 0 && changed == nil {
				changed = store.ErrDocumentChanged(w.ID)
			}
			return nil
		})
	}
	if err := t.conn.SendBatch(t.ctx, b).Close(); err != nil {
		return err
	}
	return changed
}

// Note stores an entry.
func (s *changer) Note(ctx context.Context, e grapnel.AuditEntry) error {
	return s.write(ctx, &change{do: func(t *tx) error {
		t.note(&e)
		return nil
	}})
}
