package main

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// inContext gives a command the server of the context, unless a flag or a variable names another.
// The context's key goes to its server alone.
func (s *session) inContext(cmd *cobra.Command) error {
	all, err := s.Contexts()
	if err != nil {
		return err
	}
	name := cmp.Or(s.context, all.Current)
	one, is := all.All[name]
	if name == "" || !is && s.context == "" || !is && cmd.Name() == "login" {
		return nil
	} else if !is {
		return noContext(name, all)
	}
	if !cmd.Flags().Changed("server") {
		err = cli.SetFrom(cmd.Flags(), "server", one.Server, "context "+name)
	}
	if s.server == one.Server {
		s.contextKey, s.keyFrom = one.Key, "context "+name
	}
	return err
}

func noContext(name string, all *cli.Contexts) error {
	f := cli.Usagef("there is no context %q", name)
	f.Next = "grapnel login --name " + name + " makes it."
	if near := cli.Nearest(name, slices.Sorted(maps.Keys(all.All)), 1); len(near) > 0 {
		f.Next = "Did you mean " + near[0] + "? All: grapnel context list"
	}
	return f
}

func (s *session) loginCommand() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use: "login", Short: "Keep a server and an API key, for the commands that follow",
		Long: "Keep a server and an API key as a context, in a file for you alone, and use them from now on. The key is asked for, or read " +
			"from standard input, and tried. A flag or variable beats the context.",
		Example: "grapnel login --server https://grapnel.example.com --name prod\ngrapnel login --server http://127.0.0.1:8420 < key.txt",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			s.contextKey = ""
			if s.key, err = s.givenKey(); err == nil && s.key == "" {
				s.key, err = s.Secret("API key for " + s.server + ":")
			}
			if err == nil && s.key == "" {
				err = cli.Usagef("no API key is given")
			}
			if err != nil {
				return err
			}
			r, err := s.reader()
			if err != nil {
				return err
			}
			var me client.Key
			if err := r.Do(cmd.Context(), http.MethodGet, "/v1/whoami", nil, nil, &me); err != nil {
				return err
			}
			all, err := s.Contexts()
			if err != nil {
				return err
			}
			if at, err := url.Parse(r.Server()); err == nil {
				name = cmp.Or(name, at.Host)
			}
			all.All[name], all.Current = cli.Context{Server: r.Server(), Key: s.key}, name
			if err := all.Save(); err != nil {
				return err
			}
			return r.Print(object(name, cli.Encode(shownContext{name, true, r.Server()}), [][]string{{"context", name}, {"server", r.Server()},
				{"key", me.Name}, {"scopes", scopesOf(me.Scopes)}, {"tenant", me.Tenant}}))
		},
	}
	c.Flags().StringVar(&name, "name", "", "name of the context; the server's host if not given")
	return c
}

// shownContext is a context without its key.
type shownContext struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Server  string `json:"server"`
}

func (s *session) contextCommand() *cobra.Command {
	changing := func(use, short string, change func(all *cli.Contexts, name string)) *cobra.Command {
		return &cobra.Command{Use: use + " CONTEXT", Short: short, Example: "grapnel context " + use + " prod",
			RunE: func(_ *cobra.Command, args []string) error {
				all, err := s.Contexts()
				if err != nil {
					return err
				}
				if _, is := all.All[args[0]]; !is {
					return noContext(args[0], all)
				}
				change(all, args[0])
				return all.Save()
			}}
	}
	return group("context", "Choose among the servers that login has kept",
		&cobra.Command{
			Use: "list", Short: "List contexts; the current one is used by commands",
			RunE: s.withPrinter(func(_ context.Context, p *cli.Printer, _ []string) error {
				all, err := s.Contexts()
				if err != nil {
					return err
				}
				var shown []shownContext
				for _, name := range slices.Sorted(maps.Keys(all.All)) {
					shown = append(shown, shownContext{name, name == all.Current, all.All[name].Server})
				}
				return p.Print(list(nil, []string{"CONTEXT", "CURRENT", "SERVER"}, shown, func(c *shownContext) []string {
					return []string{c.Name, yesNo(c.Current), c.Server}
				}))
			}),
		},
		changing("use", "Make a context the current one", func(all *cli.Contexts, name string) { all.Current = name }),
		changing("remove", "Forget a context and its key", func(all *cli.Contexts, name string) { delete(all.All, name) }))
}

// clientSettings are those by which commands talk to a server, with their origins.
func (s *session) clientSettings() []cli.Given {
	key := cli.Given{Name: "key", Value: cli.Hidden}
	switch given, err := s.givenKey(); {
	case err != nil:
		key.Origin = err.Error()
	case s.key+s.apiKey != "":
		key.Origin = "flag"
	case given != "":
		key.Origin = map[bool]string{true: s.keyFrom, false: "GRAPNEL_KEY"}[given == s.contextKey]
	default:
		if key.Origin, given, _ = cli.KeyHere(s.server); given == "" {
			key.Value, key.Origin = "", "none"
		}
	}
	return append(cli.Origins(s.command.Root().PersistentFlags(), "context", "server", "ca", "output", "timeout"), key)
}
