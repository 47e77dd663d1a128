package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var eventTypes = resource[client.EventType]{
	path: "/v1/event-types", plural: "event types", id: "TYPE", argument: "name",
	settings: cli.EventTypeSettings, filters: cli.OnlyTenant, asks: cli.TypeOfTenant,
	head: []string{"NAME", "ID", "TENANT", "CHECK", "VERSIONS"},
	row: func(_ reader, t *client.EventType) []string {
		return []string{t.Name, t.ID, t.Tenant, string(t.Check), fmt.Sprint(len(t.Versions))}
	},
	view: viewType,
	verbs: []verb{
		{"list", "List registered event types", ""},
		{"get", "Show an event type and its versions", "grapnel types get invoice.paid"},
		{"create", "Register an event type", "grapnel types create invoice.paid --schema @invoice.json --check refuse"},
		{"update", "Change an event type's settings", "grapnel types update invoice.paid --check refuse"},
		{"delete", "Delete event types with all versions", ""},
	},
}

func (s *session) typesCommand() *cobra.Command {
	return group("types", "Register event types with their schemas, and compare versions",
		append(eventTypes.commands(s), typesPush(s), typesDiff(s))...)
}

func viewType(r reader, t *client.EventType) cli.View {
	rows := [][]string{}
	for _, v := range t.Versions {
		deprecated := ""
		if !v.DeprecatedAt.IsZero() {
			deprecated = "deprecated"
		}
		rows = append(rows, []string{fmt.Sprint(v.Version), r.Time(&v.CreatedAt), deprecated, v.Note})
	}
	more := []cli.Part{{Head: []string{"VERSION", "CREATED", "", "NOTE"}, Rows: rows}}
	if n := len(t.Versions); n > 0 && len(t.Versions[n-1].Schema) > 0 {
		more = append(more, cli.Part{Title: fmt.Sprintf("schema of version %d", n), Text: string(t.Versions[n-1].Schema)})
	}
	return object(t.Name, t.JSON(), [][]string{{"name", t.Name}, {"id", t.ID}, {"tenant", t.Tenant}, {"description", t.Description},
		{"labels", cli.Compact(cli.Encode(t.Labels))}, {"check", string(t.Check)}, {"retain", string(t.Retain)}}, more...)
}

// typesPush adds a version, and registers the type if there is none: a build can run it each time.
func typesPush(s *session) *cobra.Command {
	var v client.NewTypeVersion
	var example, tenant string
	c := &cobra.Command{
		Use:   "push NAME @FILE|-|JSON",
		Short: "Add a version of an event type's schema, and list its changes",
		Long: "Add a version of an event type's schema, and list its changes. Registers the event type if there is none. Changes nothing " +
			"if the newest version has the schema already, so a build can run it each time.",
		Example: "grapnel types push invoice.paid @invoice.schema.json --note 'amounts are integers'",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			var err error
			if v.Schema, err = jsonContent(s, "the schema", args[1]); err != nil {
				return cli.View{}, err
			}
			if example != "" {
				if v.Example, err = jsonContent(s, "--example", example); err != nil {
					return cli.View{}, err
				}
			}
			t, of := new(client.EventType), typesOf(tenant)
			err = r.Do(ctx, http.MethodPost, eventTypes.at(args[0])+"/versions", of, v, t)
			if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusNotFound && !strings.HasPrefix(args[0], "typ_") {
				if err = unshared(ctx, r, args[0], of); err == nil {
					t, err = r.CreateEventType(ctx, client.NewEventType{Name: args[0], Tenant: tenant, Schema: v.Schema, Example: v.Example, Note: v.Note})
				}
			}
			if err != nil {
				return cli.View{}, err
			}
			view := object(t.Name, t.JSON(), [][]string{{"name", t.Name}, {"id", t.ID}, {"version", fmt.Sprint(len(t.Versions))}})
			if len(t.Versions) > 1 {
				found, err := r.CompareTypeVersions(ctx, t.ID, 0, 0)
				if err != nil {
					return cli.View{}, err
				}
				view.Parts = append(view.Parts, differences(found))
			}
			return view, nil
		}),
	}
	c.Flags().StringVar(&example, "example", "", "data that satisfy the schema")
	c.Flags().StringVar(&v.Note, "note", "", "changes of this version, for people")
	c.Flags().StringVar(&tenant, "tenant", "", "tenant that owns it; the tenant of the key if not given, else the only one that has the name, else default")
	return c
}

// typesOf selects the event types of a tenant; empty: of all that the key has.
func typesOf(tenant string) url.Values {
	q := url.Values{}
	if tenant != "" {
		q.Set("tenant", tenant)
	}
	return q
}

// unshared refuses a name that several tenants have: the server finds none of them by it.
func unshared(ctx context.Context, r reader, name string, of url.Values) error {
	if len(of) > 0 {
		return nil
	}
	page, err := r.EventTypes(ctx, client.ListFilter{Search: name, Limit: mostFound})
	if err == nil && slices.ContainsFunc(page.Data, func(t client.EventType) bool { return t.Name == name }) {
		err = cli.Usagef("several tenants have an event type %s: name one with --tenant", name)
	}
	return err
}

func jsonContent(s *session, name, value string) (json.RawMessage, error) {
	text, err := s.Content(name, value)
	if err == nil && !json.Valid(text) {
		err = cli.Usagef("%s is not JSON", name)
	}
	return text, err
}

func typesDiff(s *session) *cobra.Command {
	var from, to int
	var tenant string
	c := &cobra.Command{
		Use: "diff TYPE", Short: "List the differences of two versions",
		Long:    "List the differences of two versions of an event type's schema. Exits with 8 if a difference is breaking for receivers.",
		Example: "grapnel types diff invoice.paid --from 1 --to 3",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			q := typesOf(tenant)
			for name, n := range map[string]int{"from": from, "to": to} {
				if n != 0 {
					q.Set(name, strconv.Itoa(n))
				}
			}
			found := new(client.TypeComparison)
			if err := r.Do(ctx, http.MethodGet, eventTypes.at(args[0])+"/compare", q, nil, found); err != nil {
				return err
			}
			breaking := 0
			for _, d := range found.Differences {
				if d.Breaking {
					breaking++
				}
			}
			return cmp.Or(r.Print(single(args[0], found.JSON(), differences(found))), cli.Findings("%d breaking", breaking).If(breaking > 0))
		}),
	}
	c.Flags().IntVar(&from, "from", 0, "earlier version; the one before --to if not given")
	c.Flags().IntVar(&to, "to", 0, "later version; the newest if not given")
	c.Flags().StringVar(&tenant, "tenant", "", "tenant that owns it, if several have one with this name")
	return c
}

func differences(found *client.TypeComparison) cli.Part {
	part := cli.Part{Title: fmt.Sprintf("version %d compared with version %d", found.To, found.From),
		Head: []string{"FOR RECEIVERS", "FOR PUBLISHERS", "DIFFERENCE", "AT"}}
	for _, d := range found.Differences {
		row := []string{"compatible", "compatible", d.What, d.Pointer}
		if d.Breaking {
			row[0] = "breaking"
		}
		if d.Stricter {
			row[1] = "stricter"
		}
		part.Rows = append(part.Rows, row)
	}
	return part
}
