// Package grapnel defines the terms that all packages share: event, endpoint, key, delivery,
// attempt, outcome, tenant. They are types and small pure functions; nothing here does I/O, reads a
// clock or starts a goroutine.
//
// An event is an immutable fact with frozen bytes. It reaches each endpoint that wants it as one
// delivery, which has a status. A delivery is tried by attempts until its endpoint's policy
// (package policy) finishes it. The deliveries of one key at one endpoint form a lane: they are
// attempted strictly one after the other, in the order in which their events were accepted.
package grapnel

// Version is the version of this source tree. Release builds set it with -ldflags "-X
// …grapnel.Version=…".
var Version = "0.1.0-dev"

// DefaultTenant owns the objects that are created without naming a tenant.
const DefaultTenant = "default"

// Status is the state of a delivery. Pending and Held are not final; all others are.
type Status string

// Trigger is the cause of an attempt.
type Trigger string
