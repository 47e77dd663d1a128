package memory

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// note stores an entry under a new row id, unless an equal one is stored. e may be nil.
func (s *model) note(e *grapnel.AuditEntry) {
	if e == nil {
		return
	}
	kept := *e
	kept.Seq, kept.At = 0, micro(e.At)
	if s.noted[kept] {
		return
	}
	s.noted[kept] = true
	kept.Seq = 1
	if n := len(s.audit); n > 0 {
		kept.Seq = s.audit[n-1].Seq + 1
	}
	s.audit = append(s.audit, kept)
}

// Note keeps an entry.
func (s *model) Note(_ context.Context, e grapnel.AuditEntry) error {
	s.note(&e)
	return nil
}

// AuditList returns at most Limit entries; no limit is none.
func (s *model) AuditList(_ context.Context, scope store.Scope, q store.AuditQuery) ([]grapnel.AuditEntry, error) {
	entries := backward(s.audit)
	if q.Oldest {
		entries = slices.Values(s.audit)
	}
	return pick(entries, q.Limit, func(e grapnel.AuditEntry) bool {
		return (q.Before <= 0 || e.Seq < q.Before) && e.Seq > q.After && scope.Allows(e.Tenant) && either(q.Tenant, e.Tenant) &&
			either(q.Endpoint, e.Endpoint) && either(q.Delivery, e.Delivery)
	}, func(e grapnel.AuditEntry) grapnel.AuditEntry { return e }), nil
}

// AuditEnd is the row id of the newest entry.
func (s *model) AuditEnd(context.Context) (int64, error) {
	if n := len(s.audit); n > 0 {
		return s.audit[n-1].Seq, nil
	}
	return 0, nil
}
