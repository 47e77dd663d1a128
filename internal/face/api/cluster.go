package api

import (
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

func clusterRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/cluster", scope: grapnel.ScopeAdmin, handle: cluster,
			bound: grapnel.Errorf(codeForbidden, "Nodes serve all tenants; the API key is bound to one tenant."),
			name:  "cluster", tag: serviceTag, summary: "List the nodes that share the store, with their shards",
			about: "Endpoints are divided into shards by their id; one node at a time owns a shard. A server with a store of " +
				"its own is the only node and owns all. Needs a key that is bound to no tenant.",
			gives: map[int]any{200: wire.Cluster{}}},
	}
}

var memberFields = pairOf[grapnel.Member, wire.Member]("Seen", "Draining")

func cluster(a *api, c *call) (answer, error) {
	var found grapnel.Cluster
	if a.Cluster != nil {
		var err error
		if found, err = a.Cluster(c.Context()); err != nil {
			return answer{}, err
		}
	}
	v := wire.Cluster{Node: found.Asked, Shared: found.Shared, Shards: found.Shards, Unowned: len(found.Free), UnownedShards: found.Free}
	for _, m := range found.Nodes {
		member := wire.Member{Seen: m.Seen.Round(time.Millisecond).Seconds(), Draining: m.State == grapnel.MemberDraining}
		memberFields.show(&m, &member)
		v.Nodes = append(v.Nodes, member)
	}
	return jsonAnswer(http.StatusOK, v), nil
}
