package server

import (
	"net/url"
	"strings"
	"testing"
)

// TestOperatorLooksAtOneCustomer: an operator finds a customer by name, looks at it alone and sees
// nothing of others, makes a link that opens its portal, and goes back to all.
func TestOperatorLooksAtOneCustomer(t *testing.T) {
	s := start(t, still(t))
	acme, globex := own(t, s, "acme"), own(t, s, "globex")
	b := newBrowser(t, s.URL())
	b.signIn(testKey)
	_, _, body := b.ask("GET", "/customers?q=glob", nil)
	if !strings.Contains(body, ">globex<") || strings.Contains(body, ">acme<") {
		t.Errorf("the search found %s", body)
	}
	if _, _, body := b.ask("GET", "/endpoints", nil); !strings.Contains(body, `href="/customers/acme"`) || !strings.Contains(body, `href="/customers/globex"`) {
		t.Error("the list of all endpoints does not say whose they are")
	}
	send := func(path, from string, want int, fields ...string) string {
		t.Helper()
		form := url.Values{"token": {b.token(from)}, "back": {from}, "once": {from + path}, "was": {`{"name":"","accent":"","logo":"","frame_ancestors":""}`}}
		for i := 0; i < len(fields); i += 2 {
			form.Add(fields[i], fields[i+1])
		}
		status, _, body := b.ask("POST", path, form)
		if status != want {
			t.Errorf("POST %s: answered %d %s", path, status, body)
		}
		return body
	}
	send("/customers/acme/only", "/customers", 303)
	for _, path := range []string{"/", "/endpoints", "/deliveries", "/events", "/dead-letters", "/sources", "/queues", "/issues", "/alerts", "/channels", "/audit", "/keys"} {
		_, _, body := b.ask("GET", path, nil)
		for _, text := range append(globex.texts, globex.ids...) {
			if strings.Contains(body, text) {
				t.Errorf("%s shows %s", path, text)
			}
		}
	}
	if status, _, _ := b.ask("GET", "/endpoints/"+globex.ep, nil); status != 404 {
		t.Errorf("another's endpoint: answered %d", status)
	}
	if status, _, _ := b.ask("GET", "/endpoints/"+acme.ep, nil); status != 200 {
		t.Errorf("its endpoint: answered %d", status)
	}
	body = send("/customers/acme/brand", "/customers/acme/brand", 422, "name", strings.Repeat("x", 61), "accent", "blue", "logo", "logo.png",
		"frame_ancestors", "app.example.com")
	for _, name := range []string{"name", "accent", "logo", "frame_ancestors"} {
		if !strings.Contains(body, `id="wrong-`+name+`"`) {
			t.Errorf("the form does not say what is wrong with %s", name)
		}
	}
	send("/customers/acme/brand", "/customers/acme/brand", 303, "name", "Acme hooks", "accent", "#1A7F37")
	link := send("/customers/acme/portal", "/customers/acme/portal", 200, "scopes", "read", "scopes", "endpoints:write", "subject", "jane")
	if !strings.Contains(link, "/portal#grpass_") {
		t.Errorf("no link: %s", link)
	}
	if _, _, body := b.ask("GET", "/audit", nil); !strings.Contains(body, "portal/jane") {
		t.Error("the audit does not have the link")
	}
	if _, _, body := b.ask("GET", "/customers/acme", nil); !strings.Contains(body, "Acme hooks") || !strings.Contains(body, "#1a7f37") {
		t.Errorf("the look: %s", body)
	}
	send("/customers/all", "/endpoints", 303)
	if status, _, _ := b.ask("GET", "/endpoints/"+globex.ep, nil); status != 200 {
		t.Errorf("back at all: answered %d", status)
	}
}
