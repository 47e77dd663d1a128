package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// Tenant is the location of a tenant among a server's cells.
type Tenant struct {
	Raw
	Tenant  string               `json:"tenant"`
	Cell    string               `json:"cell" doc:"that has it; while it moves, the one that it leaves until that has let go"`
	State   grapnel.TenancyState `json:"state" enum:"here,closing,sealed,arrived,gone" doc:"closing: attempts in flight finish; sealed: its rows are copied; arrived: all rows are in the other cell, which is about to open the tenant; gone: it is in a cell that this server does not serve"`
	To      string               `json:"to" nullable:"true" doc:"the cell that it is on its way to"`
	From    string               `json:"from" nullable:"true" doc:"the cell that it came from last"`
	Move    string               `json:"move" nullable:"true" doc:"id of its last move; null: it has always been there"`
	Since   *time.Time           `json:"since" nullable:"true" doc:"of the state"`
	Rows    int64                `json:"rows" doc:"copied so far, if this server copies"`
	Trouble string               `json:"trouble" nullable:"true" doc:"why the move is stuck; it is retried until it succeeds"`
}

// MarshalJSON writes the tenant as the API does.
func (t Tenant) MarshalJSON() ([]byte, error) { return Encode(t) }

// Settled says whether no move is under way.
func (t *Tenant) Settled() bool {
	return t.State == grapnel.TenancyHere || t.State == grapnel.TenancyGone
}

// Cluster lists the nodes that share a server's store, and the shards that each owns.
type Cluster struct {
	Raw
	Node          string   `json:"node" doc:"the one that says so"`
	Shared        bool     `json:"shared" doc:"false: the store is this node's alone, and so is everything in it"`
	Shards        int      `json:"shards" doc:"that there are; 0: nothing is divided"`
	Unowned       int      `json:"unowned" doc:"shards that no node has: nothing of their endpoints is attempted until one takes them"`
	UnownedShards []int    `json:"unowned_shards" doc:"which"`
	Nodes         []Member `json:"nodes" doc:"that were seen within the last hour"`
}

// MarshalJSON writes the cluster as the API does.
func (c Cluster) MarshalJSON() ([]byte, error) { return Encode(c) }

// Member is one of the nodes.
type Member struct {
	ID       string  `json:"id" doc:"another one for each start; deliveries carry it as grapnel-node"`
	Address  string  `json:"address" doc:"where the others reach it"`
	State    string  `json:"state" enum:"up,draining,silent" doc:"draining: it is about to stop, and releases its shards; silent: it has not reported, and other nodes take its shards once its leases have expired"`
	Seen     float64 `json:"seen_seconds_ago"`
	Draining bool    `json:"draining"`
	Shards   int     `json:"shards" doc:"that it has"`
	Intended int     `json:"shards_intended" doc:"that it has once all has settled"`
	Lagging  int     `json:"shards_lagging" doc:"of those that it has: it should have renewed them already, and loses them within a third of a lease unless it does"`
}

// Fault is one thing that is wrong with a request.
type Fault struct {
	Pointer string `json:"pointer" doc:"a JSON pointer into the body, ?name for a query parameter, or the name of a header"`
	Detail  string `json:"detail"`
}
