package web

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"
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

func (v *visit) sheet(model any, notice string) sheet {
	s := v.bare(cmp.Or(v.title, v.page.title))
	s.Notice, s.Model, s.Live, s.Search = notice, model, !v.page.still, v.URL.Query().Get("q")
	s.Finds = v.link("/deliveries")
	if s.Plain = v.page.plain; v.page.finds {
		s.Finds, s.Asks = v.link(v.page.path), cmp.Or(asks[v.page.path], s.Asks)
	}
	s.Nav = v.entries(v.page.nav)
	s.Crumbs = v.way(s.Nav)
	if e, tab := lit(s.Nav); tab.Current == "page" && len(e.Tabs) > 1 {
		s.Section = e
	}
	if v.web.home == "" {
		s.Share = v.share()
	}
	if v.page.still {
		s.Forms = v.asset("forms.js")
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

// show answers with the page.
func (v *visit) show(status int) error {
	var ask errgroup.Group // the number beside Trouble is known when the page's own questions are answered
	if r, s := v.Request, v.session; s != nil && !s.portal {
		ask.Go(func() error {
			v.web.trouble(r, s)
			return nil
		})
	}
	model, err := v.model()
	_ = ask.Wait() // it cannot fail
	if err != nil {
		return err
	}
	return v.draw(status, v.page.template, v.sheet(model, v.notice()))
}
