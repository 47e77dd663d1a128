package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/cli"
	"github.com/grapnelhq/grapnel/internal/server"
	"github.com/grapnelhq/grapnel/internal/store/schema"
)

func (s *session) migrate() *cobra.Command {
	c := group("migrate", "Bring a database to the tables of this program, before a server does",
		s.migrateStatus(), s.migratePlan(), s.migrateUp())
	c.Long = "Bring a database to the tables of this program, before a server does. These commands open the database that --store names and do not talk to a " +
		"server. A server that is started does the same by itself; where several use one PostgreSQL, doing it first is what lets them be replaced one after the other."
	return c
}

// migration is a command about the database that a server would use: its settings come from where a server's do.
func (s *session) migration(c *cobra.Command, look func(ctx context.Context, store string) (schema.Status, error), show func(*schema.Status) cli.View) *cobra.Command {
	var f serveFlags
	f.add(c.Flags(), server.DefaultListen, server.DefaultStore)
	c.Flags().VisitAll(func(flag *pflag.Flag) { flag.Hidden = flag.Name != "store" && flag.Name != "config" })
	c.Args = takes(cobra.NoArgs)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := s.NewPrinter(s.output, s.jq)
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		if c.Name() != "up" || cmd.Flags().Changed("timeout") { // steps take as long as they take, unless somebody has said otherwise
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, s.timeout)
			defer cancel()
		}
		status, err := look(ctx, f.store)
		if err != nil {
			return err
		}
		return p.Print(show(&status))
	}
	return c
}

func (s *session) migrateStatus() *cobra.Command {
	return s.migration(&cobra.Command{
		Use: "status", Short: "Say which schema a database has, and which this program knows",
		Example: "grapnel migrate status --store postgres://grapnel@db/grapnel",
	}, server.Schema, func(st *schema.Status) cli.View { return schemaView(st, schemaState(st)) })
}

func (s *session) migratePlan() *cobra.Command {
	return s.migration(&cobra.Command{
		Use: "plan", Short: "List the steps that migrate up would take, and change nothing",
		Long: "List the steps that migrate up would take, and change nothing. What a step does to tables that are there is read off its SQL. A step that is heavy reads " +
			"or rewrites a whole table, which takes the longer the more is in it. One that cuts takes something away that an older program may still want: before it, " +
			"stop all of those.",
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

func (s *session) migrateUp() *cobra.Command {
	return s.migration(&cobra.Command{
		Use: "up", Short: "Take the steps that are missing",
		Long: "Take the steps that are missing. With PostgreSQL all of them are one transaction, and of several that try at once one does it while the others wait. With SQLite " +
			"each is a transaction, no server may have the database, and one that is not there is made. There is no way back but a backup.",
	}, server.Migrate, func(before *schema.Status) cli.View {
		after := schema.Status{Place: before.Place, Has: before.Knows, Knows: before.Knows, Problems: before.Problems}
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

// stepView is a step as it is shown.
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
		// Problems are rows that a person must see to, as sentences.
		Problems []string `json:"problems"`
	}{st.Place, st.Has, st.Knows, grapnel.Version, steps, append([]string{}, st.Problems...)})
	rows := [][]string{
		{"database", st.Place}, {"schema", strconv.Itoa(st.Has)}, {"this program", strconv.Itoa(st.Knows)}, {"state", state},
	}
	for _, problem := range st.Problems {
		rows = append(rows, []string{"problem", problem})
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
