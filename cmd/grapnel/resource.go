package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
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
	document bool   // create and update take a whole document as their last argument
	settings []cli.Setting
	needed   []string      // flags that create requires; "a|b": one of the two
	filters  []cli.Setting // flags of list, and the parameters that they set
	asks     []cli.Setting // flags of get, likewise
	always   url.Values    // parameters of each list and get
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
	makers := map[string]func(*session, *cobra.Command){
		"create": t.create, "list": t.list, "get": t.get, "update": t.update, "delete": t.delete,
	}
	for _, v := range t.verbs {
		c := &cobra.Command{Use: v.name, Short: v.short, Example: v.example}
		makers[v.name](s, c)
		all = append(all, c)
	}
	return all
}

func (t *resource[T]) at(id string) string { return t.path + "/" + url.PathEscape(id) }

// takes says which arguments a verb has, in its usage and in the check of their number.
func (t *resource[T]) takes(c *cobra.Command, arguments ...string) {
	c.Use = strings.Join(append([]string{c.Use}, arguments...), " ")
	c.Args = takes(cobra.ExactArgs(len(arguments)))
}

func (t *resource[T]) create(s *session, c *cobra.Command) {
	switch {
	case t.document:
		t.takes(c, "@FILE|-|JSON")
	case t.argument != "":
		t.takes(c, strings.ToUpper(t.argument))
	default:
		t.takes(c)
	}
	cli.Bind(c.Flags(), "create", t.settings)
	c.RunE = s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
		fields, err := t.fields(r, c, args)
		if err != nil {
			return cli.View{}, err
		}
		if t.argument != "" {
			fields[t.argument] = args[0]
		}
		view := t.view
		if t.created != nil {
			view = t.created
		}
		v, err := requested(ctx, r, view, http.MethodPost, t.path, nil, fields)
		if err == nil && t.once != "" {
			s.noteOnce(t.once, t.note)
		}
		return v, err
	})
	needs(c, t.needed...)
}

// requested sends a request and makes the view of its answer.
func requested[T any](ctx context.Context, r reader, view func(reader, *T) cli.View,
	method, path string, q url.Values, in any,
) (cli.View, error) {
	one := new(T)
	return viewOf(r, view)(one, r.Do(ctx, method, path, q, in, one))
}

// fields is the document that the flags and the last argument of create and update make. A flag
// beats the argument.
func (t *resource[T]) fields(r reader, c *cobra.Command, args []string) (map[string]any, error) {
	fields, err := r.world.Fields(c.Flags(), t.settings)
	if err != nil || !t.document {
		return fields, err
	}
	text, err := r.world.Content("the document", args[len(args)-1])
	if err != nil {
		return nil, err
	}
	var doc map[string]json.RawMessage // numbers keep their digits
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, cli.Usagef("the document is not a JSON object: %v", err)
	}
	for name, value := range doc {
		if _, given := fields[name]; !given {
			fields[name] = value
		}
	}
	return fields, nil
}

func (t *resource[T]) list(s *session, c *cobra.Command) {
	var limit int
	var cursor string
	paging(c, &limit, &cursor)
	cli.Bind(c.Flags(), "list", t.filters)
	c.RunE = s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
		q, err := parameters(r, c, t.filters)
		if err != nil {
			return cli.View{}, err
		}
		maps.Copy(q, t.always)
		q.Set("limit", strconv.Itoa(limit))
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		return requested(ctx, r, paged(t.head, t.row), http.MethodGet, t.path, q, nil)
	})
}

// parameters are those of a query that flags set.
func parameters(r reader, c *cobra.Command, settings []cli.Setting) (url.Values, error) {
	fields, err := r.world.Fields(c.Flags(), settings)
	q := url.Values{}
	for name, value := range fields {
		if value != "" && value != false { // as if not given
			q.Set(name, fmt.Sprint(value))
		}
	}
	return q, err
}

func (t *resource[T]) get(s *session, c *cobra.Command) {
	t.takes(c, t.id)
	cli.Bind(c.Flags(), "get", t.asks)
	c.RunE = s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
		q, err := parameters(r, c, t.asks)
		if err != nil {
			return cli.View{}, err
		}
		maps.Copy(q, t.always)
		return requested(ctx, r, t.view, http.MethodGet, t.at(args[0]), q, nil)
	})
}

func (t *resource[T]) update(s *session, c *cobra.Command) {
	if t.document {
		t.takes(c, t.id, "@FILE|-|JSON")
	} else {
		t.takes(c, t.id)
	}
	cli.Bind(c.Flags(), "update", t.settings)
	c.RunE = s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
		fields, err := t.fields(r, c, args)
		if err != nil {
			return cli.View{}, err
		}
		if len(fields) == 0 {
			return cli.View{}, cli.Usagef("nothing to change: give a flag that says what")
		}
		return requested(ctx, r, t.view, http.MethodPatch, t.at(args[0]), nil, removals(fields))
	})
}

// removals makes null of texts that are empty: in a merge patch it removes the field, whatever form
// its texts have.
func removals(fields map[string]any) map[string]any {
	for name, value := range fields {
		switch value := value.(type) {
		case string:
			if value == "" {
				fields[name] = nil
			}
		case map[string]any:
			removals(value)
		}
	}
	return fields
}

// delete asks first on a terminal. A script need not say --yes.
func (t *resource[T]) delete(s *session, c *cobra.Command) {
	c.Use, c.Args = c.Use+" "+t.id+"…", takes(cobra.MinimumNArgs(1))
	var reason string
	var yes bool
	if t.audited {
		reasoned(c, &reason)
	}
	confirmed(c, &yes)
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
		if err := s.ConfirmAtTerminal(yes, "Delete %s %s?", what, strings.Join(named, ", ")); err != nil {
			return err
		}
		return remove(cmd, ids)
	}
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

// levers are commands that show the objects as they are after it.
func (t *resource[T]) levers(s *session, all []lever[T]) (commands []*cobra.Command) {
	for _, l := range all {
		var reason string
		c := &cobra.Command{
			Use: l.name + " " + t.id + "…", Short: l.short, Args: takes(cobra.MinimumNArgs(1)), Example: l.example,
			RunE: s.askEach(t.head, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
				one, err := l.call(r.Client, ctx, id, reason)
				if err != nil {
					return nil, nil, err
				}
				return (*one).JSON(), t.row(r, one), nil
			}),
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

// resumesHeld adds the flag that selects what a restore has paused.
func (t *resource[T]) resumesHeld(s *session, c *cobra.Command) {
	held := c.Flags().Bool("held", false, "all that restore --hold or hold has paused, and no others")
	some, resume := c.Args, c.RunE
	c.Use = strings.TrimSuffix(c.Use, t.id+"…") + "[" + t.id + "…]"
	c.Example = "grapnel " + t.plural + " resume --held"
	c.Args = func(cmd *cobra.Command, args []string) error {
		if *held {
			return takes(cobra.NoArgs)(cmd, args)
		}
		return some(cmd, args)
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
