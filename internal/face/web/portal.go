package web

import (
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// The portal has some of the dashboard's pages, below /portal, for people who have a link instead
// of a key. It is a second web with rows, navigation, layout and sessions of its own; builders and
// templates are the dashboard's. Its session is a pass (package pass), so the API decides what a
// page shows, as for the dashboard.

// portalHome is the path below which the portal's pages are.
const portalHome = "/portal"

// portalCookie has the pass of a portal that fills a page of its own. A portal in a frame has no
// cookie, because browsers keep those of framed sites from them: its script sends the pass.
const portalCookie = "grapnel_portal"

// portalPages and portalActions are the rows of the dashboard that the portal has.
var portalPages = []string{"/endpoints", "/endpoints/new", "/endpoints/{id}", "/endpoints/{id}/edit", "/endpoints/{id}/rotate",
	"/endpoints/{id}/delete", "/endpoints/{id}/why", "/deliveries", "/deliveries/{id}", "/dead-letters", "/issues", "/issues/{id}", "/replays", "/replays/new",
	"/replays/{id}", "/events", "/events/{id}", "/ordering-keys", "/ordering-keys/{id}",
	"/event-types", "/event-types/{id}", "/alerts", "/alerts/{id}", "/audit"}

var portalActions = []string{"/deliveries/retry", "/deliveries/{id}/retry", "/deliveries/{id}/skip", "/deliveries/{id}/discard",
	"/endpoints/new", "/endpoints/{id}/edit", "/endpoints/{id}/rotate", "/endpoints/{id}/delete", "/endpoints/{id}/pause",
	"/endpoints/{id}/resume", "/endpoints/{id}/enable", "/endpoints/{id}/probe", "/endpoints/{id}/test", "/endpoints/{id}/retry", "/issues/{id}/retry",
	"/dead-letters/replay",
	"/dead-letters/discard", "/dead-letters/note",
	"/issues/{id}/acknowledge", "/issues/{id}/mute", "/issues/{id}/resolve", "/issues/{id}/reopen", "/issues/{id}/set", "/replays/start", "/replays/{id}/pause", "/replays/{id}/resume", "/replays/{id}/cancel"}

// portalNavigation lists the entries of the portal.
func portalNavigation() []entry {
	return []entry{
		{Name: "Endpoints", Path: "/endpoints", Key: "e"},
		{Name: "Deliveries", Path: "/deliveries", Key: "d"},
		{Name: "Dead letters", Path: "/dead-letters", Key: "x"},
		{Name: "Replays", Path: "/replays", Key: "r"},
		{Name: "Event types", Path: "/event-types", Key: "t"},
		{Name: "Alerts", Path: "/alerts", Key: "b"},
		{Name: "Activity", Path: "/audit", Key: "a"},
	}
}

// newPortal makes the portal of a dashboard.
func newPortal(of *web) *web {
	w := &web{Options: of.Options, home: portalHome, seals: of.seals, nav: portalNavigation(), layout: "portal-layout.html",
		templates: of.templates, assets: of.assets, cross: of.cross}
	for _, p := range pages() {
		if slices.Contains(portalPages, p.path) {
			switch p.nav {
			case "Audit":
				p.title, p.nav = "Activity", "Activity"
			case "Events", "Ordering keys":
				p.nav = "Deliveries"
			case "Issues":
				p.nav = "Dead letters"
			case "Alerts":
				p.scope = grapnel.ScopeAlertsRead
			}
			w.pages = append(w.pages, p)
		}
	}
	for _, a := range actions() {
		if slices.Contains(portalActions, a.path) {
			w.actions = append(w.actions, a)
		}
	}
	w.live = newReaders(w.seals.token("shared pages of the portal"))
	return w
}

// portalMux adds the portal's paths to the dashboard's.
func (w *web) portalMux(mux *http.ServeMux) {
	w.addRows(mux)
	mux.HandleFunc("GET "+w.home, w.headed(w.opening))
	mux.HandleFunc("GET "+w.home+"/{$}", w.headed(w.opening))
	mux.HandleFunc("POST "+w.home+"/open", w.headed(w.open))
	mux.HandleFunc("POST "+w.home+"/leave", w.headed(w.leave))
	mux.HandleFunc("GET "+w.home+"/accent.css", w.accent)
	mux.HandleFunc("GET /portal.js", w.loader)
}

// portalSession reads the pass of a request: the one in its header, else the one in the cookie.
func (w *web) portalSession(r *http.Request) *session {
	text, framed := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !framed {
		text = w.cookie(r, portalCookie)
	}
	p, valid := w.Passes.Open(text, w.Clock())
	if !valid || !p.Portal || p.Opens != nil {
		return nil
	}
	return &session{ID: p.ID, Pass: text, KeyID: p.Subject, Name: strings.TrimPrefix(p.Subject, "portal/"), Tenant: p.Tenant, Scopes: p.Scopes,
		Ends: p.Ends, portal: true, framed: framed, look: p.Look, limited: p.Endpoints != nil}
}

// brand is how the portal of a tenant looks.
type brand struct {
	Name   string
	Logo   template.URL // a data: URL that the API has checked
	Accent string       // address of a style sheet; empty: Grapnel's own colour
	Return string       // where the link back leads
	Ends   moment       // the end of the session
}

// brand asks for the settings of the tenant's portal. A page without them is better than none.
func (v *visit) brand() brand {
	b := brand{Name: "Webhooks"}
	if v.session == nil {
		return b
	}
	b.Return, b.Ends = v.session.look.Return, v.at(v.session.Ends)
	p, err := v.client.Portal(v.Context(), v.session.Tenant)
	if err != nil {
		return b
	}
	if p.Name != "" {
		b.Name = p.Name
	}
	if logo.MatchString(p.Logo) {
		b.Logo = template.URL(p.Logo) // a picture, by this pattern
	}
	if accent.MatchString(p.Accent) {
		b.Accent = v.place.base + v.web.home + "/accent.css?c=" + p.Accent[1:]
	}
	return b
}

var (
	logo   = regexp.MustCompile(`^data:image/(png|jpeg|webp);base64,[A-Za-z0-9+/]+={0,2}$`)
	accent = regexp.MustCompile(`^#[0-9a-f]{6}$`)
)

// accent serves a style sheet with one colour: the Content-Security-Policy allows no style in a
// page.
func (w *web) accent(rw http.ResponseWriter, r *http.Request) {
	colour := "#" + r.URL.Query().Get("c")
	if !accent.MatchString(colour) {
		http.NotFound(rw, r)
		return
	}
	h := rw.Header()
	h.Set("Content-Type", "text/css; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	light := "light-dark(" + colour + ", color-mix(in oklab, " + colour + " 60%, white))" // readable on dark too
	_, _ = fmt.Fprintf(rw, ".portal { --accent: %s; --brand: %s; --on-brand: %s; }\n", light, colour, textOn(colour))
}

// textOn is white or black, whichever is easier to read on a colour #rrggbb.
func textOn(colour string) string {
	var r, g, b int
	_, _ = fmt.Sscanf(colour, "#%02x%02x%02x", &r, &g, &b)
	if 299*r+587*g+114*b > 150_000 {
		return "#000"
	}
	return "#fff"
}

// loader serves the script that other sites load to show the portal in a frame.
func (w *web) loader(rw http.ResponseWriter, _ *http.Request) {
	h := rw.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Cache-Control", "public, max-age=300")
	_, _ = rw.Write(w.assets.files["portal.js"])
}

// ended answers a request without a session.
func (v *visit) ended() {
	v.web.setCookie(v.rw, v.Request, portalCookie, "", -1)
	v.session = nil
	v.fail(&failure{Status: http.StatusUnauthorized, Title: "This session has ended.",
		Help: "Go back to where you came from and open the portal again."})
}

// leave ends the session of this browser.
func (w *web) leave(rw http.ResponseWriter, r *http.Request) {
	v := w.visit(rw, r, nil)
	if err := v.ownForm(); err != nil {
		v.fail(err)
		return
	}
	w.setCookie(rw, r, portalCookie, "", -time.Second)
	if err := v.signOut(); err != nil {
		v.fail(err)
		return
	}
	if to := v.session.look.Return; to != "" {
		v.seeOther(to)
		return
	}
	v.session = nil
	v.fail(&failure{Status: http.StatusOK, Title: "You have left the portal.", Help: "Close this page."})
}

// teach is a hint with a command to copy. A portal has neither: its people have no command line.
func (v *visit) teach(hint, command string) (string, string) {
	if v.session.portal {
		return "", ""
	}
	return hint, command
}

// leads says whether a path is one of the pages here: the portal has not all of the dashboard's.
func (v *visit) leads(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return v.web.home == "" || slices.ContainsFunc(portalPages, func(p string) bool { return strings.HasPrefix(p, "/"+first) })
}

// own is the part of the form of an endpoint that the session may set.
func (v *visit) own() *blank {
	if !v.session.portal {
		return &endpointBlank
	}
	b := endpointBlank.only(customerRows)
	for i := range b.rows {
		if b.rows[i].at == "headers" {
			b.rows[i].when = "create" // the API does not show their values, which a form would send back
		}
	}
	return b
}

// unrevealed replaces a secret that the session may not see.
func (m *secretModel) unrevealed() {
	m.Label, m.Secret = "", ""
	m.Verdict.Next = "This link may not show secrets. Ask for one that may, or rotate the secret to one of your own."
}

// PortalPaths lists the pages and actions of the portal as Paths does.
func PortalPaths() (all []string) {
	for _, p := range portalPages {
		all = append(all, http.MethodGet+" "+portalHome+p)
	}
	for _, a := range portalActions {
		all = append(all, http.MethodPost+" "+portalHome+a)
	}
	return all
}
