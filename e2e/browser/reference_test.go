//go:build linux

package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestTheReferenceInABrowser: without a session the menu's search finds an operation and the
// keyboard opens it; in a session a request is run and its answer shown. Pages are looked at as
// those of the dashboard are.
func TestTheReferenceInABrowser(t *testing.T) {
	t.Parallel()
	axe := axeCore(t)
	s := newStage(t)
	s.publish()
	p := openTab(t, s.url())
	p.visit("/docs")
	p.press("/")
	p.press("post ack-lease")
	p.until("only what is searched for is offered", `[...document.querySelectorAll(".menu a")].filter(a => a.offsetParent).length < 4`)
	p.leaves(func() { p.press(kb.Enter) })
	p.until("the operation is open", `location.pathname + location.hash === "/docs/queues#ack-lease"`)
	for _, path := range []string{"/docs", "/docs/requests", "/docs/problems", "/docs/webhooks", "/docs/operational-events", "/docs/endpoints",
		"/docs/schemas", "/docs/schemas/NewEndpoint"} {
		p.visit(path)
		p.look(path, axe)
	}
	p.signIn(adminKey)
	p.visit("/docs/events#list-events")
	p.look("/docs/events", axe)
	p.size(1440, 900)
	p.click("#list-events summary", "Try it")
	p.click("#list-events .btn", "Run")
	p.until("the answer is shown", `document.querySelector("#list-events .try pre").textContent.startsWith("200\n{")`)
	p.click("#list-events .btn", "Run")
	p.until("it can be run again", `!document.querySelector("#list-events .btn").disabled`)
}
