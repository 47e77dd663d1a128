package sqlite

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// PutDocuments reads all revisions before it writes. While the disk is full it only deletes. The
// journal can hold it unless it has an idempotency key or events.
func (s *changer) PutDocuments(ctx context.Context, scope store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error) {
	if err := s.bounds.Documents.Check(scope, writes); err != nil {
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

func readDocument(q *sqlite3.Stmt, kind string) store.Document {
	return store.Document{Tenant: q.String(0), Kind: kind, ID: q.String(1), Revision: q.Integer(2), At: codec.Moment(q.Integer(3)),
		Body: q.Bytes(4)}
}

// Document returns one.
func (s *reader) Document(ctx context.Context, scope store.Scope, tenant, kind, id string) (store.Document, error) {
	if !scope.Allows(tenant) {
		return store.Document{}, store.ErrNotFound("document")
	}
	return rows.Reading(ctx, s.readUnflushed, func(r *sqlite3.Conn) (store.Document, error) {
		q := r.Query(documentQuery).Text(tenant).Text(kind).Text(id)
		return rows.First(q, store.ErrNotFound("document"), func(q *sqlite3.Stmt) (store.Document, error) { return readDocument(q, kind), nil })
	})
}

// DocumentList returns at most Limit documents; no limit: none.
func (s *reader) DocumentList(ctx context.Context, scope store.Scope, q store.DocumentQuery) ([]store.Document, error) {
	var some bool
	if q.Tenant, some = scope.Narrow(q.Tenant); !some {
		return nil, ctx.Err()
	}
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) ([]store.Document, error) {
		sql, values := documentsQuery(q)
		found := r.Query(sql).Texts(values...).Int(int64(min(max(q.Limit, 0), math.MaxInt32)))
		return rows.Each(found, func(row *sqlite3.Stmt) (store.Document, error) { return readDocument(row, q.Kind), nil })
	})
}

// documentsQuery is the SQL of a list with its values; the last value is the limit.
func documentsQuery(q store.DocumentQuery) (sql string, values []string) {
	beyond, order := "id > ?", " ORDER BY id, tenant LIMIT ?"
	if q.Backwards {
		beyond, order = "id < ?", " ORDER BY id DESC, tenant DESC LIMIT ?"
	}
	f := rows.Filters{All: []string{"kind = ?"}, Values: []string{q.Kind}}
	f.Add("tenant = ?", q.Tenant)
	f.Add(beyond, q.After)
	return "SELECT tenant, id, revision, at, body FROM document" + f.Where() + order, f.Values
}

// ClearDocuments removes a few documents in each transaction. The next Purge removes their bytes
// from the log.
func (s *keeper) ClearDocuments(ctx context.Context, kind string, before time.Time, limit int) (removed int, err error) {
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	return s.inParts(limit, func(most int) (n int, err error) {
		err = s.write(ctx, &change{shrinks: true, do: func(t *tx) (err error) {
			n, err = t.changes(t.q.clearDocuments.Text(kind).Int(codec.Micros(before)).Int(int64(most)))
			return err
		}})
		return n, err
	})
}
