package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// templates are all templates in one set: layouts, parts, and each page under the name of its file.
// A set of its own for each page would copy layout and parts for each.
func templates() *template.Template {
	return template.Must(template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/*.html"))
}

// functions are what templates can call.
var functions = template.FuncMap{
	"looks":      func(name string) map[string]string { return lookWords[name] },
	"with_sheet": func(acts []act, s sheet) acting { return acting{Acts: acts, Sheet: s} },
	"answering":  func(v verdict, s sheet) acting { return acting{v, v.Acts, s} },
	"with_form":  func(f form, s sheet) filling { return filling{f, s} },
}

// filling is a form of a page, with the sheet whose token it needs.
type filling struct {
	Form  form
	Sheet sheet
}

// acting are the buttons of a page, alone or below the answer, with the sheet whose token their
// forms need.
type acting struct {
	Verdict verdict
	Acts    []act
	Sheet   sheet
}

// lookWords are the words for the choices of how pages look.
var lookWords = map[string]map[string]string{
	"theme": {"auto": "as the system", "light": "light", "dark": "dark"},
	"times": {"local": "local", "utc": "UTC"},
}

// sheet is what the layout draws around a page.
type sheet struct {
	Title   string
	Base    string // before every path
	Home    string // address of the first page
	Leave   string // address that ends the session of a portal
	Portal  string // address of the style sheet of portals
	Brand   brand  // of a portal
	Style   string // address of the style sheet
	Fields  string // address of the style sheet for forms
	Script  string // address of the script
	Forms   string // address of the script for forms; empty: the page has none to fill in
	Lists   listFiles
	Theme   string // auto, light or dark
	Times   string // local or utc
	Locale  string // of dates and times; empty: en-GB
	Token   string // of the session's forms
	Here    string // this page, below the base
	Once    string // the idempotency key of the page's forms
	Session *session
	Nav     []entry
	Notice  string
	Search  string
	Finds   string // the list that the search box looks in
	Asks    string // what it finds there
	Share   share
	Live    bool
	Version string
	Model   any
	Main    template.HTML // the page itself, drawn; the layout puts it in its place
}

// listFiles are the addresses of what lists load besides.
type listFiles struct{ Style, Script, Search string }

// share is how else a page can be had.
type share struct{ Link, JSON, Curl, Command string }

// asks are the words in the empty search box, by the list that it looks in.
var asks = map[string]string{
	"/deliveries":   "Search deliveries: an id, key, type, text, or status:failed since:6h",
	"/dead-letters": "Search dead letters: an id, key, type, text, or reason:exhausted since:6h",
	"/events":       "Search events: an id, key, type, or since:6h",
}

func (v *visit) sheet(model any, notice string) sheet {
	s := v.bare(cmp.Or(v.title, v.page.title))
	s.Notice, s.Model, s.Live, s.Search = notice, model, !v.page.still, v.URL.Query().Get("q")
	s.Finds = v.link("/deliveries")
	if v.page.finds {
		s.Finds, s.Asks = v.link(v.page.path), cmp.Or(asks[v.page.path], s.Asks)
	}
	s.Nav = v.entries(v.page.nav)
	if v.web.home == "" {
		s.Share = v.share()
	}
	if v.page.still {
		s.Forms = v.asset("forms.js")
	}
	return s
}

// entries are those of the navigation that lead to pages which the session may see.
func (v *visit) entries(here string) []entry {
	var all []entry
	head := "" // of entries that are left out: the next one gets it
	for _, e := range v.web.nav {
		head = cmp.Or(e.Head, head)
		i := slices.IndexFunc(v.web.pages, func(p page) bool { return strings.TrimSuffix(p.path, "{$}") == e.Path })
		if i >= 0 && v.session.May(v.web.pages[i].scope) {
			e.Here, e.Path, e.Head, head = e.Name == here, v.link(e.Path), head, ""
			all = append(all, e)
		}
	}
	return all
}

// bare is the sheet of a page without navigation.
func (v *visit) bare(title string) sheet {
	s := sheet{Title: title, Asks: asks["/deliveries"], Base: v.place.base, Style: v.asset("app.css"), Fields: v.asset("forms.css"), Script: v.asset("app.js"),
		Here: v.here(), Once: v.once(),
		Theme: v.choice(themeCookie), Times: v.choice(timesCookie), Session: v.session, Version: grapnel.Version}
	s.Home = v.link("/")
	if v.web.home != "" {
		s.Home, s.Leave, s.Portal, s.Brand = v.link("/endpoints"), v.link("/leave"), v.asset("portal.css"), v.brand()
		if v.session != nil {
			s.Theme, s.Locale = cmp.Or(v.session.look.Theme, s.Theme), v.session.look.Locale
		}
	}
	s.Lists = listFiles{v.asset("lists.css"), v.asset("lists.js"), v.asset("search.js")}
	if v.session != nil {
		s.Token = v.web.seals.token(v.session.ID)
	}
	return s
}

func (v *visit) share() share {
	path, query := v.page.twin(v)
	target := v.place.URL(path)
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	twin := v.URL.Query()
	twin.Set("format", "json")
	return share{
		Link: v.place.URL(v.here()), JSON: v.link(v.URL.EscapedPath()) + "?" + twin.Encode(),
		Curl:    `curl -H "Authorization: Bearer $GRAPNEL_KEY" ` + shellQuote(target),
		Command: v.page.command(v),
	}
}

// shellQuote makes one word for a shell out of any text.
func shellQuote(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@%+*") == "" && text[0] != '-' && !strings.Contains(text, "*") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
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

// assets are the files that pages load. The address of each has a part of its hash in it, so
// browsers keep it until it changes.
type assets struct {
	files map[string][]byte
	marks map[string]string
}

func newAssets() *assets {
	a := &assets{files: map[string][]byte{}, marks: map[string]string{}}
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic("web: " + err.Error()) // they are in the binary
	}
	for _, e := range entries {
		text, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic("web: " + err.Error())
		}
		sum := sha256.Sum256(text)
		a.files[e.Name()], a.marks[e.Name()] = text, hex.EncodeToString(sum[:6])
	}
	return a
}

// asset is the address of a file.
func (v *visit) asset(name string) string {
	return v.place.base + "/assets/" + url.PathEscape(name) + "?" + v.web.assets.marks[name]
}

// asset serves a file.
func (w *web) asset(rw http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	text, known := w.assets.files[name]
	if !known {
		http.NotFound(rw, r)
		return
	}
	h := rw.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Content-Length", fmt.Sprint(len(text)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	if r.URL.RawQuery == w.assets.marks[name] {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = rw.Write(text)
}
