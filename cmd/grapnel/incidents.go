package main

import (
	"context"

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
	return group("incidents", "Tell readers of the status page about incidents and maintenance",
		append(incidents.commands(s), s.openIncident(), s.planMaintenance(), s.updateIncident(), s.resolveIncident())...)
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

// incidentFlags adds the flags about what an incident touches.
func incidentFlags(c *cobra.Command, in *client.NewIncident) {
	c.Flags().StringVar(&in.Text, "text", "", "first message to the readers; it is public")
	c.Flags().StringVar(&in.Impact, "impact", "", "how bad it is; degraded if not given")
	c.Flags().StringSliceVar(&in.Components, "component", nil, "part that it is about: accepting, delivering, receiving, dashboard; may be repeated")
	cli.Form(c.Flags(), "none|degraded|outage", "impact")
	cli.Form(c.Flags(), "COMPONENT", "component")
	cli.Sets(c.Flags(), "component", "components")
	needs(c, "text")
}

func (s *session) openIncident() *cobra.Command {
	var in client.NewIncident
	var from cli.Moment
	c := &cobra.Command{
		Use: "open TITLE", Short: "Publish an incident on the status page", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel incidents open 'Publishing is slow' --text 'We look into it.' --component accepting",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			in.Title, in.StartsAt = args[0], from.Pointer()
			return viewOf(r, incidentView)(r.OpenIncident(ctx, in))
		}),
	}
	c.Flags().StringVar(&in.Status, "status", "", "state of the work; investigating if not given")
	cli.Form(c.Flags(), "investigating|identified|monitoring", "status")
	c.Flags().Var(from.Past(), "from", "when it began: 2026-01-31T12:00:00Z, or 20m for twenty minutes ago; now if not given")
	cli.Sets(c.Flags(), "from", "starts_at")
	incidentFlags(c, &in)
	return c
}

func (s *session) planMaintenance() *cobra.Command {
	in := client.NewIncident{Kind: "maintenance"}
	var from, to cli.Moment
	c := &cobra.Command{
		Use: "plan TITLE", Short: "Announce planned maintenance on the status page", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel incidents plan 'Database upgrade' --from 2026-12-01T06:00:00Z --to 2026-12-01T06:30:00Z --text 'Publishing pauses for seconds.'",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			in.Title, in.StartsAt, in.EndsAt = args[0], from.Pointer(), to.Pointer()
			return viewOf(r, incidentView)(r.OpenIncident(ctx, in))
		}),
	}
	c.Flags().Var(&from, "from", "when it begins")
	c.Flags().Var(&to, "to", "when it ends")
	cli.Sets(c.Flags(), "from", "starts_at")
	cli.Sets(c.Flags(), "to", "ends_at")
	incidentFlags(c, &in)
	return needs(c, "from", "to")
}

func (s *session) updateIncident() *cobra.Command {
	var up client.NewIncidentUpdate
	var to cli.Moment
	c := &cobra.Command{
		Use: "update INCIDENT_ID", Short: "Add a message to an incident or maintenance", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel incidents update inc_… --status identified --text 'A disk is slow; we move away from it.'",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			up.EndsAt = to.Pointer()
			return viewOf(r, incidentView)(r.UpdateIncident(ctx, args[0], up))
		}),
	}
	c.Flags().StringVar(&up.Text, "text", "", "message to the readers; it is public")
	c.Flags().StringVar(&up.Status, "status", "", "state of the work; as before if not given")
	cli.Form(c.Flags(), "investigating|identified|monitoring|resolved", "status")
	c.Flags().Var(&to, "to", "another end of planned maintenance")
	cli.Sets(c.Flags(), "to", "ends_at")
	return needs(c, "text")
}

func (s *session) resolveIncident() *cobra.Command {
	up := client.NewIncidentUpdate{Status: "resolved"}
	c := &cobra.Command{
		Use: "resolve INCIDENT_ID", Short: "End an incident or maintenance with a last message", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel incidents resolve inc_… --text 'The disk is replaced.'",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			return viewOf(r, incidentView)(r.UpdateIncident(ctx, args[0], up))
		}),
	}
	c.Flags().StringVar(&up.Text, "text", "", "last message to the readers; it is public")
	return needs(c, "text")
}
