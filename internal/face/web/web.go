// Package web is the dashboard: pages for people, made from what the public API answers.
//
// Every page goes one way: a row of pages (routes.go) names a builder, which asks the API and
// returns a view model, and a template, which draws it. What a page can do is a form that posts to
// a row of actions. The same row serves the page, its JSON twin and its live updates.
//
// What holds here:
//
//   - There is no second way to the data. The package sends typed requests (package client) to the
//     API's own handler, in this process, with the key of the session. So the API decides what the
//     key may see and do, and a revoked key ends its sessions at once.
//   - The server stores no session: the cookie holds a pass (package pass), which is made when a
//     person or a key signs in and ended when they sign out (session.go). No cookie has a key.
//   - Text from outside is escaped by html/template. Templates contain no script and no inline
//     style, and the Content-Security-Policy refuses both.
//   - A form is accepted from this server's own pages only: the browser says so, and the form has
//     the session's token.
//   - Live pages with one query share one reader, whose work is bounded (live.go).
//
// The portal (portal.go) is a second set of such pages, for people who have a link instead of a
// key.
//
// What it does not promise: that a stolen cookie is noticed. Signing out, revoking the key, or
// ending the person's sessions ends it.
package web

import (
	"bytes"
	"cmp"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// contentPolicy is the Content-Security-Policy of all pages: scripts, styles and pictures are files
// of this server, and no other site may frame a page.
var contentPolicy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
	"form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
}, "; ")

// policy is the same for the portal, but for the logo in a data: URL.
func (w *web) policy() string {
	if w.home == "" {
		return contentPolicy
	}
	return strings.Replace(contentPolicy, "img-src 'self'", "img-src 'self' data:", 1)
}

// headed adds the headers of every page. The referrer is needed within the site only: without one,
// browsers send a form's origin as null.
func (w *web) headed(next http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		h.Set("Content-Security-Policy", w.policy())
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Cache-Control", "no-store")
		h.Add("Vary", "Accept, Authorization, Cookie")
		next(rw, r)
	}
}

func (w *web) place(r *http.Request) place {
	u, err := url.Parse(w.Origin(r))
	if err != nil {
		return place{scheme: "http", host: r.Host}
	}
	return place{scheme: cmp.Or(u.Scheme, "http"), host: cmp.Or(u.Host, r.Host), base: strings.TrimRight(u.Path, "/")}
}

// URL is the address of a path of this server.
func (p place) URL(path string) string { return p.scheme + "://" + p.host + p.base + path }

// secure says whether the browser reaches this server by https.
func (p place) secure() bool { return p.scheme == "https" }

// foreign says whether a request that changes something does not come from this server's own pages.
// The browser's word for that is compared with the host that it sees, which a proxy may have
// changed on the way here.
func (w *web) foreign(r *http.Request) bool {
	seen := r.Clone(r.Context())
	seen.Host = w.place(r).host
	return w.cross.Check(seen) != nil
}

// wants says whether a request asks for a media type.
func wants(r *http.Request, media string) bool {
	return slices.ContainsFunc(r.Header.Values("Accept"), func(v string) bool { return strings.Contains(v, media) })
}

// The addresses of a sign-in at the issuer. The issuer has to know callbackPath.
const (
	startPath    = "/login/start"
	callbackPath = "/login/callback"
	outPath      = "/login/out"
)

// signOutAt is the address at which the issuer ends its own session.
func (w *web) signOutAt(v *visit) (string, bool) {
	if w.People.Issuer == nil {
		return "", false
	}
	return w.People.Issuer.SignOut(v.place.URL("/login"))
}

// draw draws a page within the layout.
func (w *web) draw(page string, s sheet) ([]byte, error) {
	main, err := w.drawPart(page, s)
	if err != nil {
		return nil, err
	}
	s.Main = template.HTML(main) // a template drew it
	return w.drawPart(w.layout, s)
}

// drawPart draws a template alone, such as the part of a page that changes while it is live.
func (w *web) drawPart(name string, s sheet) ([]byte, error) {
	var b bytes.Buffer
	err := w.templates.ExecuteTemplate(&b, name, s)
	return b.Bytes(), err
}
