package store

import (
	"context"
	"time"
)

// Documents keeps small records that the hot path never reads: alert rules, alerts, issues,
// incidents, measurements of promises. A document is bytes that its room encodes; a store knows
// only its tenant, kind and id. So a new kind needs no new table and no new method.
//
// Documents are no configuration: writing them creates no version of it.
type Documents interface {
	// PutDocuments commits writes of documents, and With, all in one transaction. A write that
	// fails fails all of them: with grapnel.CodeConflict if a document's stored revision is another
	// one than the write's (0: the document must not exist), and with grapnel.CodeNotFound if its
	// tenant is not in scope. With.Tell.Config must be the current version, else ErrStale.
	PutDocuments(ctx context.Context, scope Scope, writes []DocumentWrite, with With) (Put, error)
	// Document returns one document; grapnel.CodeNotFound if it is absent or out of scope.
	Document(ctx context.Context, scope Scope, tenant, kind, id string) (Document, error)
	// DocumentList returns documents of one kind, sorted by id, then tenant.
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
	At       time.Time // of the last write
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
