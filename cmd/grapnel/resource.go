package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// resource describes a kind of object of the API. The description makes the commands that create,
// list, get, update and delete such objects, and those that do the same to each of several.
type resource[T answer] struct {
	path     string // "/v1/endpoints"
	plural   string // in the question before deleting
	id       string // how the usage names one: "ENDPOINT"
	argument string // field that create takes as its argument, such as "url"; empty: none
	instead  string // flag of create that stands for the argument; empty: none does
	document bool   // create and update take a whole document as their last argument
	settings []cli.Setting
	needed   []string      // flags that create requires; "a|b": one of the two
	filters  []cli.Setting // flags of list, and the parameters that they set
	asks     []cli.Setting // flags of get, likewise
	always   url.Values    // parameters of each list and get
	fills    int           // see call
	audited  bool          // delete takes a reason
	once     string        // what only the answer of create has: "secret"
	note     string        // printed on stderr with it
	head     []string
	row      func(r reader, one *T) []string
	view     func(r reader, one *T) cli.View
	created  func(r reader, one *T) cli.View // the answer of create; nil: view
	verbs    []verb
	held     func(one *T) (id string, is bool) // whether a restore has paused it; nil: none of this kind
}

// verb is a command of a resource in words. Its name is create, list, get, update or delete.
type verb struct{ name, short, example string }

// commands are those of a resource's verbs.
func (t *resource[T]) commands(s *session) (all []*cobra.Command) {
	for _, v := range t.verbs {
		all = append(all, t.command(s, v))
	}
	return all
}

// command makes that of a verb.
func (t *resource[T]) command(s *session, v verb) *cobra.Command {
	document := ""
	if t.document {
		document = " @FILE|-|JSON"
	}
	one := call[T]{short: v.short, example: v.example, path: t.path + "/*", view: t.view}
	switch v.name {
	case "list":
		return (&call[client.Page[T]]{use: "list", short: v.short, example: v.example, path: t.path, asks: t.filters, always: t.always, paged: true,
			fills: t.fills, view: paged(t.head, t.row)}).command(s)
	case "delete":
		return t.delete(s, v)
	case "get":
		one.use, one.asks, one.always = "get "+t.id, t.asks, t.always
	case "update":
		one.use, one.method, one.settings, one.document = "update "+t.id+document, http.MethodPatch, t.settings, t.document
	case "create":
		one.use, one.method, one.settings, one.document = "create"+document, http.MethodPost, t.settings, t.document
		one.path, one.argument, one.needed, one.once, one.note = t.path, t.argument, t.needed, t.once, t.note
		switch one.instead = t.instead; {
		case t.instead != "":
			one.use += " [" + strings.ToUpper(t.argument) + "]"
		case t.argument != "":
			one.use += " " + strings.ToUpper(t.argument)
		}
		if t.created != nil {
			one.view = t.created
		}
	}
	return one.command(s)
}

func (t *resource[T]) at(id string) string { return t.path + "/" + url.PathEscape(id) }

// delete asks first on a terminal. A script need not say --yes.
func (t *resource[T]) delete(s *session, v verb) *cobra.Command {
	c := &cobra.Command{Use: "delete " + t.id + "…", Short: v.short, Example: v.example}
	var reason string
	if t.audited {
		reasoned(c, &reason)
	}
	s.confirmed(c)
	remove := s.askEach(nil, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
		q := url.Values{}
		if reason != "" {
			q.Set("reason", reason)
		}
		return cli.Encode(struct {
			ID      string `json:"id"`
			Deleted bool   `json:"deleted"`
		}{id, true}), []string{id, "deleted"}, r.Do(ctx, http.MethodDelete, t.at(id), q, nil, nil)
	})
	c.RunE = func(cmd *cobra.Command, ids []string) error {
		what, named := t.plural, make([]string, len(ids))
		for i, id := range ids {
			named[i] = s.askedAs(id)
		}
		if len(ids) == 1 {
			what = singular(what)
		}
		if err := s.ConfirmAtTerminal("Delete %s %s?", what, strings.Join(named, ", ")); err != nil {
			return err
		}
		return remove(cmd, ids)
	}
	return c
}

func singular(plural string) string {
	if stem, is := strings.CutSuffix(plural, "ies"); is {
		return stem + "y"
	}
	return strings.TrimSuffix(plural, "s")
}

// lever is a command that does the same to each of several objects and gives the reason to the
// audit.
type lever[T answer] struct {
	name, short, example string
	call                 func(c *client.Client, ctx context.Context, id, reason string) (*T, error)
	explained            bool // the reason is required
}

func (t *resource[T]) levers(s *session, all []lever[T]) (commands []*cobra.Command) {
	for _, l := range all {
		var reason string
		c := &cobra.Command{
			Use: l.name + " " + t.id + "…", Short: l.short, Example: l.example,
			RunE: t.each(s, func(ctx context.Context, r reader, id string) (*T, error) { return l.call(r.Client, ctx, id, reason) }),
		}
		reasoned(c, &reason)
		if l.explained {
			needs(c, "reason")
		}
		if l.name == "resume" && t.held != nil {
			t.resumesHeld(s, c)
		}
		commands = append(commands, c)
	}
	return commands
}

// each runs a command that does the same to each of several objects, and shows them as they are after
// it.
func (t *resource[T]) each(s *session, do func(ctx context.Context, r reader, id string) (*T, error)) func(*cobra.Command, []string) error {
	return s.askEach(t.head, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
		one, err := do(ctx, r, id)
		if err != nil {
			return nil, nil, err
		}
		return (*one).JSON(), t.row(r, one), nil
	})
}

// resumesHeld adds the flag that selects what a restore has paused.
func (t *resource[T]) resumesHeld(s *session, c *cobra.Command) {
	held := c.Flags().Bool("held", false, "all that restore --hold or hold has paused, and no others")
	resume := c.RunE
	c.Use = strings.TrimSuffix(c.Use, t.id+"…") + "[" + t.id + "…]"
	c.Example = "grapnel " + t.plural + " resume --held"
	c.Args = func(cmd *cobra.Command, args []string) error {
		if *held {
			return takes(cobra.NoArgs)(cmd, args)
		}
		return takes(cobra.MinimumNArgs(1))(cmd, args)
	}
	c.RunE = func(cmd *cobra.Command, ids []string) error {
		if !*held {
			return resume(cmd, ids)
		}
		r, err := s.reader()
		if err != nil {
			return err
		}
		for q := (url.Values{"limit": {"500"}}); ; {
			var page client.Page[T]
			if err := r.Do(cmd.Context(), http.MethodGet, t.path, q, nil, &page); err != nil {
				return err
			}
			for i := range page.Data {
				if id, is := t.held(&page.Data[i]); is {
					ids = append(ids, id)
				}
			}
			if page.Next == "" {
				break
			}
			q.Set("cursor", page.Next)
		}
		if len(ids) == 0 {
			s.Note("no %s are held", t.plural)
			return nil
		}
		return resume(cmd, ids)
	}
}
