package store

import (
	"context"

	"github.com/grapnelhq/grapnel"
)

// Journal keeps the audit: who did what, when and why. What changes something durable brings its entry along (Change.Audit, With.Audit,
// Redelivery.Audit) and both are kept or neither. An entry that is there already, word for word and to the microsecond, is kept
// once: what a person asked for can be recorded again when the answer was lost.
type Journal interface {
	// Note keeps an entry about something that leaves no other trace in the store.
	Note(ctx context.Context, e grapnel.AuditEntry) error
	// AuditList returns entries, the newest first.
	AuditList(ctx context.Context, scope Scope, q AuditQuery) ([]grapnel.AuditEntry, error)
}

// AuditQuery selects entries.
type AuditQuery struct {
	Tenant   string
	Endpoint string // id; empty: all
	Delivery string // id; empty: all
	Before   int64  // only entries with a lower number; 0: from the newest
	Limit    int    // at most; 0: none
}
