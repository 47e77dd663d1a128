//go:build linux

package browser

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// tabTo presses Tab until an element with a text has the focus. Each stop on the way has to show
// that it has the focus.
func (p *tab) tabTo(selector, text string) {
	p.t.Helper()
	const there = `(e => e.matches(%s) && (e.innerText || e.value || "").includes(%s))(document.activeElement)`
	for range 200 {
		p.press(kb.Tab)
		if value[string](p, focus) == "" {
			p.t.Errorf("%s: a stop does not show its focus: %s", p.path(), value[string](p, `document.activeElement.outerHTML.slice(0, 200)`))
		}
		if value[bool](p, there, selector, text) {
			return
		}
	}
	p.t.Fatalf("Tab does not reach %s %q; the page says: %s", selector, text, p.words())
}

// goes tabs to a link or a button and presses Enter, which leads to another page.
func (p *tab) goes(selector, text string) {
	p.t.Helper()
	p.tabTo(selector, text)
	p.leaves(func() { p.press(kb.Enter) })
}

// TestGuidesByKeyboard: what the guides describe can be done on the pages with Tab, Enter and
// typing alone.
func TestGuidesByKeyboard(t *testing.T) {
	t.Parallel()
	s := serve(t)
	good := receiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	ep := ok(s.CreateEndpoint(t.Context(), client.NewEndpoint{URL: good, Description: "Acme"}))(t)
	ok(s.Publish(t.Context(), client.NewEvent{Type: "invoice.paid", Key: "inv_1", Data: []byte(`{"amount":1}`)}))(t)
	var first client.Delivery
	s.holds("the event has arrived", func(ctx context.Context) (bool, error) {
		found, err := s.Deliveries(ctx, client.DeliveryFilter{Endpoint: ep.ID, Status: []grapnel.Status{grapnel.Delivered}})
		if err != nil || len(found.Data) == 0 {
			return false, err
		}
		first = found.Data[0]
		return true, nil
	})
	p := openTab(t, s.url())
	p.visit("/login")
	p.until("the field for the key has the focus", `document.hasFocus() && document.activeElement.matches("input[name=key]")`)
	p.press(adminKey)
	p.leaves(func() { p.press(kb.Enter) })

	t.Run("receive Stripe", func(*testing.T) {
		p.visit("/sources")
		p.goes("a", "Add a source")
		p.goes("a", "Stripe")
		p.tabTo("input[name=name]", "")
		p.press("stripe")
		p.leaves(func() { p.press(kb.Enter) })
		p.sees("It waits for its secret.")
		p.sees("A provider on the internet cannot reach 127.0.0.1.")
		p.goes("a", "Set the secret")
		p.tabTo(`input[name="verify/secret"]`, "")
		p.press("whsec_of_the_test")
		p.leaves(func() { p.press(kb.Enter) })
		p.sees("It has accepted no request yet.")
		p.goes("a", "Rotate the secret")
		p.tabTo("input[name=secret]", "")
		p.press("whsec_the_next_one")
		p.tabTo("input[name=confirm]", "")
		p.press("rotate")
		p.leaves(func() { p.press(kb.Enter) })
		p.sees("Requests are verified with the new secret now. The old one ends in 24 h.")
	})
	t.Run("replay the last six hours", func(*testing.T) {
		p.visit("/replays")
		p.goes("a", "Replay deliveries")
		p.tabTo(`.fields input[name=q]`, "")
		p.press(kb.End + " since:6h status:delivered")
		p.leaves(func() { p.press(kb.Enter) })
		p.sees("1 delivery will be delivered again.")
		p.tabTo("input[name=rate]", "20")
		p.press("fast")
		p.allow("status of 422")
		p.leaves(func() { p.press(kb.Enter) })
		p.until("the fault has the focus", `document.activeElement.matches("[name=rate][aria-invalid]")`)
		p.press("5")
		p.goes("button", "Replay 1 delivery")
		p.until("the replay has ended", shown, "The delivery has arrived")
	})
	t.Run("rotate a secret", func(*testing.T) {
		p.visit("/endpoints/" + ep.ID)
		p.goes("a", "rotate the secret")
		p.tabTo("input[name=confirm]", "")
		p.press("rotate")
		p.leaves(func() { p.press(kb.Enter) })
		p.sees("shown now, and never again")
		p.goes("button", "Send a test event")
		p.sees("The endpoint answered 204 after")
	})
	t.Run("alert to Slack", func(*testing.T) {
		p.visit("/channels")
		p.goes("a", "Add a channel")
		p.tabTo("input[name=url]", "")
		p.press("https://hooks.slack.com/services/T0123456/B0123456/abcdefghijklmnopqrstuvwx")
		p.leaves(func() { p.press(kb.Enter) })
		p.sees("The channel is added.")
		all := ok(s.Channels(t.Context(), client.ChannelFilter{}))(t)
		if len(all.Data) != 1 || all.Data[0].Service != "slack" {
			t.Errorf("there are the channels %+v", all.Data)
		}
	})
	t.Run("a customer's portal", func(*testing.T) {
		p.visit("/customers")
		p.goes("a", "default")
		p.goes("a", "Open portal")
		p.goes("button", "Make the link")
		p.sees("shown now, and never again")
		p.goes("a", "Open portal")
		p.until("the portal", `location.pathname.startsWith("/portal/")`)
		p.sees("Acme")
		p.goes("a", "Add an endpoint")
		p.tabTo("input[name=url]", "")
		p.press(good + "/second")
		p.leaves(func() { p.press(kb.Enter) })
		p.sees("gets events from now on")
	})
	t.Run("edit and resend", func(*testing.T) {
		p.visit("/deliveries/" + first.ID)
		p.goes("a", "Edit and resend")
		p.sees("and send it as a new event.")
		p.tabTo("textarea[name=data]", "")
		for range len("{\n  \"amount\": 1\n}") {
			p.press(kb.Delete)
		}
		p.press(`{"amount":2}`)
		p.goes("button", "Look who would get it")
		p.sees(`"amount":2`)
		p.allow("A real event goes to every endpoint that wants it")
		p.goes("button", "Publish")
		p.sees("Published as the event")
		if at := p.path(); !strings.HasPrefix(at, "/events/") || strings.Contains(at, first.EventID) {
			t.Errorf("publishing leads to %s", at)
		}
	})
}
