package grapnel

import "time"

// DefaultCell is the name of the first of the cells that a server serves: the one of --store.
const DefaultCell = "home"

// Residence says in which cell a tenant is, as one server sees it.
type Residence struct {
	Tenant  string
	Cell    string // that has it: the one that it leaves until that has let go
	State   TenancyState
	To      string    // the cell that it is on its way to; empty: it stays
	From    string    // the cell that it came from last
	Move    string    // id of the last move; empty: there was none
	Since   time.Time // of the state; zero: from the beginning
	Rows    int64     // that have been copied so far, if it is this server that copies
	Trouble string    // why the move does not go on; empty: it does, or there is none
}

// Settled says whether no move is under way.
func (r Residence) Settled() bool { return r.State == TenancyHere || r.State == TenancyGone }
