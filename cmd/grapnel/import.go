package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/importer"
)

// importing are the flags of the commands of import.
type importing struct {
	url, token, project, bound string
	apply, overwrite           bool
	bounds                     importer.Bounds
}

const importLong = "Without --apply it prints a plan and changes nothing. The plan lists every object that is created or changed, and every " +
	"part that cannot be carried over, with the reason. It can be repeated: objects that are here already stay, and an import that was " +
	"interrupted continues. Objects that were changed both here and there since the last import are kept as they are here, unless " +
	"--overwrite is given. Secrets are kept and never shown. It exits with 9 if some objects were not carried over.\n\n"

func (s *session) importCommand() *cobra.Command {
	return group("import", "Bring endpoints from another system", s.importSvix(), s.importConvoy(), s.importCSV())
}

func (s *session) importSvix() *cobra.Command {
	o := &importing{}
	c := &cobra.Command{
		Use: "svix", Short: "Bring applications, endpoints, secrets and event types from Svix",
		Long: "Bring the applications of a Svix environment as tenants, with their endpoints, secrets and event types. " + importLong +
			"docs/guides/cutover.md leads through the change; docs/svix.md has the names.",
		Example: "grapnel import svix --url https://api.eu.svix.com --token @svix.token\n" +
			"grapnel import svix --url https://api.eu.svix.com --token @svix.token --apply",
		RunE: s.imports(o, func(ctx context.Context, from importer.Remote, _ []string) (*importer.Found, error) {
			return importer.Svix(ctx, from)
		}),
	}
	return needs(s.importFlags(c, o, true), "url")
}

func (s *session) importConvoy() *cobra.Command {
	o := &importing{}
	c := &cobra.Command{
		Use: "convoy", Short: "Bring endpoints, subscriptions and event types of a project from Convoy",
		Long: "Bring the endpoints of a Convoy project with the event types that they subscribe to; an owner becomes a tenant. Convoy signs " +
			"in a way of its own: the secret is kept, and receivers have to verify webhook-signature. " + importLong +
			"It was written to the OpenAPI document of Convoy 26.3.5.",
		Example: "grapnel import convoy --url https://us.getconvoy.cloud --project 01H0J… --token @convoy.token\n" +
			"grapnel import convoy --url https://us.getconvoy.cloud --project 01H0J… --token @convoy.token --apply",
		RunE: s.imports(o, func(ctx context.Context, from importer.Remote, _ []string) (*importer.Found, error) {
			return importer.Convoy(ctx, from, o.project)
		}),
	}
	c.Flags().StringVar(&o.project, "project", "", "id of the project")
	return needs(s.importFlags(c, o, true), "url", "project")
}

func (s *session) importCSV() *cobra.Command {
	o := &importing{}
	c := &cobra.Command{
		Use: "csv @FILE|-", Short: "Bring endpoints from a CSV file",
		Long: "Bring endpoints from a CSV file. Its first line has the names of columns: url, and any of tenant, id, types, secret, " +
			"description, filter, status, rate, format, header.NAME and label.NAME. The id, or without one the URL, is how a row is found again. If any row " +
			"is at fault, all faults are printed with line and column, and nothing is changed. " + strings.TrimSuffix(importLong, "\n\n"),
		Example: "grapnel import csv @endpoints.csv\ngrapnel import csv @endpoints.csv --apply",
		RunE: s.imports(o, func(_ context.Context, _ importer.Remote, args []string) (*importer.Found, error) {
			text, err := s.Content("the file", args[0])
			if err != nil {
				return nil, err
			}
			return importer.CSV(bytes.NewReader(text), o.bounds)
		}),
	}
	return s.importFlags(c, o, false)
}

// importFlags adds the flags that all commands have, or those of a system's API too.
func (s *session) importFlags(c *cobra.Command, o *importing, remote bool) *cobra.Command {
	f := c.Flags()
	if remote {
		f.StringVar(&o.url, "url", "", "address of the other system's API")
		f.StringVar(&o.token, "token", "", "token for the other system's API; or "+tokenVariable)
		cli.Form(f, "TEXT|@FILE|-", "token")
		cli.Secret(f, "token")
	}
	f.BoolVar(&o.apply, "apply", false, "do what the plan says")
	f.BoolVar(&o.overwrite, "overwrite", false, "change objects too that were changed here since the last import")
	f.StringVar(&o.bound, "bound", "", "other limits, of: "+strings.Join(bounds.List(bounds.Fill(importer.Bounds{})), ","))
	cli.Form(f, "NAME=VALUE,…", "bound")
	s.confirmed(c)
	return c
}

// imports runs a command of import: read, compare, and maybe apply.
func (s *session) imports(o *importing,
	read func(context.Context, importer.Remote, []string) (*importer.Found, error),
) func(*cobra.Command, []string) error {
	return s.withReader(func(ctx context.Context, r reader, args []string) error {
		if err := bounds.Parse(o.bound, &o.bounds); err != nil {
			return cli.Usagef("--bound: %v", err)
		}
		from, err := s.remote(o)
		if err != nil {
			return err
		}
		ctx, cancel := r.limited(ctx)
		defer cancel()
		progress := s.Progress()
		from.Tell = func(read int) { progress.Say("%d objects read", read) }
		found, err := read(ctx, from, args)
		progress.Done()
		if err != nil {
			return s.unread(err)
		}
		here, err := importer.Look(ctx, r.Client, found)
		if err != nil {
			return err
		}
		plan := importer.Compare(found, here, o.overwrite)
		for _, note := range plan.Notes {
			s.Note("%s", note)
		}
		if !o.apply {
			s.Note("%s. Nothing was changed; --apply does it.", planned(plan))
			return r.Print(planView(plan))
		}
		return s.applies(ctx, r, plan)
	})
}

// remote is the other system that the flags name.
func (s *session) remote(o *importing) (importer.Remote, error) {
	from := importer.Remote{URL: o.url, Bounds: o.bounds}
	if o.url == "" {
		return from, nil
	}
	token := o.token
	var err error
	if token == "" {
		if token, err = s.SecretVariable(tokenVariable); err != nil {
			return from, err
		}
	}
	if from.Token, err = s.Text("--token", token); err == nil && from.Token == "" {
		err = misused(s.command, "no token: give --token, or set %s", tokenVariable)
	}
	if u, bad := url.Parse(o.url); bad == nil && u.Scheme == "http" && !cli.Loopback(u.Hostname()) {
		s.Note("--url has no https: the token and all secrets cross the network in clear")
	}
	return from, err
}

// applies carries out a plan and prints what became of it.
func (s *session) applies(ctx context.Context, r reader, plan *importer.Plan) error {
	create, change := plan.Count(importer.Create), plan.Count(importer.Change)
	if create+change > 0 {
		if err := s.ConfirmAtTerminal("Create %d and change %d objects?", create, change); err != nil {
			return err
		}
	}
	progress := s.Progress()
	err := importer.Apply(ctx, r.Client, plan, func(done int) { progress.Say("%d of %d done", done, create+change) })
	progress.Done()
	done, failed := 0, 0
	for i := range plan.Items {
		if plan.Items[i].Done {
			done++
		}
		if plan.Items[i].Failure != "" {
			failed++
		}
	}
	if err != nil {
		s.Note("interrupted after %d of %d; the same command continues", done, create+change)
		return cmp.Or(r.Print(planView(plan)), err)
	}
	s.Note("%s. Done: %d.", planned(plan), done)
	left := plan.Count(importer.Skip) + plan.Count(importer.Keep) + failed
	return cmp.Or(r.Print(planView(plan)), cli.Partial("%d objects were not carried over", left).If(left > 0))
}

// unread explains why the other system or the file was not read.
func (s *session) unread(err error) error {
	if refused, is := errors.AsType[*importer.Refused](err); is {
		f := &cli.Fault{Exit: cli.ExitFailure, Code: "import", Text: err.Error() + "; nothing was changed"}
		switch {
		case refused.Status == http.StatusUnauthorized, refused.Status == http.StatusForbidden:
			f.Exit, f.Next = cli.ExitAuth, "Give a token that may read everything with --token."
		case refused.Status == http.StatusNotFound:
			f.Exit, f.Next = cli.ExitNotFound, "Check --url, and the project if there is one."
		case refused.Status == http.StatusTooManyRequests:
			f.Exit, f.Next = cli.ExitRateLimited, "Try again later."
		case refused.Status >= http.StatusInternalServerError:
			f.Exit, f.Next = cli.ExitUnavailable, "Try again later."
		}
		return f
	}
	if errors.Is(err, importer.ErrUnanswered) {
		return &cli.Fault{Exit: cli.ExitUnavailable, Code: "unavailable", Text: err.Error() + "; nothing was changed", Next: "Check --url."}
	}
	if _, is := errors.AsType[*importer.Fault](err); !is {
		return err
	}
	faults := importer.Faults(err)
	for _, one := range faults {
		s.Note("%v", one)
	}
	return cli.Usagef("the file has %d faults; nothing was changed", len(faults))
}
