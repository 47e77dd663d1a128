package grapnel

import "time"

// Tenancy says what one cell knows of where a tenant is. A cell that knows nothing of a tenant has it if it is the first of those that a
// server serves, and else does not.
type Tenancy struct {
	Tenant string
	State  TenancyState
	Move   string    // id of the move that led here
	Other  string    // the cell that it goes to, comes from, or has gone to
	Since  time.Time // of the state
	Shifts []Shift   // with TenancyHere: by how much numbers of deliveries have changed when it came
}

// TenancyState is where a tenant is on its way from one cell to another.
type TenancyState string

// The states, in the order in which a move goes through them: the first three in the cell that it leaves, then TenancyArrived in the other one,
// TenancyGone in the first, TenancyHere in the other. At no time do two cells have it.
const (
	TenancyHere    TenancyState = "here"    // it is here, and nothing is special about it
	TenancyClosing TenancyState = "closing" // nothing new begins; what has begun is finished
	TenancySealed  TenancyState = "sealed"  // nothing of it changes any more
	TenancyArrived TenancyState = "arrived" // all of it is here, and nothing changes until the other cell has let go
	TenancyGone    TenancyState = "gone"    // it is in the other cell
)

// Open says whether the tenant's things may begin here.
func (s TenancyState) Open() bool { return s == "" || s == TenancyHere }

// Sealed says whether nothing of the tenant may change here.
func (s TenancyState) Sealed() bool { return !s.Open() && s != TenancyClosing }

// Shift says that deliveries with numbers from First to Last in another cell have that number and By here.
type Shift struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	By    int64 `json:"by"`
}
