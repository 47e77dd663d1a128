package api

import (
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
)

func clusterRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/cluster", scope: grapnel.ScopeAdmin, handle: cluster,
			name: "cluster", tag: serviceTag, summary: "Who shares the store, and who decides about what",
			about: "Endpoints are divided into shards by their id; each shard is decided about by one node at a time. A server whose store is its own is the only node " +
				"and has all of them. Needs a key that is bound to no tenant.",
			gives: map[int]any{200: clusterView{}}},
	}
}

// clusterView is who shares the store.
type clusterView struct {
	Node      string       `json:"node" doc:"the one that says so"`
	Shared    bool         `json:"shared" doc:"false: the store is this node's alone, and so is everything in it"`
	Shards    int          `json:"shards" doc:"that there are; 0: nothing is divided"`
	Unowned   int          `json:"unowned" doc:"shards that no node has: nothing of their endpoints is attempted until one takes them"`
	UnownedAt []int        `json:"unowned_shards" nullable:"false" doc:"which"`
	Nodes     []memberView `json:"nodes" nullable:"false" doc:"that were seen within the last hour"`
}

// memberView is one of the nodes.
type memberView struct {
	ID       string  `json:"id" doc:"another one for each start; deliveries carry it as grapnel-node"`
	Address  string  `json:"address" doc:"where the others reach it"`
	State    string  `json:"state" enum:"up,draining,silent" doc:"draining: it is about to stop, and gives its shards away; silent: it has not been heard of, and others take what it had once its leases are over"`
	Seen     float64 `json:"seen_seconds_ago"`
	Draining bool    `json:"draining"`
	Shards   int     `json:"shards" doc:"that it has"`
	Intended int     `json:"shards_intended" doc:"that it has once all has settled"`
	Lagging  int     `json:"shards_lagging" doc:"of those that it has: it should have renewed them already, and loses them within a third of a lease unless it does"`
}

// cluster is about the whole server, so a key that is bound to one tenant does not see it.
func cluster(a *api, c *call) (answer, error) {
	if c.key.Tenant != "" {
		return answer{}, grapnel.Errorf(codeForbidden, "Nodes are everybody's; the API key is bound to one tenant.")
	}
	var found grapnel.Cluster
	if a.Cluster != nil {
		var err error
		if found, err = a.Cluster(c.Context()); err != nil {
			return answer{}, err
		}
	}
	v := clusterView{Node: found.Asked, Shared: found.Shared, Shards: found.Shards, Unowned: len(found.Free), UnownedAt: append([]int{}, found.Free...),
		Nodes: []memberView{}}
	for _, m := range found.Nodes {
		v.Nodes = append(v.Nodes, memberView{ID: m.ID, Address: m.Address, State: string(m.State), Seen: m.Seen.Round(time.Millisecond).Seconds(),
			Draining: m.State == grapnel.MemberDraining, Shards: m.Shards, Intended: m.Intended, Lagging: m.Lagging})
	}
	return jsonAnswer(http.StatusOK, v), nil
}
