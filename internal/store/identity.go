package store

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// Identity tells a delivery from every other one that ever had its row id.
//
// A database that lost its last transactions (a failover to a standby that was behind, a backup restored
// under running nodes) gives the lost row ids to other deliveries, and what nodes remember by row id is
// then about something else. No two deliveries with one row id have the same Identity: the second is
// created after the loss, so CreatedAt differs. It breaks only if a clock, set back, meets the same
// microsecond again for the same event number and the same endpoint.
//
// All three values are in the row of a pending delivery, so comparing them costs no look-up.
type Identity struct {
	Event     int64 // its number
	Endpoint  string
	CreatedAt time.Time
}

// Identity returns what the head is compared by.
func (h *Head) Identity() Identity { return Identity{h.Event, h.Endpoint, h.CreatedAt} }

// Is reports whether a row with these values, the time in microseconds, is the delivery that is meant.
// An Identity without event means any: an order that came from a node of an earlier version has none.
func (i *Identity) Is(event int64, endpoint string, created int64) bool {
	return i.Event == 0 || i.Event == event && i.Endpoint == endpoint && i.CreatedAt.UnixMicro() == created
}

// Same reports whether two heads with the same row id are the same delivery.
func (h *Head) Same(other *Head) bool {
	return h.Event == other.Event && h.Endpoint == other.Endpoint && h.CreatedAt.UnixMicro() == other.CreatedAt.UnixMicro()
}

// Carries reports whether an event with the number h.Event is surely the one that the delivery was
// created for: they have the same time, because a delivery is created when its event is accepted. It is
// false for one that was created later, by a retry or a replay; such a head has to be read again.
func (h *Head) Carries(e *grapnel.Event) bool {
	return e.AcceptedAt.UnixMicro() == h.CreatedAt.UnixMicro()
}
