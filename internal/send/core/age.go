package core

import (
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// began is when a head's policy began to count; see Began.
func (ep *endpoint) began(h *head) time.Time { return Began(&ep.config.Policy, &h.Head) }

// Began is when a policy began to count the age of a head: at its first attempt; before that, when
// it became the head, or at the later time that its publisher asked for, which its due time has.
func Began(p *policy.Policy, h *store.Head) time.Time {
	if h.Attempts > 0 {
		return h.Anchor
	}
	return latest(h.Anchor, h.Due.Add(-p.FirstDelay()))
}

// ForLater says whether the publisher of a head has asked for a time that has not come.
func ForLater(p *policy.Policy, h *store.Head, now time.Time) bool {
	return h.Attempts == 0 && Began(p, h).After(now)
}
