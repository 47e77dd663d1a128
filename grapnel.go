// Package grapnel holds the words that every room of the house shares: event, endpoint, key, delivery, attempt, outcome,
// tenant. They are types and small pure functions; nothing here does I/O, reads a clock or starts a goroutine.
//
// An event is an immutable fact with frozen bytes. It reaches each endpoint that wants it as one delivery, the thing with a
// status. A delivery is tried by attempts until its endpoint's policy (package policy) says that it is over. Deliveries of one
// key at one endpoint form a lane: they are attempted strictly one after the other, in the order in which they were accepted.
package grapnel

// Version is the version of this source tree. Release builds set it with -ldflags "-X …grapnel.Version=…".
var Version = "0.1.0-dev"

// DefaultTenant owns what is published or created without naming a tenant.
const DefaultTenant = "default"
