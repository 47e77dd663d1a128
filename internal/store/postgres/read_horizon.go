package postgres

import (
	"slices"
	"sync"
)

// horizon remembers up to which row id every transaction that drew one has ended. A row id is
// settled once the transactions that were open when it was the highest have all ended: later ones
// draw higher ones.
type horizon struct {
	mu    sync.Mutex
	upTo  int64
	looks int64 // that have begun

	// One look that found open transactions, until those have ended.
	drawn int64    // the highest row id that was drawn before it
	open  []string // the transactions; nil: there is no such look
	at    int64    // looks that had begun when it ended
}

// begin counts a look.
func (h *horizon) begin() (look int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks++
	return h.looks
}

// end takes the result of a look: the highest row id that was drawn before it, and the transactions
// that were open then. A look that began before another ended says nothing of that one's
// transactions, which may be younger.
func (h *horizon) end(look, drawn int64, open []string) (upTo int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(open) == 0 {
		h.upTo = max(h.upTo, drawn)
	}
	if look > h.at && !slices.ContainsFunc(h.open, func(one string) bool { return slices.Contains(open, one) }) {
		h.upTo, h.open = max(h.upTo, h.drawn), nil
	}
	if len(h.open) == 0 && len(open) > 0 {
		h.drawn, h.open, h.at = drawn, open, h.looks
	}
	return h.upTo
}
