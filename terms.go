package grapnel

import "time"

// Status is the state of a delivery. Pending and Held are not final; all others are.
type Status string

// Trigger is the cause of an attempt.
type Trigger string

// Secret signs deliveries. Its text form starts with whsec_ (symmetric) or whsk_ (ed25519); see
// package sign. Logs and formatted output redact it.
type Secret struct {
	Text      string
	CreatedAt time.Time
	ExpiresAt time.Time // zero: does not expire
}

// Mark holds notes on a finished delivery. They do not change its outcome.
type Mark struct {
	Note          string
	DiscardedAt   time.Time // an operator has dismissed it; it is no dead letter any more
	DiscardReason string
	ReplayedAt    time.Time // when it was last delivered again
	ReplayedBy    string    // the replay's id; empty: a manual retry
	ReplayedAs    int64     // the new delivery, or the later one by which its event was delivered
	ReplayResult  Status    // outcome of the redelivery; Pending until it is finished
}
