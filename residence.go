package grapnel

import "time"

// DefaultCell is the name of the first of the cells that a server serves: the one of --store.
const DefaultCell = "home"

// Residence is the cell of a tenant, as one server sees it.
type Residence struct {
	Tenant  string
	Cell    string // the owner: during a move the old cell, until it has released the tenant
	State   TenancyState
	To      string    // the destination of a move in progress; empty: no move
	From    string    // the cell before the last move
	Move    string    // id of the last move; empty: there was none
	Since   time.Time // of the state; zero: from the beginning
	Rows    int64     // copied so far, if this server makes the copy
	Trouble string    // reason for which the move does not proceed; empty: it does, or none
}

// Settled says whether no move is in progress.
func (r Residence) Settled() bool { return r.State == TenancyHere || r.State == TenancyGone }
