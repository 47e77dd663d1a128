package memory

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Clear deletes the oldest entries first, then the oldest replays.
func (s *model) Clear(_ context.Context, c store.Clearing, limit int) (removed int, err error) {
	newest := len(s.audit) - 1
	at := -1
	s.audit = slices.DeleteFunc(s.audit, func(e grapnel.AuditEntry) bool {
		if at++; at == newest || removed >= limit || !e.At.Before(micro(c.Audit)) {
			return false
		}
		e.Seq = 0
		delete(s.noted, e)
		removed++
		return true
	})
	s.replays = slices.DeleteFunc(s.replays, func(r *replay) bool {
		if removed >= limit || !r.Status.Final() || !r.FinishedAt.Before(micro(c.Replays)) {
			return false
		}
		n := min(len(r.items), limit-removed)
		for _, i := range r.items[:n] {
			i.of = nil // its delivery may not be finished yet
		}
		r.items = r.items[n:]
		if removed += n; removed >= limit {
			return false
		}
		removed++
		return true
	})
	return removed, nil
}
