package grapnel

import "time"

// Tenancy is one cell's record of a tenant's location. A tenant without a record is in the first
// cell that a server serves.
type Tenancy struct {
	Tenant string
	State  TenancyState
	Move   string    // id of the move that led here
	Other  string    // the cell that it moves to, comes from, or has moved to
	Since  time.Time // of the state
	// with TenancyHere: the offsets added to row ids of deliveries when it was imported
	Shifts []Shift
}

// TenancyState is the state of a tenant in a cell, before, during and after a move.
type TenancyState string

// The states, in the order of a move: the first three in the cell that the tenant leaves, then
// TenancyArrived in the other one, TenancyGone in the first, TenancyHere in the other. At no time
// do two cells own it.
const (
	TenancyHere    TenancyState = "here"    // no move in progress
	TenancyClosing TenancyState = "closing" // no new work begins; work in progress is finished
	TenancySealed  TenancyState = "sealed"  // none of its rows change any more
	// all rows are here; none change until the other cell has released it
	TenancyArrived TenancyState = "arrived"
	TenancyGone    TenancyState = "gone" // it is in the other cell
)

// Open says whether new work of the tenant may begin here.
func (s TenancyState) Open() bool { return s == "" || s == TenancyHere }

// Sealed says whether the tenant's rows must not change here.
func (s TenancyState) Sealed() bool { return !s.Open() && s != TenancyClosing }

// Shift says that deliveries with row ids from First to Last in another cell have that row id plus
// By here.
type Shift struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	By    int64 `json:"by"`
	// of the ids made there; nil: they contained the row ids unencrypted
	Key *IDKey `json:"key,omitempty"`
}
