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
	// with a pending delivery, or with a dead letter if these are left, stays as it is and is
	// returned. An event that is absent, of another tenant, or erased already changes nothing, unless
	// its key is to go as well. An erased event is never delivered again: Again refuses it with
	// grapnel.CodeConflict, and Advance creates nothing. Published again, its id is a duplicate if the
	// type is the same, whatever the content. When it returns without error the bytes are no longer in
	// the files of a store of one machine.
	EraseEvents(ctx context.Context, e Erasure) (Erased, error)
	// EraseTenant deletes a part of what the store has of a tenant that has ended: its events, the
	// oldest first, with all that hangs on them; then its counts, replays, documents, requests set
	// aside, data key and audit, and its name. More says that it has to be called again. Each call
	// makes short transactions and can be repeated, also after a crash in the middle.
	//
	// It fails with grapnel.CodeConflict, and deletes nothing, while the tenant has a pending
	// delivery, endpoint, source, policy, event type or key. So after a call without More nothing is
	// left but its access records, which the caller deletes, and what TenantErasure.Keeps names. The
	// caller refuses publishers of the tenant. Rows and counts of other tenants do not change. The
	// bytes are in the files until Reclaim. Two kinds of rows cannot be told by tenant, and expire:
	// answers to API keys, and hashes of requests whose events were purged before.
	EraseTenant(ctx context.Context, e TenantErasure) (TenantErased, error)
	// Reclaim removes the bytes of deleted rows from the files, as far as the store can. It may read
	// the whole database. It returns the work that is left to its operator; empty: none.
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
	// LeaveDead leaves events with a dead letter: a failed delivery that was neither discarded nor
	// repeated with success.
	LeaveDead bool
}

// Erased is the result of EraseEvents.
type Erased struct {
	Events     int     // emptied by this call
	Deliveries int     // of these events
	Attempts   int     // of these deliveries
	Pending    []int64 // events that have a pending delivery, or a dead letter if these are left, in the order asked for
}

// Add adds the result of another part of the events.
func (e *Erased) Add(part Erased) {
	e.Events, e.Deliveries, e.Attempts = e.Events+part.Events, e.Deliveries+part.Deliveries, e.Attempts+part.Attempts
	e.Pending = append(e.Pending, part.Pending...)
}

// TenantErasure says what EraseTenant deletes.
type TenantErasure struct {
	Tenant string // not empty, which is the operator
	Limit  int    // rows that one call deletes, about; 1 or more
	After  int64  // TenantErased.After of an earlier call, which saves a search; 0: none
}

// Check refuses an erasure that names no tenant, or would delete nothing.
func (e *TenantErasure) Check() error {
	if e.Tenant == "" || e.Limit < 1 {
		return grapnel.Errorf(grapnel.CodeInvalid, "the end of a tenant needs its name, and a limit of 1 or more")
	}
	return nil
}

// Keeps says whether an entry of the audit stays: those about erasures do, without reasons. The
// newest entry of all stays as well, because the next row id follows from it. If it is another one
// of the tenant, it becomes an erasure without an actor, and a later call deletes it.
func (e *TenantErasure) Keeps(entry *grapnel.AuditEntry) bool {
	return entry.Tenant != e.Tenant || entry.Verb == grapnel.VerbErase && entry.Actor != ""
}

// TenantErased is the result of one call of EraseTenant.
type TenantErased struct {
	Events     int // deleted by this call
	Deliveries int // of these events
	Attempts   int // of these deliveries
	Rows       int // others
	After      int64
	More       bool
}

// ErrTenantHas refuses to erase a tenant that still has something.
func ErrTenantHas(what string) error {
	return grapnel.Errorf(grapnel.CodeConflict, "the tenant still has %s", what)
}

// ErrErased refuses to deliver an event that was erased.
var ErrErased = grapnel.Errorf(grapnel.CodeConflict, "the event was erased: its content is no longer there to deliver")
