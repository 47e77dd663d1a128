package web

import (
	"fmt"
	"net/http"
)

// The portal has some of the dashboard's pages, below /portal, for people who have a link instead
// of a key. It is a second web with rows, navigation, layout and sessions of its own; builders and
// templates are the dashboard's. Its session is a pass (package pass), so the API decides what a
// page shows, as for the dashboard.

// portalHome is the path below which the portal's pages are.
const portalHome = "/portal"

var portalActions = []string{"/deliveries/retry", "/deliveries/{id}/retry", "/deliveries/{id}/skip", "/deliveries/{id}/discard",
	"/endpoints/new", "/endpoints/{id}/edit", "/endpoints/{id}/rotate", "/endpoints/{id}/delete", "/endpoints/{id}/pause",
	"/endpoints/{id}/resume", "/endpoints/{id}/enable", "/endpoints/{id}/probe", "/endpoints/{id}/consent", "/endpoints/{id}/test", "/endpoints/{id}/retry", "/issues/{id}/retry",
	"/contacts/new", "/contacts/{id}/ask", "/contacts/{id}/delete", "/dead-letters/replay",
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
		{Name: "Contacts", Path: "/contacts", Key: "f"},
		{Name: "Activity", Path: "/audit", Key: "a"},
	}
}

// portalMux adds the portal's paths to the dashboard's.
func (w *web) portalMux(mux *http.ServeMux) {
	w.addRows(mux)
	mux.HandleFunc("GET "+w.home, w.handler((*visit).opening))
	mux.HandleFunc("GET "+w.home+"/{$}", w.handler((*visit).opening))
	mux.HandleFunc("GET "+w.home+"/", w.handler((*visit).nowhere))
	mux.HandleFunc("POST "+w.home+"/open", w.handler((*visit).openPortal))
	mux.HandleFunc("GET "+w.home+"/contacts/confirm", w.handler((*visit).lookAtContactLink)) // without a session
	mux.HandleFunc("POST "+w.home+"/contacts/confirm", w.handler((*visit).followContactLink))
	mux.HandleFunc("POST "+w.home+"/leave", w.handler((*visit).leavePortal))
	mux.HandleFunc("GET "+w.home+"/accent.css", w.accent)
	mux.HandleFunc("GET /portal.js", w.loader)
}

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

// leavePortal ends the session of this browser.
func (v *visit) leavePortal() error {
	if err := v.ownForm(); err != nil {
		return err
	}
	v.setCookie(portalCookie, "", -1)
	if err := v.signOut(); err != nil {
		return err
	}
	if to := v.session.look.Return; to != "" {
		v.seeOther(to)
		return nil
	}
	v.session = nil
	return &failure{Status: http.StatusOK, Title: "You have left the portal.", Help: "Close this page."}
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
