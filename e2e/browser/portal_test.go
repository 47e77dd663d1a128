//go:build linux

package browser

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// customer is a tenant with an endpoint and an event.
type customer struct{ ep, evt, secret string }

func newCustomer(t *testing.T, s *server, tenant string) customer {
	t.Helper()
	ep := ok(s.CreateEndpoint(t.Context(), client.NewEndpoint{Tenant: tenant, URL: "http://127.0.0.1:9/" + tenant,
		Description: "Endpoint of " + tenant, Status: grapnel.EndpointPaused}))(t)
	evt := ok(s.Publish(t.Context(), client.NewEvent{Tenant: tenant, Type: "a.b", Data: []byte(`{"text":"payload of ` + tenant + `"}`)}))(t)
	return customer{ep.ID, evt.ID, "Endpoint of " + tenant}
}

func (s *server) portalLink(tenant string, scopes ...grapnel.Scope) string {
	s.t.Helper()
	return strings.TrimPrefix(ok(s.CreatePortalLink(s.t.Context(), tenant, client.NewPortalLink{Scopes: scopes}))(s.t).URL, s.url())
}

// TestThePortalShowsOneTenant: a link opens the portal once, in one browser. There, ids of another
// tenant look like ids of nothing, and so does the dashboard.
func TestThePortalShowsOneTenant(t *testing.T) {
	t.Parallel()
	s := serve(t)
	acme, globex := newCustomer(t, s, "acme"), newCustomer(t, s, "globex")
	link := s.portalLink("acme", "read", "endpoints:write")
	p := openTab(t, s.url())
	p.visit(link)
	p.sees(acme.secret)
	if at := value[string](p, `location.href`); strings.Contains(at, "#") || strings.Contains(at, "grpass") {
		t.Errorf("the address still has the code: %s", at)
	}
	p.visit("/portal/endpoints/" + acme.ep)
	p.sees(acme.secret)
	p.visit("/portal/deliveries")
	p.sees("a.b")

	p.allow("status of 404")
	p.allow("status of 401")
	for _, path := range []string{"/portal/endpoints/" + globex.ep, "/portal/endpoints/" + globex.ep + "/edit", "/portal/deliveries?q=endpoint:" + globex.ep,
		"/portal/events/" + globex.evt, "/portal/keys", "/portal/audit?tenant=globex"} {
		p.visit(path)
		if text := p.words(); strings.Contains(text, globex.secret) || strings.Contains(text, "payload of globex") {
			t.Errorf("%s shows another tenant's: %s", path, text)
		}
	}
	p.visit("/")
	p.until("the dashboard asks for a key", `location.pathname === "/login"`)

	q := openTab(t, s.url())
	q.allow("status of 401")
	q.visit(link)
	q.sees("This link does not open the portal.")
	q.sees("Ask for a new one where you got it.")
	if err := s.RevokePortalLinks(t.Context(), "acme", "test"); err != nil {
		t.Fatal(err)
	}
	p.allow("status of 403")
	p.visit("/portal/endpoints")
	if strings.Contains(p.words(), acme.secret) {
		t.Error("a revoked session still shows the endpoints")
	}
}

// TestAPortalSaysThatItsSessionHasEnded: a page that is only looked at says so too, instead of
// showing what it had.
func TestAPortalSaysThatItsSessionHasEnded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	acme := newCustomer(t, s, "acme")
	p := openTab(t, s.url())
	p.visit(s.portalLink("acme", "read"))
	p.sees(acme.secret)
	p.allow("status of 401")
	if err := s.RevokePortalLinks(t.Context(), "acme", "test"); err != nil {
		t.Fatal(err)
	}
	p.sees("This session has ended.")
}

// TestThePortalIsFramedWhereAllowed: the tenant's origins may show the portal in a frame, another
// origin gets an empty frame, and the dashboard is never framed.
func TestThePortalIsFramedWhereAllowed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	acme := newCustomer(t, s, "acme")
	var body string
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><link rel="icon" href="data:,"><h1>Shop</h1>` + body))
	}))
	t.Cleanup(host.Close)
	home := strings.Replace(host.URL, "127.0.0.1", "localhost", 1) // the tenant's own page
	embed := func() string {
		return `<script src="` + s.url() + `/portal.js"></script><grapnel-portal src="` +
			html.EscapeString(s.url()+s.portalLink("acme", "read")) + `"></grapnel-portal>`
	}
	ok(s.UpdatePortal(t.Context(), "acme", map[string]any{"frame_ancestors": []string{home}}))(t)

	body = embed()
	p := openTab(t, home)
	p.allow("another host: " + s.url())
	p.visit("/")
	if !framed(p, s.url(), acme.secret) {
		t.Error("the frame does not show the portal")
	}

	body = embed()
	q := openTab(t, host.URL) // another origin
	q.allow("another host: " + s.url())
	q.allow("frame-ancestors")
	q.visit("/")
	q.until("there is a frame", `document.querySelector("iframe")`)
	if !eventually(q.ctx, patience, func() bool { return q.said("frame-ancestors") }) {
		t.Errorf("the browser was not told to refuse the frame: %v", q.faults)
	}

	body = `<iframe src="` + s.url() + `/login"></iframe>`
	r := openTab(t, home)
	r.allow("another host: " + s.url())
	r.allow("frame-ancestors|X-Frame-Options")
	r.visit("/")
	if !eventually(r.ctx, patience, func() bool { return r.said("frame-ancestors") || r.said("X-Frame-Options") }) {
		t.Error("the dashboard can be framed")
	}
}

// TestAFrameKeepsWhatAPersonDoes: the frame asks for its page again from time to time. That takes
// no tick from a row, and a click meanwhile leads where it leads.
func TestAFrameKeepsWhatAPersonDoes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	acme := newCustomer(t, s, "acme")
	link := s.url() + s.portalLink("acme", "read", "replay")
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><link rel="icon" href="data:,"><script src="` + s.url() + `/portal.js"></script><grapnel-portal src="` +
			html.EscapeString(link) + `"></grapnel-portal>`))
	}))
	t.Cleanup(host.Close)
	home := strings.Replace(host.URL, "127.0.0.1", "localhost", 1)
	ok(s.UpdatePortal(t.Context(), "acme", map[string]any{"frame_ancestors": []string{home}}))(t)
	link = s.url() + s.portalLink("acme", "read", "replay")
	p := openTab(t, home)
	p.allow("another host: " + s.url())
	p.visit("/")
	ctx := frameOf(p, s.url())
	until := func(what, is string) {
		t.Helper()
		if !eventually(ctx, patience, func() bool {
			yes, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`!!(`+is+`)`))
			return err == nil && yes
		}) {
			t.Fatalf("never: %s", what)
		}
	}
	until("the endpoints are shown", `document.body.innerText.includes("`+acme.secret+`")`)
	// Polls are counted; the second waits until it is told to go on.
	until("requests are watched", `(() => { const ask = fetch; window.polls = 0; window.fetch = async (to, o) => {
		const mine = window.watched && ++polls;
		if (mine === 2) await new Promise(on => { window.go = on; });
		const answer = await ask(to, o);
		if (mine) setTimeout(() => { window.answered = mine; }, 200);
		return answer;
	}; return true; })()`)
	click := func(name string) string {
		return `(() => { [...document.querySelectorAll("nav a")].find(a => a.textContent.includes("` + name + `")).click(); return true; })()`
	}
	until("a click on Deliveries", click("Deliveries"))
	until("a row is ticked", `(() => { const box = document.querySelector("input[name=id]"); if (box) { box.checked = true; watched = true; } return box; })()`)
	until("a poll is answered", `window.answered === 1`)
	until("the row is ticked still", `document.querySelector("input[name=id]").checked`)
	until("a poll is under way", `window.go`)
	until("a click on Endpoints", click("Endpoints"))
	until("the endpoints are shown again", `document.body.innerText.includes("`+acme.secret+`") && !document.querySelector("input[name=id]")`)
	until("the poll is answered", `(go(), window.answered === 2)`)
	until("the endpoints are shown still", `!document.querySelector("input[name=id]")`)
}

// framed says whether the page's frame from a server shows a text.
func framed(p *tab, base, text string) bool {
	p.t.Helper()
	ctx := frameOf(p, base)
	return eventually(ctx, patience, func() bool {
		words, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
		return err == nil && strings.Contains(words, text)
	})
}

// frameOf is the page's frame from a server. It is a page of another site, so it is a target of its
// own.
func frameOf(p *tab, base string) context.Context {
	p.t.Helper()
	var id target.ID
	eventually(p.ctx, patience, func() bool {
		all, err := chromedp.Targets(p.ctx)
		i := slices.IndexFunc(all, func(t *target.Info) bool { return t.Type == "iframe" && strings.HasPrefix(t.URL, base) })
		if err == nil && i >= 0 {
			id = all[i].TargetID
		}
		return id != ""
	})
	ctx, cancel := chromedp.NewContext(p.ctx, chromedp.WithTargetID(id), chromedp.WithDetachOnCancel())
	p.t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		p.t.Fatalf("the frame: %v", err)
	}
	return ctx
}
