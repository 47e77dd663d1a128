package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Documents keeps small records that the hot path never reads: alert rules, alerts, issues,
// incidents, measurements of promises. A document is bytes that its room encodes; a store knows
// only its tenant, kind and id. So a new kind needs no new table and no new method.
//
// Documents are no configuration: writing them creates no version of it. They move with their
// tenant; a tenant's documents are read in its old store until Erase has deleted them. A body names
// deliveries by public ids, because a move changes row ids.
type Documents interface {
	// PutDocuments commits writes of documents, and With, all in one transaction. A write that
	// fails fails all of them: with grapnel.CodeConflict if a document's stored revision is another
	// one than the write's (0: the document must not exist), with grapnel.CodeNotFound if its
	// tenant is not in scope, and with grapnel.CodeInvalid if it breaks a rule of DocumentBounds.
	// With.Operational.Config must be the current version, else ErrStale. The result has the new
	// revision of the first document, 0 if that was deleted; every other one's is its write's plus
	// 1.
	PutDocuments(ctx context.Context, scope Scope, writes []DocumentWrite, with With) (Put, error)
	// Document returns one document; grapnel.CodeNotFound if it is absent or out of scope.
	Document(ctx context.Context, scope Scope, tenant, kind, id string) (Document, error)
	// DocumentList returns documents of one kind, sorted by id, then tenant; with Backwards, in the
	// reverse order.
	DocumentList(ctx context.Context, scope Scope, q DocumentQuery) ([]Document, error)
	// ClearDocuments deletes documents of a kind that were last written before a time, at most
	// limit, and returns how many; fewer than limit: nothing is left.
	ClearDocuments(ctx context.Context, kind string, before time.Time, limit int) (int, error)
}

// Document is one record.
type Document struct {
	Tenant   string    // empty: the operator's; only the scope Everyone sees it
	Kind     string    // "alert", "incident" …
	ID       string    // unique within tenant and kind
	Revision int64     // 1, 2, 3 …
	At       time.Time // of the last write, as its caller says
	Body     []byte
}

// DocumentWrite stores a document, or deletes it.
type DocumentWrite struct {
	Document      // Revision is the stored one; 0: there is none yet
	Delete   bool // the document is deleted; Body is ignored
}

// DocumentQuery selects documents.
type DocumentQuery struct {
	Kind      string
	Tenant    string // empty: any in scope, the operator's included if the scope is Everyone
	After     string // only ids after this one; with Backwards, before this one. Empty: from the beginning
	Backwards bool   // the highest id first
	Limit     int    // at most; 0: none
}

// DocumentBounds limit what a document may be. A store has them among its own.
type DocumentBounds struct {
	Body int64 `bound:"256KiB" tiny:"256KiB"` // bytes
	Name int   `bound:"300" tiny:"300"`       // bytes of a kind, and of an id
}

// Check refuses writes that are wrong whatever is stored. Every PutDocuments begins with it.
func (b *DocumentBounds) Check(scope Scope, writes []DocumentWrite) error {
	type name struct{ tenant, kind, id string }
	seen := make(map[name]bool, len(writes))
	for i := range writes {
		w := &writes[i]
		is := name{w.Tenant, w.Kind, w.ID}
		switch {
		case !scope.Allows(w.Tenant):
			return ErrNotFound("document")
		case w.Kind == "" || w.ID == "" || max(len(w.Kind), len(w.ID)) > b.Name:
			return grapnel.Errorf(grapnel.CodeInvalid, "the kind and the id of a document must have 1 to %d bytes", b.Name)
		case int64(len(w.Body)) > b.Body && !w.Delete:
			return grapnel.Errorf(grapnel.CodeInvalid, "document %s has %d bytes; at most %d are allowed", w.ID, len(w.Body), b.Body)
		case w.Revision < 0 || w.Delete && w.Revision == 0:
			return grapnel.Errorf(grapnel.CodeInvalid, "document %s: there is no revision %d to change", w.ID, w.Revision)
		case seen[is]:
			return grapnel.Errorf(grapnel.CodeInvalid, "document %s is written twice", w.ID)
		}
		seen[is] = true
	}
	return nil
}

// Written is the revision that the writes give the first document.
func Written(writes []DocumentWrite) int64 {
	if len(writes) == 0 || writes[0].Delete {
		return 0
	}
	return writes[0].Revision + 1
}

// ErrDocumentChanged is the conflict of a write whose document has another revision.
func ErrDocumentChanged(id string) error {
	return grapnel.Errorf(grapnel.CodeConflict, "document %s has changed since it was read", id)
}
