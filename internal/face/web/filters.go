package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	grammar "github.com/grapnelhq/grapnel/internal/base/search"
)

// filters are the conditions of a list as links, so that a reader who knows no grammar can choose
// and remove them, also without a script.
type filters struct {
	Chips []savedView // each leads to the list without the condition
	Menus []menu
	Named []savedView // things whose names have the word that was searched as something else
}

// menu is a condition with values to choose from. The search box takes any other.
type menu struct {
	Name  string
	Items []savedView
}

// menuNames are the conditions that a list has menus for, with what people call them.
var menuNames = []struct{ name, title string }{
	{"status", "Status"}, {"endpoint", "Endpoint"}, {"source", "Source"}, {"type", "Type"}, {"code", "Code"}, {"since", "Time"},
}

// mostChoices is how many values a menu has: with more, a page of long searches has too many bytes.
const mostChoices = 4

// filters makes the links of a list at a path. seen are the values that its rows have, by the
// condition, each with a name: a page knows no others without further reads.
func (v *visit) filters(path string, s *search, seen map[string][]grammar.Named) (f filters) {
	to := func(q string) string { return v.link(path + withQuery("q", q)) }
	tokens := grammar.Tokens(s.Text)
	for i, t := range tokens {
		var rest []string
		for j, other := range tokens {
			if j != i {
				rest = append(rest, other.String())
			}
		}
		f.Chips = append(f.Chips, savedView{Name: t.String(), Href: to(strings.Join(rest, " "))})
	}
	for _, m := range menuNames {
		values, listed := seen[m.name]
		if !listed {
			continue
		}
		for _, value := range grammar.Values(m.name) {
			values = append(values, grammar.Named{ID: value, Name: value})
		}
		made := menu{Name: m.title}
		var drop []string
		if m.name == "since" {
			drop = []string{"from", "to"}
		}
		for _, value := range values[:min(len(values), mostChoices)] {
			made.Items = append(made.Items, savedView{Name: cmp.Or(value.Name, value.ID), Href: to(grammar.With(s.Text, m.name, value.ID, drop...)),
				Here: slices.Contains(tokens, grammar.Token{Name: m.name, Value: value.ID})})
		}
		if len(made.Items) > 0 {
			f.Menus = append(f.Menus, made)
		}
	}
	for i := range s.Also {
		f.Named = append(f.Named, savedView{Name: thingKinds[s.Also[i].Kind].word + " " + s.Also[i].Name, Href: v.link(thingPath(&s.Also[i]))})
	}
	return f
}

// named adds a value, unless it is there.
func named(all []grammar.Named, id, name string) []grammar.Named {
	if id == "" || slices.ContainsFunc(all, func(n grammar.Named) bool { return n.ID == id }) {
		return all
	}
	return append(all, grammar.Named{ID: id, Name: name})
}

// seenIn are the values of the menus that the rows of a list of deliveries have. The chart above
// them has the times.
func seenIn(rows []client.Delivery) map[string][]grammar.Named {
	seen := map[string][]grammar.Named{"status": nil, "code": nil, "endpoint": nil, "type": nil}
	for i := range rows {
		seen["endpoint"] = named(seen["endpoint"], rows[i].EndpointID, rows[i].EndpointName)
		seen["type"] = named(seen["type"], rows[i].Type, "")
	}
	return seen
}

// thingKinds are the words for kinds of things, and where the pages of these are.
var thingKinds = map[string]struct{ word, list string }{
	"endpoint": {"endpoint", "/endpoints/"}, "queue": {"queue", "/queues/"}, "source": {"source", "/sources/"},
	"policy": {"policy", "/policies/"}, "event_type": {"event type", "/event-types/"}, "tenant": {"customer", "/customers/"},
}

// thingPath is the page of a thing.
func thingPath(t *client.Thing) string { return thingKinds[t.Kind].list + url.PathEscape(t.ID) }
