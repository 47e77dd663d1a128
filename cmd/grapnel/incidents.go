package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var incidents = resource[client.Incident]{
	path: "/v1/incidents", id: "INCIDENT_ID",
	head: []string{"ID", "STATUS", "KIND", "IMPACT", "FROM", "TO", "TITLE"},
	row: func(r reader, in *client.Incident) []string {
		return []string{in.ID, in.Status, in.Kind, in.Impact, r.Time(&in.StartsAt), r.Time(in.EndsAt), in.Title}
	},
	view:  incidentView,
	verbs: []verb{{"list", "List incidents and maintenance, the newest first", ""}, {"get", "Show an incident with its messages", ""}},
}

func (s *session) incidentsCommand() *cobra.Command {
	all := incidents.commands(s)
	for _, one := range incidentCalls {
		all = append(all, one.command(s))
	}
	return group("incidents", "Tell readers of the status page about incidents and maintenance", all...)
}

func incidentView(r reader, in *client.Incident) cli.View {
	var updates [][]string
	for _, u := range in.Updates {
		updates = append(updates, []string{r.Time(&u.At), u.Status, u.Text})
	}
	return object(in.ID, in.JSON(), [][]string{
		{"id", in.ID}, {"title", in.Title}, {"status", in.Status}, {"kind", in.Kind}, {"impact", in.Impact},
		{"from", r.Time(&in.StartsAt)}, {"to", r.Time(in.EndsAt)},
	}, cli.Part{Title: "Messages", Head: []string{"AT", "STATUS", "TEXT"}, Rows: updates})
}

var incidentCalls = []call[client.Incident]{
	{use: "open TITLE", short: "Publish an incident on the status page", method: http.MethodPost, path: incidents.path, argument: "title",
		example:  "grapnel incidents open 'Publishing is slow' --text 'We look into it.' --component accepting",
		settings: cli.IncidentSettings, needed: []string{"text"}, view: incidentView},
	{use: "plan TITLE", short: "Announce planned maintenance on the status page", method: http.MethodPost, path: incidents.path, argument: "title",
		example:  "grapnel incidents plan 'Database upgrade' --from 2026-12-01T06:00:00Z --to 2026-12-01T06:30:00Z --text 'Publishing pauses for seconds.'",
		settings: cli.IncidentSettings, fixed: map[string]any{"kind": "maintenance"}, needed: []string{"from", "to", "text"}, view: incidentView},
	{use: "update INCIDENT_ID", short: "Add a message to an incident or maintenance", method: http.MethodPost, path: incidents.path + "/*/updates",
		example:  "grapnel incidents update inc_… --status identified --text 'A disk is slow; we move away from it.'",
		settings: cli.IncidentUpdateSettings, needed: []string{"text"}, view: incidentView},
	{use: "resolve INCIDENT_ID", short: "End an incident or maintenance with a last message", method: http.MethodPost, path: incidents.path + "/*/updates",
		example:  "grapnel incidents resolve inc_… --text 'The disk is replaced.'",
		settings: cli.IncidentUpdateSettings, fixed: map[string]any{"status": "resolved"}, needed: []string{"text"}, view: incidentView},
}
