package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

var tenants = resource[client.Tenant]{
	path: "/v1/tenants", id: "TENANT",
	head: []string{"TENANT", "CELL", "STATE", "TO", "SINCE", "TROUBLE"},
	row: func(r reader, t *client.Tenant) []string {
		return []string{t.Tenant, t.Cell, string(t.State), t.To, r.Time(t.Since), t.Trouble}
	},
	view:  tenantView,
	verbs: []verb{{"list", "List tenants and their cells", ""}, {"get", "Show a tenant's cell and its move", ""}},
}

func (s *session) tenantsCommand() *cobra.Command {
	return group("tenants", "Show the cells of tenants, move them, and open their portals",
		append(tenants.commands(s), tenantsMove(s), tenantsCancelMove(s), tenantsPortalLink(s), tenantsRevokeLinks(s))...)
}

func tenantView(r reader, t *client.Tenant) cli.View {
	return object(t.Tenant, t.JSON(), [][]string{
		{"tenant", t.Tenant}, {"cell", t.Cell}, {"state", string(t.State)}, {"to", t.To}, {"from", t.From},
		{"since", r.Time(t.Since)}, {"rows copied", positive(t.Rows)}, {"trouble", t.Trouble}, {"move", t.Move},
	})
}

func tenantsMove(s *session) *cobra.Command {
	var to, reason string
	var yes, wait bool
	c := &cobra.Command{
		Use: "move TENANT", Short: "Move a tenant and all of its rows to another cell", Args: takes(cobra.ExactArgs(1)),
		Long: "Move a tenant to another cell. Its attempts in flight finish, no new ones begin, its rows are copied and " +
			"compared, and the other cell continues. Nothing is lost and each key keeps its order. Until the move is " +
			"finished, its publishers get 503 and nothing is sent for it. Other tenants are not affected.",
		Example: "grapnel tenants move acme --to west --wait",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			err := s.Confirm(yes, "Move tenant %s to cell %s? Until the move is finished nothing is accepted or sent for it.", args[0], to)
			if err != nil {
				return err
			}
			t, err := r.MoveTenant(ctx, args[0], to, reason)
			if err == nil && wait {
				t, err = arrival(ctx, r, t, to)
			}
			if err != nil {
				return err
			}
			return r.Print(tenantView(r, t))
		}),
	}
	c.Flags().StringVar(&to, "to", "", "cell to move it to")
	c.Flags().BoolVar(&wait, "wait", false, "wait until the move is finished")
	reasoned(c, &reason)
	confirmed(c, &yes)
	return needs(c, "to")
}

// arrival waits until a move is finished.
func arrival(ctx context.Context, r reader, t *client.Tenant, to string) (*client.Tenant, error) {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	t, err := until(ctx, r, t, func(t *client.Tenant) (string, bool) { return onItsWay(t), t.Settled() },
		func() (*client.Tenant, error) { return r.Tenant(ctx, t.Tenant) })
	if err == nil && t.Cell != to {
		err = &cli.Fault{Exit: cli.ExitFailure, Code: "stayed",
			Text: fmt.Sprintf("the move was cancelled: %s is in cell %s", t.Tenant, t.Cell)}
	}
	return t, err
}

// onItsWay is the progress of a move in a line.
func onItsWay(t *client.Tenant) string {
	text := fmt.Sprintf("%s %s in %s", t.Tenant, t.State, t.Cell)
	if t.Rows > 0 {
		text += fmt.Sprintf("  %d rows copied", t.Rows)
	}
	if t.Trouble != "" {
		text += "  (" + t.Trouble + ")"
	}
	return text
}

func tenantsCancelMove(s *session) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "cancel-move TENANT", Aliases: []string{"stay"}, Short: "Cancel a move that is not finished", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			return viewOf(r, tenantView)(r.StayTenant(ctx, args[0], reason))
		}),
	}
	reasoned(c, &reason)
	return c
}
