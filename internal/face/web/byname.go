package web

import (
	"strings"

	"github.com/grapnelhq/grapnel/client"
)

// word is what the search box of a list by names asks for.
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
