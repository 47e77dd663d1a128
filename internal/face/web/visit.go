package web

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/policy"
)

// handler makes the handler of requests that a function answers. If it returns an error, fail answers.
func (w *web) handler(with func(*visit) error) http.HandlerFunc {
	return w.headed(func(rw http.ResponseWriter, r *http.Request) {
		v := w.visit(rw, r)
		if err := with(v); err != nil {
			v.fail(err)
		}
	})
}

func (w *web) visit(rw http.ResponseWriter, r *http.Request) *visit {
	v := &visit{Request: r, web: w, rw: rw, place: w.place(r), now: w.Clock()}
	if v.session = v.readSession(); v.session != nil {
		if !ofAll(r.URL.Path) {
			v.session = v.session.narrowed()
		}
		v.client, v.answers = w.caller(v.session.Pass, v.session.Tenant, r)
	}
	return v
}

// redirect sends the browser to a page of this site.
func (v *visit) redirect(to string) {
	if v.session != nil && v.session.framed {
		_ = v.answer(http.StatusOK, map[string]string{"to": v.link(local(to)), "notice": v.said}) // texts are JSON
		return
	}
	v.seeOther(v.link(local(to)))
}

// goTo has an action lead to another page than the one where its form is.
func (v *visit) goTo(path string) { v.PostForm.Set("back", path) }

// toLogin asks for a key and then leads back here.
func (v *visit) toLogin() {
	if v.web.home != "" {
		v.ended()
		return
	}
	to := "/login"
	if here := v.here(); v.Method == http.MethodGet && here != "/" && len(here) <= v.web.Bounds.Next {
		to += "?" + url.Values{"next": {here}}.Encode()
	}
	v.seeOther(v.link(to))
}

const mostNotice = 1000 // bytes

// notify has the next page say a sentence. A cookie has space for about 4 KB.
func (v *visit) notify(sentence string) {
	sentence = say.Cut(sentence, mostNotice)
	if v.session != nil && v.session.framed {
		v.said = sentence // a frame has no cookies
		return
	}
	if text, err := v.web.seals.SealBytes(noticeCookie, []byte(sentence)); err == nil && sentence != "" {
		v.setCookie(noticeCookie, text, time.Minute)
	}
}

// notice takes the sentence that an action left.
func (v *visit) notice() string {
	text := v.cookie(noticeCookie)
	if text == "" {
		return ""
	}
	v.setCookie(noticeCookie, "", -1)
	plain, err := v.web.seals.OpenBytes(noticeCookie, text)
	if err != nil {
		return ""
	}
	return string(plain)
}

// model asks the API for the page's view model.
func (v *visit) model() (any, error) {
	if err := v.ofThese(); err != nil {
		return nil, err
	}
	switch {
	case v.session.May(v.page.scope):
		return v.page.build(v)
	case v.session.portal:
		return nil, refused(http.StatusForbidden, "This link does not allow that.", "Ask for a link that does, where you got this one.")
	case v.session.Role != "":
		return nil, refused(http.StatusForbidden, "Your role may not see this page.",
			"You are "+string(v.session.Role)+". Ask an administrator for another role.")
	}
	return nil, refused(http.StatusForbidden, "This key may not see this page.", "Sign in with a key that has the scope "+string(v.page.scope)+".")
}

// draw answers with a page within the layout.
func (v *visit) draw(status int, template string, s sheet) error {
	s.Open = v.open()
	text, err := v.web.draw(template, s)
	if err != nil {
		return err
	}
	v.write(status, text)
	return nil
}

func (v *visit) write(status int, page []byte) {
	v.rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.rw.WriteHeader(status)
	_, _ = v.rw.Write(page) // the browser may have left
}

// seeOther sends the browser to an address.
func (v *visit) seeOther(address string) {
	v.rw.Header().Set("Location", address)
	v.rw.WriteHeader(http.StatusSeeOther)
}

// json answers with the page's twin: the API's own answer to the session's key.
func (v *visit) json() error {
	if err := v.ofThese(); err != nil {
		return err
	}
	return v.relay(v.page.twin(v))
}

// relay answers with the API's own answer to the session's key.
func (v *visit) relay(path string, query url.Values) error {
	rq, err := v.asking(path, query)
	if err != nil {
		return err
	}
	resp, err := client.Local{Handler: v.web.API}.RoundTrip(rq)
	if err != nil {
		return err
	}
	v.rw.Header().Set("Content-Type", grapnel.JSONType)
	v.rw.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(v.rw, resp.Body) // the browser may have left
	return nil
}

// asking is a request to the API with the session's key.
func (v *visit) asking(path string, query url.Values) (*http.Request, error) {
	rq, err := http.NewRequestWithContext(v.Context(), http.MethodGet, "http://grapnel.invalid"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	rq.URL.RawQuery = query.Encode()
	rq.Header.Set("Authorization", "Bearer "+v.session.Pass)
	rq.RequestURI = rq.URL.RequestURI()
	forward(rq, v.Request)
	narrow(rq, v.answers.tenant)
	return rq, nil
}

// fail answers with an error. Errors of the API keep its words and its request id.
func (v *visit) fail(err error) {
	f := v.failure(err)
	if f == nil {
		return
	}
	if f.Status == http.StatusSeeOther {
		v.redirect(f.Title)
		return
	}
	if f.Status == http.StatusUnauthorized && v.session != nil {
		if v.web.home == "" {
			v.setCookie(sessionCookie, "", -1)
		}
		v.toLogin()
		return
	}
	s := v.bare(f.Title)
	s.Model = f
	if v.session != nil {
		s.Nav, s.Finds, s.Open = v.entries(""), v.link("/deliveries"), v.open()
	}
	text, err := v.web.draw("failure.html", s)
	if err != nil {
		v.web.Log.Error("error page not drawn", slog.String("err", err.Error()))
		http.Error(v.rw, f.Title, f.Status)
		return
	}
	v.write(f.Status, text)
}

// failure turns an error into what a person reads; nil: the browser has left.
func (v *visit) failure(err error) *failure {
	var own *failure
	var told *client.Error
	switch {
	case errors.As(err, &own):
		return own
	case v.Context().Err() != nil && errors.Is(err, context.Canceled):
		return nil
	case errors.As(err, &told):
		f := &failure{
			Status: cmp.Or(told.Status, http.StatusUnprocessableEntity), Detail: sentence(told.Detail), Fields: told.Fields,
			Help: helps[told.Code], Request: told.RequestID,
		}
		f.Title = cmp.Or(told.Title, http.StatusText(f.Status))
		return f
	}
	v.web.Log.Error("page failed", slog.String("path", v.URL.Path), slog.String("err", err.Error()))
	return &failure{Status: http.StatusInternalServerError, Title: "The page could not be drawn",
		Help: "Reload it. If that does not help, look for \"page failed\" in the server's log."}
}

// orderOnce has the API make a delivery or an attempt, once however often the form is sent: what a
// first click has delivered, a second one would deliver again. A page may have buttons for several
// things, so each has a key of its own.
func (v *visit) orderOnce(of, id, verb string, in any) (d client.Delivery, err error) {
	once := v.PostForm.Get("once")
	if once != "" {
		once += "-" + id
	}
	err = v.client.PostOnce(v.Context(), of+url.PathEscape(id)+verb, once, in, &d)
	return d, err
}

// once is the idempotency key of the forms of a page: one that is sent twice does its work once. A
// form that is drawn again gets a new key, because the API keeps its refusal under the one before.
func (v *visit) once() string {
	if r := v.refusal; r != nil && (r.Status >= http.StatusInternalServerError || r.Code == string(grapnel.CodeInFlight)) {
		return v.PostForm.Get("once") // the request may have been done, or is being done
	}
	var random [12]byte
	if _, err := io.ReadFull(v.web.Random, random[:]); err != nil {
		return "" // two clicks are two requests then
	}
	return "dashboard-" + hex.EncodeToString(random[:])
}

// answer answers a script with JSON.
func (v *visit) answer(status int, out any) error {
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	v.rw.Header().Set("Content-Type", "application/json")
	v.rw.WriteHeader(status)
	_, _ = v.rw.Write(text) // the browser may have left
	return nil
}

// policyLink leads to the policy that an endpoint names, if it is a preset.
func (v *visit) policyLink(raw json.RawMessage) string {
	var name string
	if json.Unmarshal(raw, &name) != nil {
		return ""
	}
	if _, known := policy.Preset(name); !known {
		return ""
	}
	return v.link("/policies/" + url.PathEscape(name))
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

// ended answers a request without a session.
func (v *visit) ended() {
	v.setCookie(portalCookie, "", -1)
	v.session = nil
	v.fail(&failure{Status: http.StatusUnauthorized, Title: "This session has ended.",
		Help: "Go back to where you came from and open the portal again."})
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
		s.Token = v.web.seals.token(v.session.form())
	}
	return s
}

// open is the number of open issues and firing alerts; empty: it is unknown, or of a portal.
func (v *visit) open() string {
	if v.session == nil || v.session.portal {
		return ""
	}
	t, ok := v.web.trouble(v.Request, v.session)
	if !ok {
		return ""
	}
	return t.number()
}

// typed is what the browser sent for an input, as a text of its kind.
func (v *visit) typed(at *field) string {
	switch at.Kind {
	case kindTicks:
		return strings.Join(v.PostForm[at.Name], " ")
	case kindTick:
		if v.PostForm.Get(at.Name) != "" {
			return "true"
		}
		return "false"
	}
	return trimmed(v.PostForm.Get(at.Name))
}

func (v *visit) at(t time.Time) moment { return moment{t, v.now} }

// ofThese refuses sessions that are bound to a tenant the pages about customers.
func (v *visit) ofThese() error {
	if strings.HasPrefix(v.URL.Path, "/customers") && v.session.Tenant != "" {
		return refused(http.StatusNotFound, "Page not found.", "Sessions that are bound to a tenant see that tenant only.")
	}
	return nil
}
