package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/policy"
)

// resolve replaces the names among the arguments and flags of a command by ids. One request finds
// the id of a name; ids, and names that the server takes itself, need none.
func (s *session) resolve(cmd *cobra.Command, args []string) (err error) {
	id := func(text string, kinds ...string) string {
		if t, is := thingOf(kinds[0]); is && !t.direct && err == nil {
			text, err = s.idOf(cmd, text, kinds...)
		}
		return text
	}
	words := strings.Fields(cmd.Use)
	for i := range args {
		args[i] = id(args[i], words[min(i+1, len(words)-1)])
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		kinds := ofFlags[f.Name]
		if kinds == nil || !f.Changed || f.Name == "policy" { // which the server takes by name, or as a document
			return
		}
		if list, many := f.Value.(pflag.SliceValue); many {
			all := list.GetSlice()
			for i := range all {
				all[i] = id(all[i], kinds...)
			}
			_ = list.Replace(all)
			return
		}
		_ = f.Value.Set(id(f.Value.String(), kinds...)) // it is a text
	})
	return err
}

const (
	mostFound = 500 // objects that one search gives
	mostNamed = 10  // of those that an error names
)

// idOf is the id of an object that is given by its name, or by a part of it that no other has. To
// delete one needs its whole name.
func (s *session) idOf(cmd *cobra.Command, text string, kinds ...string) (string, error) {
	_, preset := policy.Preset(text)
	if _, id := thingWithID(text); id || text == "" || preset && slices.Contains(kinds, "POLICY") {
		return text, nil
	}
	r, err := s.reader()
	if err != nil {
		return "", err
	}
	for _, kind := range kinds {
		t, _ := thingOf(kind)
		all, err := r.search(cmd.Context(), &t, text, mostFound)
		if err != nil {
			return "", err
		}
		whole := slices.DeleteFunc(slices.Clone(all), func(f found) bool { return !f.is(text) })
		if len(whole) > 0 || cmd.Name() == "delete" {
			all = whole
		}
		if len(all) == 1 {
			s.labels[all[0].ID] = all[0].label()
			if len(whole) == 0 {
				s.Note("%q is %s", text, s.askedAs(all[0].ID))
			}
			return cmp.Or(all[0].ID, text), nil
		} else if len(all) > 1 {
			return "", ambiguous(&t, text, all)
		}
	}
	t, _ := thingOf(kinds[0])
	return "", &cli.Fault{Exit: cli.ExitNotFound, Code: "not_found", Text: fmt.Sprintf("no %s has the name %q", t.what, text),
		Next: "All: grapnel " + strings.TrimPrefix(t.path, "/v1/") + " list"}
}

func ambiguous(t *thing, text string, all []found) error {
	var names []string
	for i := range all[:min(len(all), mostNamed)] {
		of := map[bool]string{true: ", tenant " + all[i].Tenant}[all[i].Tenant != ""]
		names = append(names, all[i].label()+" ("+all[i].ID+of+")")
	}
	if len(all) > mostNamed {
		names = append(names, fmt.Sprintf("%d more", len(all)-mostNamed))
	}
	return cli.Usagef("%q is the name of several, or a part of it: %s", text, strings.Join(names, "; ")).
		Advise("Give the id of one " + t.what + ".")
}

// search lists objects of a kind whose names have a text in them; empty: the first.
func (r reader) search(ctx context.Context, t *thing, text string, limit int) ([]found, error) {
	q := url.Values{"limit": {fmt.Sprint(limit)}}
	if text != "" {
		q.Set("search", text)
	}
	var page client.Page[found]
	err := r.Do(ctx, http.MethodGet, t.path, q, nil, &page)
	return page.Data, err
}

// askedAs is an id with its name, if that is known.
func (s *session) askedAs(id string) string {
	if name := s.labels[id]; name != "" {
		return name + " (" + id + ")"
	}
	return id
}

// nameWidth is the width of other objects' names in tables.
const nameWidth = 32

// named is what a table for people shows of another object: its name, else its id.
func named(name, id string) string { return cmp.Or(cli.Cut(name, nameWidth), id) }

// withName is what a form shows of another object: its id, and its name if it has one.
func withName(name, id string) string { return strings.TrimSpace(id + "  " + cli.Cut(name, nameWidth)) }
