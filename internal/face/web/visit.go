package web

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// visit is one request of a browser on its way to a page.
type visit struct {
	*http.Request
	web     *web
	rw      http.ResponseWriter
	page    *page // nil: an action
	session *session
	client  *client.Client // calls the API with the session's key
	answers *inProcess
	place   place
	now     time.Time
	title   string          // of the browser's tab, if a builder knows a better one than its row
	refusal *client.Error   // why the API refused the form that is drawn again
	said    string          // what the next page says, in a frame
	meant   *client.Meaning // of the bare word of the page's search
	secret  *secretModel    // an action made a secret, which is shown in place of the next page
}

func (w *web) visit(rw http.ResponseWriter, r *http.Request, p *page) *visit {
	v := &visit{Request: r, web: w, rw: rw, page: p, session: w.session(r), place: w.place(r), now: w.Clock()}
	if v.session != nil {
		v.client, v.answers = w.caller(v.session.Pass, r.RemoteAddr)
	}
	return v
}

// link is the path of a page as the browser has to ask for it.
func (v *visit) link(path string) string { return v.place.base + v.web.home + path }

// here is the path and query of the request, below the base and the home.
func (v *visit) here() string { return strings.TrimPrefix(v.URL.RequestURI(), v.web.home) }

// local returns an address of this site that came from outside, or the overview. A path with two
// slashes or a backslash in front would lead to another site.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return u.RequestURI()
}

// redirect sends the browser to a page of this site.
func (v *visit) redirect(to string) {
	if v.session != nil && v.session.framed {
		v.answer(http.StatusOK, map[string]string{"to": v.link(local(to)), "notice": v.said})
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
	if len(sentence) > mostNotice {
		sentence = strings.ToValidUTF8(sentence[:mostNotice], "") + "…"
	}
	if v.session != nil && v.session.framed {
		v.said = sentence // a frame has no cookies
		return
	}
	if text, err := v.web.seals.SealBytes(noticeCookie, []byte(sentence)); err == nil && sentence != "" {
		v.web.setCookie(v.rw, v.Request, noticeCookie, text, time.Minute)
	}
}

// notice takes the sentence that an action left.
func (v *visit) notice() string {
	text := v.web.cookie(v.Request, noticeCookie)
	if text == "" {
		return ""
	}
	v.web.setCookie(v.rw, v.Request, noticeCookie, "", -1)
	plain, err := v.web.seals.OpenBytes(noticeCookie, text)
	if err != nil {
		return ""
	}
	return string(plain)
}

// model asks the API for the page's view model.
func (v *visit) model() (any, error) {
	if !v.session.May(v.page.scope) && v.session.portal {
		return nil, refused(http.StatusForbidden, "This link does not allow that.", "Ask for a link that does, where you got this one.")
	}
	if !v.session.May(v.page.scope) {
		if v.session.Role != "" {
			return nil, refused(http.StatusForbidden, "Your role may not see this page.",
				"You are "+string(v.session.Role)+". Ask an administrator for another role.")
		}
		return nil, refused(http.StatusForbidden, "This key may not see this page.", "Sign in with a key that has the scope "+string(v.page.scope)+".")
	}
	return v.page.build(v)
}

// show answers with the page.
func (v *visit) show(status int) {
	model, err := v.model()
	if err != nil {
		v.fail(err)
		return
	}
	v.draw(status, v.page.template, v.sheet(model, v.notice()))
}

// draw answers with a page within the layout.
func (v *visit) draw(status int, template string, s sheet) {
	text, err := v.web.draw(template, s)
	if err != nil {
		v.fail(err)
		return
	}
	v.write(status, text)
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
func (v *visit) json() {
	w := &recorder{header: http.Header{}}
	path, query := v.page.twin(v)
	if err := v.pass(w, path, query); err != nil {
		v.fail(err)
		return
	}
	v.rw.Header().Set("Content-Type", grapnel.JSONType)
	v.rw.WriteHeader(max(w.status, http.StatusOK))
	_, _ = v.rw.Write(w.body.Bytes())
}

// pass has the API answer a request with the session's key.
func (v *visit) pass(to http.ResponseWriter, path string, query url.Values) error {
	rq, err := http.NewRequestWithContext(v.Context(), http.MethodGet, "http://grapnel.invalid"+path, http.NoBody)
	if err != nil {
		return err
	}
	rq.URL.RawQuery = query.Encode()
	rq.Header.Set("Authorization", "Bearer "+v.session.Pass)
	rq.RemoteAddr, rq.RequestURI = v.RemoteAddr, rq.URL.RequestURI()
	v.web.API.ServeHTTP(to, rq)
	return nil
}
