package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func (s *session) clusterCommand() *cobra.Command {
	return group("cluster", "Look at the nodes that share a database", clusterStatus.command(s), clusterSettings.command(s))
}

var clusterSettings = call[client.Settings]{
	use: "settings", short: "Show the settings that the server runs with", path: "/v1/settings",
	view: func(_ reader, found *client.Settings) cli.View {
		return list(found.JSON(), []string{"SETTING", "VALUE", "MEANING"}, found.Settings, func(one *client.Setting) []string {
			return []string{one.Name, one.Value, one.Doc}
		})
	},
}

var clusterStatus = call[client.Cluster]{
	use: "status", short: "Show nodes and how many shards each owns", path: "/v1/cluster",
	long: "Show the nodes that share a PostgreSQL database, and how many shards of the endpoints each owns. LAGGING " +
		"counts shards that the node should have renewed already; SETTLED counts those that it will own once no shard " +
		"changes hands any more. Nothing is attempted for the endpoints of a shard without an owner.",
	view: func(_ reader, c *client.Cluster) cli.View {
		head := []string{"NODE", "ADDRESS", "STATE", "SEEN", "SHARDS", "SETTLED", "LAGGING"}
		v := list(c.JSON(), head, c.Nodes, func(m *client.Member) []string {
			seen := time.Duration(m.Seen * float64(time.Second)).Round(100 * time.Millisecond).String()
			row := []string{m.ID, m.Address, m.State, seen, strconv.Itoa(m.Shards), strconv.Itoa(m.Intended), strconv.Itoa(m.Lagging)}
			if !c.Shared {
				row = append(row[:3], "", "all", "all", "")
			}
			return row
		})
		v.Parts[0].Title = clusterTitle(c)
		return v
	},
}

// clusterTitle is the state of the cluster in a sentence.
func clusterTitle(c *client.Cluster) string {
	if !c.Shared {
		return "single node"
	}
	up, lagging := 0, 0
	for _, m := range c.Nodes {
		lagging += m.Lagging
		if m.State == "up" {
			up++
		}
	}
	text := fmt.Sprintf("%d of %d nodes are up, all of %d shards have an owner", up, len(c.Nodes), c.Shards)
	if c.Unowned > 0 {
		text = fmt.Sprintf("%d of %d nodes are up, %d of %d shards have no owner: no attempts are made for their endpoints",
			up, len(c.Nodes), c.Unowned, c.Shards)
	}
	if lagging > 0 {
		text += fmt.Sprintf("; %d are about to be lost", lagging)
	}
	return text
}
