package web

import (
	"strings"

	"github.com/grapnelhq/grapnel/client"
)

// asks are the words in the empty search box, by the list that it looks in.
var asks = map[string]string{
	"/deliveries":   "Search deliveries: an id, key, type, name, text, or status:failed since:6h",
	"/dead-letters": "Search dead letters: an id, key, type, name, text, or reason:exhausted since:6h",
	"/events":       "Search events: an id, key, type, source, text, or since:6h",
	"/endpoints":    "Find endpoints by name, URL or id",
	"/sources":      "Find sources by name or id",
	"/queues":       "Find queues by name or id",
	"/policies":     "Find policies by name or id",
	"/keys":         "Find API keys by name or id",
	"/channels":     "Find channels by name or id",
	"/event-types":  "Find event types by name or description",
	"/audit":        "Find actions by the thing, the key or the person, or words of the reason",
	"/customers":    "Find customers by name",
}

// word is the text in the search box of a list by names.
func (v *visit) word() string { return strings.TrimSpace(v.URL.Query().Get("q")) }

// listed is the part of a list by names that the page's address asks for.
func (v *visit) listed() client.ListFilter {
	return client.ListFilter{Search: v.word(), Limit: v.web.Bounds.Page, Cursor: v.URL.Query().Get("cursor")}
}

// unfound says of a list without rows that its search found nothing; false: it has no search.
func (v *visit) unfound(m *verdict, thing string) bool {
	if v.word() == "" {
		return false
	}
	m.say("No "+thing+" has “"+v.word()+"” in its name.", "", "The box above finds a part of a name, in small or capital letters, or the beginning of an id.")
	m.Acts = []act{{Label: "Show all", Href: v.link(v.page.path)}}
	return true
}
