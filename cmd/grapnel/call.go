package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// call describes a command that sends one request, made of its arguments and flags, and shows the
// answer.
type call[T any] struct {
	use, short, long, example string

	method   string                                       // empty: GET
	path     string                                       // each * stands for an argument
	argument string                                       // field that the argument sets for which the path has no *; empty: none
	instead  string                                       // flag that stands for that argument; empty: none does
	document bool                                         // the last argument is the request as JSON
	settings []cli.Setting                                // flags, and the fields of the request that they set; nil: none
	fixed    map[string]any                               // fields of every request
	asks     []cli.Setting                                // flags, and the parameters of the query that they set
	always   url.Values                                   // parameters of every request
	needed   []string                                     // flags that are required; "a|b": one of the two
	paged    bool                                         // the answer is a page of a list
	fills    int                                          // pages of the server that make one, as it finds few objects in each; 0: one
	question func(c *cobra.Command, args []string) string // that has to be answered first; nil: none
	once     string                                       // what only this answer has: "secret"
	note     string                                       // printed on stderr with it
	view     func(r reader, one *T) cli.View
}

func (t *call[T]) command(s *session) *cobra.Command {
	c := &cobra.Command{Use: t.use, Short: t.short, Long: t.long, Example: t.example}
	cli.Bind(c.Flags(), c.Name(), t.settings)
	cli.Bind(c.Flags(), c.Name(), t.asks)
	var limit int
	var cursor string
	if t.paged {
		paging(c, &limit, &cursor)
	}
	if t.question != nil {
		s.confirmed(c)
	}
	send := s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
		path, in, err := t.request(r, c, args)
		if err != nil {
			return cli.View{}, err
		}
		q, err := parameters(r, c, t.asks)
		if err != nil {
			return cli.View{}, err
		}
		maps.Copy(q, t.always)
		if t.paged {
			q.Set("limit", strconv.Itoa(limit))
		}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		one := new(T)
		v, err := viewOf(r, t.view)(one, r.Do(ctx, cmp.Or(t.method, http.MethodGet), path, q, in, one))
		if err == nil && t.once != "" {
			s.noteOnce(t.once, t.note)
		}
		return v, err
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s.fills = t.fills
		if t.question != nil {
			if err := s.Confirm("%s", t.question(cmd, args)); err != nil {
				return err
			}
		}
		return send(cmd, args)
	}
	return needs(c, t.needed...)
}

// request is the path and the body of the request; nil: none.
func (t *call[T]) request(r reader, c *cobra.Command, args []string) (path string, in any, err error) {
	for path = t.path; strings.Contains(path, "*"); args = args[1:] {
		path = strings.Replace(path, "*", url.PathEscape(args[0]), 1)
	}
	if t.settings == nil && t.argument == "" {
		return path, nil, nil
	}
	fields, err := r.world.Fields(c.Flags(), t.settings, t.method == http.MethodPatch)
	if err == nil && t.document {
		err = addDocument(r, fields, args[0])
	}
	if err != nil {
		return "", nil, err
	}
	maps.Copy(fields, t.fixed)
	switch {
	case t.argument == "":
	case len(args) > 0:
		fields[t.argument] = args[0]
	case !c.Flags().Changed(t.instead):
		return "", nil, misused(c, "%s needs a %s or --%s", c.CommandPath(), strings.ToUpper(t.argument), t.instead)
	}
	if t.method != http.MethodPatch {
		return path, fields, nil
	}
	return path, removals(fields), cli.Usagef("nothing to change: give a flag that says what").If(len(fields) == 0)
}

// addDocument adds the fields of a document to those of flags, which beat it.
func addDocument(r reader, fields map[string]any, argument string) error {
	text, err := r.world.Content("the document", argument)
	if err != nil {
		return err
	}
	var doc map[string]json.RawMessage // numbers keep their digits
	if err := json.Unmarshal(text, &doc); err != nil {
		return cli.Usagef("the document is not a JSON object: %v", err)
	}
	for name, value := range doc {
		if _, given := fields[name]; !given {
			fields[name] = value
		}
	}
	return nil
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

// parameters are those of a query that flags set.
func parameters(r reader, c *cobra.Command, settings []cli.Setting) (url.Values, error) {
	fields, err := r.world.Fields(c.Flags(), settings, false)
	q := url.Values{}
	for name, value := range fields {
		if value != false { // as if not given
			q.Set(name, fmt.Sprint(value))
		}
	}
	return q, err
}
