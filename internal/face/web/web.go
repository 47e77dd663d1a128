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
	"cmp"
	"crypto/rand"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/pass"
)

// Options say what the dashboard stands on. API, Passes and Secret are needed.
type Options struct {
	Bounds   Bounds
	API      http.Handler               // answers the requests of pages; all requests that are for no page
	Origin   func(*http.Request) string // base URL of this server as the caller reaches it; nil: from Host
	Known    func(*http.Request) bool   // whether Origin is more than the caller's word; nil: always
	Passes   *pass.Sealer               // makes and reads passes
	Secret   func(use string) [32]byte  // secrets of all nodes that serve the same sessions, by their use
	Stopping func() bool                // the server drains: live pages end; nil: never
	Clock    func() time.Time           // nil: time.Now
	Random   io.Reader                  // nil: crypto/rand
	Log      *slog.Logger               // nil: nothing is logged
	People   People                     // how people sign in
	Dev      Dev                        // what `grapnel dev` adds
}

// Bounds limit what browsers can make grow.
type Bounds struct {
	Session  time.Duration `bound:"12h" tiny:"1h"`        // life of a session
	Flow     time.Duration `bound:"10m" tiny:"10m"`       // for a sign-in at the issuer
	Flows    int           `bound:"4096"`                 // finished sign-ins that are remembered
	SignIns  time.Duration `bound:"1s" tiny:"1ms"`        // least time between two log lines about failed sign-ins
	FormBody int64         `bound:"256KiB" tiny:"256KiB"` // bytes of a form
	FormTime time.Duration `bound:"10s"`                  // for a form to arrive
	Key      int           `bound:"512" tiny:"512"`       // bytes of a key that is typed in
	Next     int           `bound:"2048" tiny:"2048"`     // bytes of the address to go to after signing in
	Search   int           `bound:"1024" tiny:"256"`      // bytes of a search

	LiveEvery  time.Duration `bound:"500ms" tiny:"20ms"` // between two looks of a live page
	LiveRest   int           `bound:"20" tiny:"1"`       // a reader rests this many times the duration of its last look, for each reader
	LiveRedraw time.Duration `bound:"15s" tiny:"100ms"`  // a live page is drawn again without changes
	LiveSlow   time.Duration `bound:"10s"`               // for which a browser may take nothing in
	LiveTenant int           `bound:"64"`                // live pages of one tenant
	LiveAll    int           `bound:"512"`               // live pages of all tenants

	Page      int           `bound:"35" tiny:"5"`    // rows of a list: forty with long names are more than 60 KB
	Times     int           `bound:"28" tiny:"5"`    // hours or days beneath a chart of statistics, which takes half of the 60 KB
	Endpoints int           `bound:"500" tiny:"500"` // endpoints that the overview and the list look at
	Letters   int           `bound:"200" tiny:"10"`  // dead letters that are counted by endpoint and reason; items of a replay that are read
	Found     int           `bound:"60" tiny:"10"`   // newest deliveries that match, whose endpoints a preview shows
	Named     int           `bound:"1000" tiny:"10"` // deliveries that a replay names
	Plans     int           `bound:"20" tiny:"5"`    // endpoints of one preview
	Sample    int           `bound:"100" tiny:"100"` // named deliveries that the plans of one preview look at, likewise
	Counting  time.Duration `bound:"5ms" tiny:"1m"`  // for the plans of one preview, unless all is to be counted

	Body int `bound:"16384"` // bytes of a body that a page shows
}

// web is what all pages share. Nothing in it changes after New but the live readers.
type web struct {
	Options
	home      string // the path below which its pages are: of the portal; else empty
	seals     *seals
	flows     *flows
	pages     []page
	actions   []action
	nav       []entry
	layout    string // the template that pages are put in
	templates *template.Template
	assets    *assets
	live      *readers
	cross     *http.CrossOriginProtection
}

// New makes the handler of the dashboard, which hands all other requests to the API.
func New(o Options) http.Handler { return newWeb(o).mux() }

func newWeb(o Options) *web {
	o.Bounds = bounds.Fill(o.Bounds)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Stopping == nil {
		o.Stopping = func() bool { return false }
	}
	if o.Known == nil {
		o.Known = func(*http.Request) bool { return true }
	}
	if o.Origin == nil {
		o.Origin = func(r *http.Request) string { return "http://" + r.Host }
	}
	w := &web{
		Options: o, seals: newSeals(o.Secret, o.Random), flows: newFlows(o.Bounds), pages: pages(), actions: actions(), nav: navigation(),
		layout: "layout.html", templates: templates(), assets: newAssets(), cross: http.NewCrossOriginProtection(),
	}
	if o.Dev.Coach != nil {
		w.pages, w.actions = append(w.pages, coachPages()...), append(w.actions, coachActions()...)
		w.nav = append([]entry{coachEntry()}, w.nav...)
	}
	w.live = newReaders(w.seals.token("shared pages"))
	return w
}

// mux makes the multiplexer: pages, actions, sign-in, assets, and the API for everything else. No
// page is below /v1, so requests to it go to the API without being compared with all patterns.
func (w *web) mux() http.Handler {
	mux := http.NewServeMux()
	w.addRows(mux)
	mux.HandleFunc("GET /login", w.headed(w.login))
	mux.HandleFunc("POST /login", w.headed(w.signIn))
	if w.People.Issuer != nil {
		mux.HandleFunc("GET "+startPath, w.headed(w.startPeople))
		mux.HandleFunc("GET "+callbackPath, w.headed(w.callback))
		mux.HandleFunc("GET "+outPath, w.headed(w.signOutIssuer))
	}
	if w.Dev.Codes != nil {
		mux.HandleFunc("GET /login/once", w.headed(w.once))
		mux.HandleFunc("POST /login/once", w.headed(w.signInOnce))
	}
	mux.HandleFunc("GET /alerts/acknowledge", w.headed(w.lookAtLink))
	mux.HandleFunc("POST /alerts/acknowledge", w.headed(w.followLink))
	mux.HandleFunc("POST /logout", w.headed(w.signOut))
	mux.HandleFunc("POST /look", w.headed(w.look))
	mux.HandleFunc("GET /complete", w.headed(w.completions))
	mux.HandleFunc("GET /deliveries/export", w.headed(w.export("/deliveries/export")))
	mux.HandleFunc("GET /dead-letters/export", w.headed(w.export("/dead-letters/export")))
	mux.HandleFunc("GET /assets/{name}", w.asset)
	newPortal(w).portalMux(mux)
	mux.Handle("/", w.API)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			w.API.ServeHTTP(rw, r)
			return
		}
		mux.ServeHTTP(rw, r)
	})
}

// addRows adds pages and actions to the multiplexer.
func (w *web) addRows(mux *http.ServeMux) {
	for i := range w.pages {
		p := &w.pages[i]
		mux.HandleFunc("GET "+w.home+p.path, w.headed(w.page(p)))
	}
	for _, a := range w.actions {
		mux.HandleFunc("POST "+w.home+a.path, w.headed(w.action(&a)))
	}
}

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

// place is where the caller reaches this server.
type place struct {
	scheme, host string
	base         string // path before every link; empty or /prefix
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
