package main

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/base/search"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/inbound/byhand"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// The bounds of a completion: a shell waits for it, so a slow server gives none.
const (
	completesFor  = 700 * time.Millisecond
	mostCompleted = 50
)

// choices are the values of flags and arguments whose usage does not list them.
var choices = map[string]func(before []string) []string{
	"scheme": schemes, "SCHEME": schemes,
	"error-class": func([]string) []string { return search.Values("error") },
	"reason-code": func([]string) []string { return search.Values("reason") },
	"rule":        rules, "RULE": rules,
	"severity": func([]string) []string { return []string{"page", "warning", "info"} },
	"scope": func([]string) []string {
		return []string{"publish", "read", "manage", "replay", "consume", "admin"}
	},
	"dedupe":  func([]string) []string { return []string{"event_id", "delivery_id", "content", "none"} },
	"FIXTURE": fixtures,
}

func schemes([]string) (all []string) {
	for _, one := range scheme.All() {
		all = append(all, one.Name+"\t"+one.Title)
	}
	return all
}

func rules([]string) (all []string) {
	for _, one := range alert.Rules() {
		all = append(all, one.Name+"\t"+one.Title)
	}
	return all
}

// fixtures are the types of the scheme before them.
func fixtures(before []string) (all []string) {
	found, _ := byhand.Fixtures(strings.Join(before, ""))
	for _, one := range found {
		all = append(all, one.Type+"\t"+one.About)
	}
	return all
}

// completes gives all commands below one the completion of their values. Only a shell that asks for
// completions needs it.
func (s *session) completes(c *cobra.Command) {
	for _, sub := range c.Commands() {
		s.completes(sub)
	}
	words := strings.Fields(c.Use)[1:]
	c.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(words) == 0 || len(args) >= len(words) && !strings.Contains(words[len(words)-1], "…") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		word := strings.Trim(words[min(len(args), len(words)-1)], "[]…")
		if c.Name() == "trigger" && word == "TYPE" {
			word = "FIXTURE"
		}
		return s.complete(cmd, word, word, args, typed)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		_ = c.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return s.complete(cmd, f.Name, cli.FormOf(f), args, typed)
		})
	})
}

// listed is a form that lists its values: "table|json".
var listed = regexp.MustCompile(`^[a-z0-9_:.-]+(\|[a-z0-9_:.-]+)+$`)

// complete gives the values of a flag or of an argument that begin with a typed text; after a comma
// they continue a list.
func (s *session) complete(cmd *cobra.Command, name, form string, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	typed = typed[len(before):]
	var all []string
	kinds := ofFlags[name]
	if t, is := thingOf(name); is {
		kinds = []string{t.word}
	} else if name == "ID" {
		kinds = ofFlags["endpoint"]
	} else if word, also := strings.CutPrefix(form, "URL|"); also {
		kinds = []string{word}
	}
	switch {
	case choices[name] != nil:
		all = choices[name](args)
	case listed.MatchString(form):
		all = strings.Split(form, "|")
	case name == "CONTEXT" || name == "context":
		if known, err := s.Contexts(); err == nil {
			all = slices.Sorted(maps.Keys(known.All))
		}
	case len(kinds) > 0:
		all = s.completeNames(cmd, kinds, typed)
	case strings.Contains(form, "FILE"), strings.Contains(form, "PATH"), strings.Contains(form, "COMMAND"):
		return nil, cobra.ShellCompDirectiveDefault
	}
	var fit []string
	for _, one := range all {
		if strings.HasPrefix(strings.ToLower(one), strings.ToLower(typed)) {
			fit = append(fit, before+one)
		}
	}
	return fit, cobra.ShellCompDirectiveNoFileComp
}

// completeNames asks the server for names, or for ids if one is begun. Every failure is silence: a
// shell shows the line that is typed.
func (s *session) completeNames(cmd *cobra.Command, kinds []string, typed string) (all []string) {
	s.command = cmd
	if s.Settle(cmd.Flags()) != nil {
		return nil
	}
	s.timeout, s.retries = completesFor, -1
	r, err := s.reader()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completesFor)
	defer cancel()
	for _, kind := range kinds {
		t, _ := thingOf(kind)
		if t.path == "" {
			continue
		}
		if cmd.HasParent() && cmd.Parent().Name() == "dlq" && t.prefix == grapnel.DeliveryPrefix+"_" {
			t.path = "/v1/dead-letters"
		}
		asked := typed
		if !t.named {
			asked = ""
		}
		found, err := r.search(ctx, &t, asked, mostCompleted)
		if err != nil {
			return all
		}
		for i := range found {
			all = append(all, completion(&t, &found[i], typed))
		}
	}
	return all
}

// completion is what completes to an object, and the other thing about it that people know.
func completion(t *thing, f *found, typed string) string {
	name, more := f.label(), f.ID
	if t.word == "TENANT" {
		name, more = f.Tenant, ""
	}
	if _, id := thingWithID(typed); !t.named || name == "" || id {
		name, more = f.ID, strings.TrimSpace(strings.Join([]string{f.Status + f.State, f.label(), f.Type, f.Title}, " "))
	}
	return strings.TrimSuffix(name+"\t"+strings.Join(strings.Fields(more), " "), "\t")
}
