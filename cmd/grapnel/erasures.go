package main

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var erasures = resource[client.Erasure]{
	path: "/v1/erasures", id: "ERASURE_ID",
	head: []string{"ERASURE", "STATE", "TENANT", "BY", "EVENTS", "STARTED", "FINISHED"},
	row: func(r reader, e *client.Erasure) []string {
		return []string{e.ID, e.State, e.Tenant, e.SelectedBy, strconv.Itoa(e.Counts["events"]), r.Time(&e.StartedAt), r.Time(e.FinishedAt)}
	},
	view: erasureView,
	verbs: []verb{
		{"list", "List erasures, the newest first", ""},
		{"get", "Show an erasure: how far it is, and what may remain", ""},
	},
}

func erasureView(r reader, e *client.Erasure) cli.View {
	rows := [][]string{{"id", e.ID}, {"state", e.State}, {"tenant", e.Tenant}, {"selected by", e.SelectedBy}}
	for _, what := range slices.Sorted(maps.Keys(e.Counts)) {
		rows = append(rows, []string{what, strconv.Itoa(e.Counts[what])})
	}
	rows = append(rows, []string{"started", r.Time(&e.StartedAt)}, []string{"by", e.StartedBy}, []string{"reason", e.Reason},
		[]string{"finished", r.Time(e.FinishedAt)})
	for _, remains := range e.Remains {
		rows = append(rows, []string{"remains", remains})
	}
	return object(e.ID, e.JSON(), rows)
}

func (s *session) erasuresCommand() *cobra.Command {
	return group("erasures", "Erase the content of events", append([]*cobra.Command{erasuresCreate.command(s)}, erasures.commands(s)...)...)
}

var erasuresCreate = call[client.Erasure]{
	use: "create", short: "Erase the content of events; ids, outcomes and counts stay",
	long: "Begin to erase the data, metadata, ordering keys and captured requests and answers of a tenant's events. Pending deliveries of " +
		"them end. It cannot be undone. The job goes on by itself; show it with grapnel erasures get.",
	example: "grapnel erasures create --tenant acme --event-key customer-42 --reason 'ticket 1107' --yes",
	method:  http.MethodPost, path: erasures.path, settings: cli.ErasureSettings, view: erasureView,
	needed: []string{"tenant", "reason", "event-key|metadata|filter"},
	question: func(c *cobra.Command, _ []string) string {
		return "Erase events of tenant " + c.Flag("tenant").Value.String() + "?"
	},
}
