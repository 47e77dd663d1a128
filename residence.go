package grapnel

import "time"

// DefaultCell is the name of the first of the cells that a server serves: the one of --store.
const DefaultCell = "home"

// Residence is the cell of a tenant, as one server sees it.
type Residence struct {
	Tenant  string
	Cell    string // the owner: the cell it leaves, until that has released it
	State   TenancyState
	To      string    // the cell that it is on its way to; empty: it stays
	From    string    // the cell that it came from last
	Move    string    // id of the last move; empty: there was none
	Since   time.Time // of the state; zero: from the beginning
	Rows    int64     // that have been copied so far, if it is this server that copies
	Trouble string    // reason for which the move does not proceed; empty: it does, or none
}

// Settled says whether no move is under way.
func (r Residence) Settled() bool { return r.State == TenancyHere || r.State == TenancyGone }
