package web

import (
	"cmp"
	"slices"
)

// navigation lists the entries and their tabs. An entry with tabs leads to the first one that the
// session may see. A page names its tab, or an entry for its first tab.
func navigation() []entry {
	return []entry{
		{Name: "Overview", Path: "/", Key: "o", Sign: "overview"},
		{Name: "Deliveries", Sign: "deliveries", Tabs: []entry{
			{Name: "All", Path: "/deliveries", Key: "d"}, {Name: "Dead letters", Path: "/dead-letters", Key: "x"},
			{Name: "Ordering keys", Path: "/ordering-keys", Key: "w"}, {Name: "Replays", Path: "/replays", Key: "r"}}},
		{Name: "Events", Path: "/events", Key: "v", Sign: "events", Deep: true},
		{Name: "Endpoints", Path: "/endpoints", Key: "e", Sign: "endpoints"},
		{Name: "Sources", Sign: "sources", Deep: true, Tabs: []entry{
			{Name: "All", Path: "/sources", Key: "s"}, {Name: "Requests", Path: "/inbox", Key: "j"}}},
		{Name: "Queues", Path: "/queues", Key: "q", Sign: "queues", Deep: true},
		{Name: "Trouble", Sign: "trouble", Counted: true, Tabs: []entry{
			{Name: "Issues", Path: "/issues", Key: "i"}, {Name: "Alerts", Path: "/alerts", Key: "b"},
			{Name: "Rules", Path: "/alert-rules", Key: "y"}, {Name: "Channels", Path: "/channels", Key: "h"}}},
		{Name: "Insights", Sign: "stats", Deep: true, Tabs: []entry{
			{Name: "Statistics", Path: "/stats", Key: "u"}, {Name: "Promises", Path: "/slo", Key: "m"}}},
		{Name: "Design", Sign: "types", Deep: true, Tabs: []entry{
			{Name: "Event types", Path: "/event-types", Key: "t"}, {Name: "Policies", Path: "/policies", Key: "p"},
			{Name: "Playground", Path: "/playground", Key: "l"}}},
		{Name: "Customers", Path: "/customers", Key: "z", Sign: "customers", Deep: true},
		{Name: "Settings", Sign: "settings", Deep: true, Tabs: []entry{
			{Name: "API keys", Path: "/keys", Key: "k"}, {Name: "Audit", Path: "/audit", Key: "a"},
			{Name: "Nodes", Path: "/nodes", Key: "n"}, {Name: "Settings", Path: "/settings", Key: "c"}}},
	}
}

// entries are those of the navigation that lead to pages which the session may see. The one that
// here names is lit, with its tab.
func (v *visit) entries(here string) []entry { return v.visible(v.web.nav, here) }

func (v *visit) visible(all []entry, here string) (seen []entry) {
	for _, e := range all {
		tabs := v.visible(e.Tabs, here)
		lit := e.Name == here
		if len(e.Tabs) > 0 {
			if len(tabs) == 0 {
				continue
			}
			if i := slices.IndexFunc(tabs, func(t entry) bool { return t.Current != "" }); i >= 0 {
				lit = true
			} else if lit {
				tabs[0].Current = v.current(tabs[0].Path)
			}
			e.Path, e.Key = tabs[0].Path, tabs[0].Key
		} else {
			i := slices.IndexFunc(v.web.pages, func(p page) bool { return p.address() == e.Path })
			if i < 0 || !v.session.May(v.web.pages[i].scope) || ofAll(e.Path) && v.session.Tenant != "" && v.session.Only == "" ||
				v.session.limited && ofWhole(e.Path) {
				continue
			}
			e.Path = v.link(e.Path)
		}
		if e.Tabs = tabs; lit {
			e.Current = v.current(e.Path)
		}
		seen = append(seen, e)
	}
	return seen
}

// current is the aria-current of a link to this page, or to one above it.
func (v *visit) current(path string) string {
	if v.page != nil && v.link(v.page.address()) == path {
		return "page"
	}
	return "true"
}

// lit is the entry that is lit, and its tab, if it has tabs.
func lit(all []entry) (e, tab entry) {
	is := func(e entry) bool { return e.Current != "" }
	if i := slices.IndexFunc(all, is); i >= 0 {
		e = all[i]
	}
	if i := slices.IndexFunc(e.Tabs, is); i >= 0 {
		tab = e.Tabs[i]
	}
	return e, tab
}

// way are the steps to the page: the entry and the tab that lead to it, and the steps of its own,
// by default its title. A page that an entry or a tab leads to has only steps of its own.
func (v *visit) way(all []entry) []crumb {
	e, tab := lit(all)
	steps := v.steps
	if len(steps) == 0 {
		if e.Current == "page" || tab.Current == "page" {
			return nil
		}
		steps = []crumb{{cmp.Or(v.title, v.page.title), ""}}
	}
	above := []crumb{{e.Name, e.Path}}
	if tab.Name == v.page.nav && tab.Name != e.Name {
		above = append(above, crumb{tab.Name, tab.Path})
	}
	return append(above, steps...)
}
