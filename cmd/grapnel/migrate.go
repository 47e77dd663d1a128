package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/server"
	"github.com/grapnelhq/grapnel/internal/store/schema"
)

func (s *session) migrateCommand() *cobra.Command {
	c := group("migrate", "Migrate a database to the schema of this program, before a server does",
		migrateStatus(s), migratePlan(s), migrateUp(s))
	c.Long = "Migrate a database to the schema of this program, before a server does. These commands open the database of " +
		"--store and do not talk to a server. A server does the same when it starts; where several use one PostgreSQL, " +
		"migrating first lets them be replaced one after the other."
	return c
}

// migration is a command about the database of a server: it has the settings of one.
func migration(s *session, c *cobra.Command,
	look func(ctx context.Context, o *server.Options) (schema.Status, error), show func(*schema.Status) cli.View,
) *cobra.Command {
	var f serveFlags
	f.offline(c, "store", "store-password-file", "store-password-command")
	c.RunE = s.withPrinter(func(ctx context.Context, p *cli.Printer, _ []string) error {
		if c.Name() != "up" || c.Flags().Changed("timeout") { // steps have no time limit unless --timeout is given
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, s.timeout)
			defer cancel()
		}
		status, err := look(ctx, &f.Options)
		if err != nil {
			return err
		}
		return p.Print(show(&status))
	})
	return c
}

func migrateStatus(s *session) *cobra.Command {
	return migration(s, &cobra.Command{
		Use: "status", Short: "Show the schema of a database, and that of this program",
		Example: "grapnel migrate status --store postgres://grapnel@db/grapnel",
	}, server.Schema, func(st *schema.Status) cli.View { return schemaView(st, schemaState(st)) })
}

func migratePlan(s *session) *cobra.Command {
	return migration(s, &cobra.Command{
		Use: "plan", Short: "List the steps that migrate up would take, and change nothing",
		Long: "List the steps that migrate up would take, and change nothing. The cost of a step is derived from its SQL. A " +
			"heavy step reads or rewrites a whole table, so its time grows with the table. A step that cuts removes " +
			"something that older programs use: stop all of them before it.",
	}, server.Schema, func(st *schema.Status) cli.View {
		v := schemaView(st, schemaState(st))
		if rows := stepRows(st); len(rows) > 0 {
			v.Parts = []cli.Part{{Head: []string{"STEP", "NAME", "COST", "DOES", "ABOUT"}, Rows: rows}}
			v.Items = nil
			for i := range st.Steps {
				v.Items = append(v.Items, cli.Item{Name: st.Steps[i].Name, JSON: cli.Encode(viewStep(&st.Steps[i]))})
			}
		}
		return v
	})
}

func migrateUp(s *session) *cobra.Command {
	return migration(s, &cobra.Command{
		Use: "up", Short: "Take the steps that are missing",
		Long: "Take the steps that are missing. All of them are one transaction: if one fails, the database is unchanged. With " +
			"PostgreSQL, of several processes that try at once, one does it while the others wait. With SQLite no server may " +
			"have the database open, and a missing file is created. Only a backup leads back.",
	}, server.Migrate, func(before *schema.Status) cli.View {
		after := schema.Status{Place: before.Place, Has: before.Knows, Knows: before.Knows}
		if len(before.Steps) == 0 {
			return schemaView(&after, schemaState(&after))
		}
		return schemaView(&after, fmt.Sprintf("brought from schema %d to %d", before.Has, before.Knows))
	})
}

func schemaState(st *schema.Status) string {
	switch {
	case st.Has == 0:
		return fmt.Sprintf("empty: %d steps to take", len(st.Steps))
	case len(st.Steps) == 0:
		return "up to date"
	}
	return fmt.Sprintf("behind: %d steps to take", len(st.Steps))
}

// stepView is a step in JSON.
type stepView struct {
	Number int      `json:"number"`
	Name   string   `json:"name"`
	About  string   `json:"about"`
	Does   []string `json:"does"`
	Heavy  bool     `json:"heavy"`
	Cuts   bool     `json:"cuts"`
}

func viewStep(p *schema.Planned) stepView {
	return stepView{p.Number, p.Name, p.About, append([]string{}, p.Does...), p.Heavy, p.Cuts}
}

func schemaView(st *schema.Status, state string) cli.View {
	steps := []stepView{}
	for i := range st.Steps {
		steps = append(steps, viewStep(&st.Steps[i]))
	}
	doc := cli.Encode(struct {
		Place   string     `json:"place"`
		Has     int        `json:"schema"`
		Knows   int        `json:"program_schema"`
		Version string     `json:"program_version"`
		Steps   []stepView `json:"steps"`
	}{st.Place, st.Has, st.Knows, grapnel.Version, steps})
	rows := [][]string{
		{"database", st.Place}, {"schema", strconv.Itoa(st.Has)}, {"this program", strconv.Itoa(st.Knows)}, {"state", state},
	}
	return object(st.Place, doc, rows)
}

func stepRows(st *schema.Status) [][]string {
	rows := make([][]string, len(st.Steps))
	for i := range st.Steps {
		p := &st.Steps[i]
		var cost []string
		if p.Heavy {
			cost = append(cost, "heavy")
		}
		if p.Cuts {
			cost = append(cost, "cuts")
		}
		rows[i] = []string{strconv.Itoa(p.Number), p.Name, strings.Join(cost, ","), strings.Join(p.Does, "; "), p.About}
	}
	return rows
}
