package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// row is a page that every reader may see. Its twin and command are those of one thing if its path
// has an id, else of a list: as replaces them.
func row[M any](nav, path, title, template string, of func(*visit) (M, error), command string) page {
	kind, _, _ := strings.Cut(path[1:], "/")
	p := page{path: path, title: title, nav: nav, scope: grapnel.ScopeRead, template: template,
		build: func(v *visit) (any, error) { return of(v) }, twin: cursored("/v1/" + kind), command: says(command)}
	if strings.Contains(path, "{id}") {
		p.twin, p.command = one("/v1/"+kind+"/{id}"), naming(command)
	}
	return p
}

// fillIn is a page that is mainly a form, for those who may change things, with what the form does.
func fillIn[M any](nav, path, title string, of func(*visit) (M, error), do func(*visit) (string, error), command string) page {
	p := row(nav, path, title, "form.html", of, command).needs(grapnel.ScopeManage).unmoved()
	p.do = do
	return p
}

// as replaces the twin of a row, and its command unless that is nil.
func (p page) as(twin func(*visit) (string, url.Values), command func(*visit) string) page {
	if p.twin = twin; command != nil {
		p.command = command
	}
	return p
}

func (p page) needs(scope grapnel.Scope) page { p.scope = scope; return p }

func (p page) unmoved() page  { p.still = true; return p }
func (p page) searched() page { p.finds = true; return p }

// byName is a list whose box finds things by a part of their names: the search= of its twin.
func (p page) byName() page {
	twin := p.twin
	p.finds, p.plain, p.twin = true, true, func(v *visit) (string, url.Values) {
		path, q := twin(v)
		if word := v.word(); word != "" {
			q.Set("search", word)
		}
		return path, q
	}
	return p
}
func (p page) drawnBy(template string) page { p.template = template; return p }

// calls makes an action of a call of the API that takes an id and a reason: the id in the path.
func calls[T any](call func(*client.Client, context.Context, string, string) (T, error), notice string) func(*visit) (string, error) {
	return func(v *visit) (string, error) {
		_, err := call(v.client, v.Context(), v.PathValue("id"), byDashboard)
		return notice, err
	}
}

// byID makes a builder or an action of a function about the thing whose id is in the path, which it
// asks the API for.
func byID[T, R any](get func(*client.Client, context.Context, string) (T, error), of func(*visit, T) (R, error)) func(*visit) (R, error) {
	return func(v *visit) (r R, err error) {
		thing, err := get(v.client, v.Context(), v.PathValue("id"))
		if err != nil {
			return r, err
		}
		return of(v, thing)
	}
}

// one is the twin of a page about one thing, whose id is in the path.
func one(path string) func(*visit) (string, url.Values) {
	return func(v *visit) (string, url.Values) { return v.ofThis(path), nil }
}

// alone is the twin of a page that has no parameters.
func alone(path string) func(*visit) (string, url.Values) {
	return func(*visit) (string, url.Values) { return path, nil }
}

// says is a command without arguments.
func says(command string) func(*visit) string { return func(*visit) string { return command } }

// naming is a command about the thing whose id is in the path.
func naming(command string) func(*visit) string {
	return func(v *visit) string { return command + " " + shellQuote(v.PathValue("id")) }
}

// answer answers a request for the page: an EventSource gets its live updates, ?format=json its twin,
// any other request the page.
func (p *page) answer(v *visit) error {
	v.page = p
	events, twin := wants(v.Request, "text/event-stream"), v.URL.Query().Get("format") == "json"
	switch {
	case v.session == nil && (events || twin):
		http.Error(v.rw, "The session has ended.", http.StatusUnauthorized)
	case v.session == nil:
		v.toLogin()
	case events && p.still:
		v.rw.WriteHeader(http.StatusNoContent)
	case events:
		v.web.stream(v)
	case twin:
		return v.json()
	default:
		return v.show(http.StatusOK)
	}
	return nil
}

// answer answers the form of an action: refused unless it is this server's own, done, and answered
// with a redirect, so that a reload repeats nothing.
func (a *action) answer(v *visit) error {
	if v.session == nil {
		v.toLogin()
		return nil
	}
	if err := v.ownForm(); err != nil {
		return err
	}
	notice, err := "", v.ofThese()
	if err == nil {
		notice, err = a.do(v)
	}
	if err != nil {
		return v.redraw(a.path, err)
	}
	if v.secret != nil {
		return v.reveal()
	}
	v.notify(notice)
	v.redirect(v.PostForm.Get("back"))
	return nil
}

// addRows adds pages and actions to the multiplexer.
func (w *web) addRows(mux *http.ServeMux) {
	for i := range w.pages {
		mux.HandleFunc("GET "+w.home+w.pages[i].path, w.handler(w.pages[i].answer))
	}
	for i := range w.actions {
		mux.HandleFunc("POST "+w.home+w.actions[i].path, w.handler(w.actions[i].answer))
	}
}
