package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Erasing removes the content of events.
type Erasing interface {
	// EraseEvents empties events of a tenant: data, metadata, intake, and of their deliveries what
	// attempts captured, reasons and notes. Ids, types, times, outcomes and counts stay. An event
	// with a pending delivery is left as it is and returned. An event that is absent, of another
	// tenant, or erased already changes nothing. An erased event is never delivered again: Again
	// refuses it with grapnel.CodeConflict, and Advance creates nothing. Published again, its id is a
	// duplicate if the type is the same, whatever the content. When it returns without error the
	// bytes are no longer in the files of a store of one machine.
	EraseEvents(ctx context.Context, e Erasure) (Erased, error)
	// Reclaim removes the bytes of deleted rows from the files, as far as the store can. It returns
	// what is left to do for its operator; empty: nothing.
	Reclaim(ctx context.Context) (left string, err error)
}

// Erasure says which events EraseEvents empties.
type Erasure struct {
	Tenant string
	Events []int64 // row ids
	At     time.Time
	// Keys removes ordering keys as well, and forgets their lanes at these deliveries' endpoints,
	// unless something waits in them: a lane of the key that begins later goes on above (see Purge).
	Keys bool
}

// Erased is the result of EraseEvents.
type Erased struct {
	Events     int     // emptied by this call
	Deliveries int     // of these events
	Attempts   int     // of these deliveries
	Pending    []int64 // events that have a pending delivery, in the order asked for
}

// Add adds the result of another part of the events.
func (e *Erased) Add(part Erased) {
	e.Events, e.Deliveries, e.Attempts = e.Events+part.Events, e.Deliveries+part.Deliveries, e.Attempts+part.Attempts
	e.Pending = append(e.Pending, part.Pending...)
}

// ErrErased refuses to deliver an event that was erased.
var ErrErased = grapnel.Errorf(grapnel.CodeConflict, "the event was erased: its content is no longer there to deliver")
