package client

import "context"

// Cluster is who shares a server's store, and who decides about what.
type Cluster struct {
	Raw
	Node          string   `json:"node"`           // the one that says so
	Shared        bool     `json:"shared"`         // false: the store is that node's alone, and so is everything in it
	Shards        int      `json:"shards"`         // parts that the endpoints are divided into
	Unowned       int      `json:"unowned"`        // shards that no node has: nothing of their endpoints is attempted
	UnownedShards []int    `json:"unowned_shards"` // which
	Nodes         []Member `json:"nodes"`
}

// Member is one of the nodes.
type Member struct {
	ID       string  `json:"id"` // another one for each start
	Address  string  `json:"address"`
	State    string  `json:"state"` // up, draining or silent
	Seen     float64 `json:"seen_seconds_ago"`
	Draining bool    `json:"draining"`
	Shards   int     `json:"shards"`
	Intended int     `json:"shards_intended"` // that it has once all has settled
	Lagging  int     `json:"shards_lagging"`  // that it should have renewed already
}

// Cluster asks who shares the server's store. It takes a key with the scope admin that is bound to no tenant.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	return get[Cluster](ctx, c, "/v1/cluster", nil)
}
