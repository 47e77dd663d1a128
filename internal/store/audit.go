package store

import (
	"context"

	"github.com/grapnelhq/grapnel"
)

// Audit stores the audit log: who did what, when and why. A durable change carries its entry
// (Change.Audit, With.Audit, Redelivery.Audit), and both are stored or neither. An entry that
// equals a stored one in every field, times to the microsecond, is stored once: so an operator's
// order can be recorded again when the answer was lost.
type Audit interface {
	// Note stores an entry about an action that leaves no other trace in the store.
	Note(ctx context.Context, e grapnel.AuditEntry) error
	// AuditList returns entries, the newest first unless the query says otherwise.
	AuditList(ctx context.Context, scope Scope, q AuditQuery) ([]grapnel.AuditEntry, error)
	// AuditEnd is the row id of the newest entry; 0: there is none. No entry with this or a lower row
	// id is stored later, so lists up to it stay as they are until Clear. Row ids may have gaps.
	AuditEnd(ctx context.Context) (int64, error)
}

// AuditQuery selects entries.
type AuditQuery struct {
	Tenant   string
	Endpoint string // id; empty: all
	Delivery string // id; empty: all
	Before   int64  // only entries with a lower row id; 0: from the newest
	After    int64  // only entries with a higher row id
	Oldest   bool   // the oldest first
	Limit    int    // at most; 0: none
}
