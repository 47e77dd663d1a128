package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// documentOrder is the order of Store.documents: that of lists, within a kind.
func documentOrder(a, b store.Document) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Tenant, b.Tenant))
}

// PutDocuments checks all writes before it does the first.
func (s *model) PutDocuments(_ context.Context, scope store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error) {
	if err := s.documentBounds.Check(scope, writes); err != nil {
		return store.Put{}, err
	}
	return s.putting(with, func() (int64, error) {
		for i := range writes {
			w := &writes[i]
			revision := int64(0)
			if at, there := s.document(w.Document); there {
				revision = s.documents[at].Revision
			}
			if revision != w.Revision {
				return 0, store.ErrDocumentChanged(w.ID)
			}
		}
		for i := range writes {
			s.writeDocument(writes[i])
		}
		return store.Written(writes), nil
	})
}

// document returns the index of the document with d's tenant, kind and id, or its insertion index.
func (s *model) document(d store.Document) (int, bool) {
	return slices.BinarySearchFunc(s.documents, d, documentOrder)
}

func (s *model) writeDocument(w store.DocumentWrite) {
	at, there := s.document(w.Document)
	switch {
	case w.Delete:
		s.documents = slices.Delete(s.documents, at, at+1)
		return
	case !there:
		s.documents = slices.Insert(s.documents, at, store.Document{})
	}
	s.documents[at] = deepCopy(w.Document)
	s.documents[at].Revision++
}

// Document returns a copy.
func (s *model) Document(_ context.Context, scope store.Scope, tenant, kind, id string) (store.Document, error) {
	at, there := s.document(store.Document{Tenant: tenant, Kind: kind, ID: id})
	if !there || !scope.Allows(tenant) {
		return store.Document{}, store.ErrNotFound("document")
	}
	return deepCopy(s.documents[at]), nil
}

// DocumentList returns at most Limit documents; no limit: none.
func (s *model) DocumentList(_ context.Context, scope store.Scope, q store.DocumentQuery) ([]store.Document, error) {
	each, beyond := slices.Values(s.documents), +1
	if q.Backwards {
		each, beyond = backward(s.documents), -1
	}
	return pick(each, q.Limit, func(d store.Document) bool {
		return d.Kind == q.Kind && (q.After == "" || cmp.Compare(d.ID, q.After) == beyond) && scope.Allows(d.Tenant) && either(q.Tenant, d.Tenant)
	}, deepCopy), nil
}

// ClearDocuments deletes those that were written first.
func (s *model) ClearDocuments(_ context.Context, kind string, before time.Time, limit int) (int, error) {
	old := oldest(slices.Values(s.documents), limit, func(d store.Document) bool { return d.Kind == kind && d.At.Before(micro(before)) },
		func(a, b store.Document) int { return a.At.Compare(b.At) })
	for _, d := range old {
		s.writeDocument(store.DocumentWrite{Document: d, Delete: true})
	}
	return len(old), nil
}
