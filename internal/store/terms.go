package store

import "time"

// Once makes a call happen once for an idempotency key: the answer is stored in the same
// transaction as the effect. If the key is stored with the same fingerprint, the call has no effect
// and returns the stored answer; with another fingerprint it fails with grapnel.CodeMismatch.
type Once struct {
	Key         string    // API key id, or PassKeys and the pass's id, and idempotency key, joined
	Fingerprint [32]byte  // of method, path and body
	Expires     time.Time // from this instant on the answer is ignored
	// Answer builds the answer to store. It runs inside the transaction, so it must not call the
	// store. done is the result about to be returned (Accepted, Redelivered or Put); Remember has
	// none. The store sets the answer's Fingerprint.
	Answer func(done any) Answer
	Now    time.Time // answers that have expired at this time are ignored
}

// Answered is a Once whose answer is known before the call, as plain data. Its key is not looked up
// first: the answer is stored with the effect, unless the key has one.
type Answered struct {
	Key          string
	Answer       Answer
	Expires, Now time.Time
}

// Answer is a stored answer to an HTTP request.
type Answer struct {
	Fingerprint [32]byte
	Status      int
	Body        []byte
}

// Identity distinguishes a delivery from every other one that ever had its row id.
//
// A database that lost its last transactions (a failover to a standby that was behind, a backup
// restored under running nodes) gives the lost row ids to other deliveries. What a node remembers
// by row id is then about another delivery. No two deliveries with one row id have the same
// Identity: the second is created after the loss, so CreatedAt differs. It breaks only if a clock,
// set back, meets the same microsecond again for the same event row id and the same endpoint.
//
// All three values are in the row of a pending delivery, so comparing them costs no look-up.
type Identity struct {
	Event     int64 // its row id
	Endpoint  string
	CreatedAt time.Time
}

// Settlement names the lease of a change.
type Settlement struct {
	Token string
	Over  bool // the change records the lease's expiry and applies only after it; false: it applies only before. At is the time that counts
}
