//go:build linux

package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// focus describes the element with the focus; it is empty if the element does not show the focus.
const focus = `(() => {
	const e = document.activeElement, r = e.getBoundingClientRect();
	const drawn = e.ownerSVGElement ? [...e.children] : []; // a link in a picture draws its focus around a shape
	const plain = [e, e.closest("form.search") || e].map(f => getComputedStyle(f)).every(s => s.outlineStyle === "none" && s.boxShadow === "none") &&
		drawn.every(f => getComputedStyle(f).stroke === "none");
	if (e === document.body) return "body";
	return plain || !e.matches(":focus-visible") || r.width < 1 || r.height < 1 ? "" : e.nodeName + " " + (e.innerText || e.name || e.ariaLabel || e.id).slice(0, 40);
})()`

// TestKeyboardOnly goes from signing in to a redelivery without a mouse.
func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.refuses.Store(true)
	for range 3 {
		s.publish()
	}
	p := openTab(t, s.url())
	p.visit("/login")
	p.until("the field for the key has the focus", `document.hasFocus() && document.activeElement.matches("input[name=key]")`)
	p.press(adminKey)
	p.leaves(func() { p.press(kb.Enter) })

	p.leaves(func() { p.press("gx") })
	p.until("g x leads to a tab", `location.pathname === "/dead-letters" && document.querySelector(".tabs [aria-current]").innerText === "Dead letters"`)
	p.leaves(func() { p.press("gd") })
	p.until("g d leads to the deliveries", `location.pathname === "/deliveries"`)
	p.lists("n3")
	p.press("/")
	p.until("the search has the focus", `document.activeElement.matches(".search input")`)
	p.press("status:failed")
	p.leaves(func() { p.press(kb.Enter) })
	p.lists("n3")
	p.press("jjk")
	p.until("the first row is marked", `document.querySelectorAll("tr[data-row]")[0].ariaSelected === "true"`)
	p.press(kb.Enter)
	p.until("the delivery is beside the list", peeked, "The endpoint answered 422")
	p.press(kb.Escape)
	p.until("Escape gives the focus back to the row", `document.querySelector("#peek").hidden && document.activeElement.matches("[aria-selected=true] .what a")`)
	p.leaves(func() { p.press(kb.Enter) })
	p.sees("The endpoint answered 422")
	s.refuses.Store(false)
	p.leaves(func() { p.press("r") })
	p.until("the redelivery is shown", `/delivered/i.test(document.querySelector(".head .pill")?.innerText) || document.body.innerText.includes("Delivered again")`)

	p.press("?")
	p.until("the list of shortcuts is open", `document.querySelector("#keys").open`)
	p.press(kb.Escape)
	p.until("the list of shortcuts is closed", `!document.querySelector("#keys").open`)
	before := value[string](p, `getComputedStyle(document.body).backgroundColor`)
	p.press("t")
	p.until("the colours have changed", `getComputedStyle(document.body).backgroundColor !== %s`, before)
	p.press("k", chromedp.ModifierCtrl)
	p.until("a field to type where to go has the focus", `document.activeElement.matches("input")`)
	p.press(kb.Escape)
	p.until("Escape leaves the field", `!document.activeElement.matches("input")`)

	p.press("?")
	for i := 0; !value[bool](p, `document.activeElement.id === "nokeys"`); i++ {
		if i > 10 {
			t.Fatal("Tab does not reach the switch for single keys")
		}
		p.press(kb.Tab)
	}
	p.press(" ")
	p.press(kb.Escape)
	p.until("the list of shortcuts is closed", `!document.querySelector("#keys").open`)
	at, colours := p.path(), value[string](p, `document.documentElement.dataset.theme`)
	p.mark()
	p.press("gdt?/")
	if now := value[string](p, `document.documentElement.dataset.theme`); now != colours || p.path() != at || value[bool](p, `document.querySelector("#keys").open`) {
		t.Errorf("single keys work although they are switched off: %s, %s", p.path(), now)
	}
	p.same()
	p.visit("/deliveries")
	p.press("j")
	if value[bool](p, `!!document.querySelector("[aria-selected]")`) {
		t.Error("single keys are switched on again by another page")
	}
}

// TestFocusIsVisible: whatever the Tab key reaches shows that it has the focus, and the first stop
// leads past the navigation.
func TestFocusIsVisible(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := populate(t, s)
	p := openTab(t, s.url())
	p.signIn(adminKey)
	for _, path := range []string{"/", "/deliveries", c.fill("/deliveries/{id}"), "/dead-letters", "/replays/new"} {
		p.visit(path)
		p.press(" ") // paused, so that nothing else is drawn
		stops := 0
		for range 40 {
			p.press(kb.Tab)
			at := value[string](p, focus)
			if at == "body" {
				break
			}
			if at == "" {
				t.Errorf("%s: no focus is to be seen at stop %d: %s", path, stops, value[string](p, `document.activeElement.outerHTML.slice(0, 200)`))
			}
			if stops == 0 && at != "A Skip to the page" {
				t.Errorf("%s: the first stop is %s", path, at)
			}
			stops++
		}
		if stops < 10 {
			t.Errorf("%s has %d stops", path, stops)
		}
	}
}
