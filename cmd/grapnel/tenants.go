package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) tenants() *cobra.Command {
	return group("tenants", "See in which cell tenants are, and move them", s.tenantsList(), s.tenantsGet(), s.tenantsMove(), s.tenantsStay())
}

func (s *session) tenantsList() *cobra.Command {
	var limit int
	var cursor string
	return paging(&cobra.Command{
		Use: "list", Short: "List tenants, and in which cell each is",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			p, err := r.Tenants(ctx, limit, cursor)
			if err != nil {
				return cli.View{}, err
			}
			return page(p, []string{"TENANT", "CELL", "STATE", "TO", "SINCE", "TROUBLE"}, func(t client.Tenant) []string {
				return []string{t.Tenant, t.Cell, string(t.State), t.To, r.Time(t.Since), t.Trouble}
			}), nil
		}),
	}, &limit, &cursor)
}

func (s *session) tenantsGet() *cobra.Command {
	return &cobra.Command{
		Use: "get TENANT", Short: "Show in which cell a tenant is, and how far its move is", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			t, err := r.Tenant(ctx, args[0])
			if err != nil {
				return cli.View{}, err
			}
			return tenantView(r, t), nil
		}),
	}
}

func tenantView(r reader, t *client.Tenant) cli.View {
	rows := ""
	if t.Rows > 0 {
		rows = strconv.FormatInt(t.Rows, 10)
	}
	return object(t.Tenant, t.JSON(), [][]string{{"tenant", t.Tenant}, {"cell", t.Cell}, {"state", string(t.State)}, {"to", t.To}, {"from", t.From},
		{"since", r.Time(t.Since)}, {"rows copied", rows}, {"trouble", t.Trouble}, {"move", t.Move}})
}

func (s *session) tenantsMove() *cobra.Command {
	var to, reason string
	var yes, wait bool
	c := &cobra.Command{
		Use: "move TENANT", Short: "Take a tenant to another cell, with all that is its", Args: takes(cobra.ExactArgs(1)),
		Long: "Take a tenant to another cell: nothing new begins for it, what has begun is finished, everything is copied and compared, and the other cell goes on. " +
			"Nothing is lost and each key keeps its order. Until it is there its publishers are told to come again (503), and nothing of it is sent. Other tenants notice nothing.",
		Example: "grapnel tenants move acme --to west --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			r, err := s.reader()
			if err != nil {
				return err
			}
			if err := s.Confirm(yes, "Move tenant %s to cell %s? Until it is there nothing of it is accepted or sent.", args[0], to); err != nil {
				return err
			}
			t, err := r.MoveTenant(ctx, args[0], to, reason)
			if err == nil && wait {
				t, err = s.arrival(ctx, r, t, to)
			}
			if err != nil {
				return err
			}
			return r.Print(tenantView(r, t))
		},
	}
	c.Flags().StringVar(&to, "to", "", "the cell")
	c.Flags().BoolVar(&wait, "wait", false, "wait until it is there")
	reasoned(c, &reason)
	confirmed(c, &yes)
	return needs(c, "to")
}

// arrival waits until a tenant is in the cell that it was to go to.
func (s *session) arrival(ctx context.Context, r reader, t *client.Tenant, to string) (*client.Tenant, error) {
	progress := s.Progress()
	defer progress.Done()
	for {
		progress.Say("%s", onItsWay(t))
		if t.Settled() {
			break
		}
		if err := s.rest(ctx, watchEvery); err != nil {
			return nil, err
		}
		next, err := r.Tenant(ctx, t.Tenant)
		if err = s.patient(ctx, progress, err); err != nil {
			return nil, err
		}
		if next != nil {
			t = next
		}
	}
	if t.Cell != to {
		return nil, &cli.Fault{Exit: cli.ExitFailure, Code: "stayed", Text: fmt.Sprintf("the move was given up: %s is in cell %s", t.Tenant, t.Cell)}
	}
	return t, nil
}

// onItsWay says in a line how far a move is.
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

func (s *session) tenantsStay() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "stay TENANT", Short: "Give a tenant's move up, as long as the other cell has not got it", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			t, err := r.StayTenant(ctx, args[0], reason)
			if err != nil {
				return cli.View{}, err
			}
			return tenantView(r, t), nil
		}),
	}
	reasoned(c, &reason)
	return c
}
