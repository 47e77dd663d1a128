package client

import "context"

// Cluster lists the nodes that share a server's store, and the shards that each owns.
type Cluster struct {
	Raw
	Node string `json:"node"` // the node that answered
	// false: that node does not share its store and owns everything
	Shared bool `json:"shared"`
	Shards int  `json:"shards"` // parts that the endpoints are divided into
	// shards without an owner: nothing of their endpoints is attempted
	Unowned       int      `json:"unowned"`
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

// Cluster reads the nodes that share the server's store. It needs a key with the scope admin that
// is bound to no tenant.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	return get[Cluster](ctx, c, "/v1/cluster", nil)
}
