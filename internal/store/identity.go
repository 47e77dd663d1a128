package store

import (
	"github.com/grapnelhq/grapnel"
)

// Identity returns the head's Identity.
func (h *Head) Identity() Identity { return Identity{h.Event, h.Endpoint, h.CreatedAt} }

// Is reports whether a row with these values, the time in microseconds, has this Identity. An
// Identity without event matches any row: a change that names a row id alone has none.
func (i *Identity) Is(event int64, endpoint string, created int64) bool {
	return i.Event == 0 || i.Event == event && i.Endpoint == endpoint && i.CreatedAt.UnixMicro() == created
}

// Same reports whether two heads with the same row id are the same delivery.
func (h *Head) Same(other *Head) bool {
	return h.Event == other.Event && h.Endpoint == other.Endpoint && h.CreatedAt.UnixMicro() == other.CreatedAt.UnixMicro()
}

// Carries reports whether the event with row id h.Event is certainly the delivery's event: both
// have the same time, because a delivery is created when its event is accepted. It is false for a
// delivery created later, by a retry or a replay; such a head has to be read again.
func (h *Head) Carries(e *grapnel.Event) bool {
	return e.AcceptedAt.UnixMicro() == h.CreatedAt.UnixMicro()
}
