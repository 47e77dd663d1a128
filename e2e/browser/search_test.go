//go:build linux

package browser

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// offered is a condition: the option that the keyboard has reached, or else the first one, has a
// text.
const offered = `(document.querySelector(".options:not([hidden]) [aria-selected=true]") ||
	document.querySelector(".options:not([hidden]) li"))?.innerText.includes(%s)`

// TestThePalette: Ctrl and K open it from anywhere. It leads to a page by a part of its name and to
// a delivery by its id, and Escape puts the focus back where it was.
func TestThePalette(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.publish()
	p := openTab(t, s.url())
	p.signIn(adminKey)
	p.visit("/deliveries")
	p.lists("n1")
	p.press("/")
	p.press("k", chromedp.ModifierCtrl)
	p.until("the palette has the focus", `document.activeElement.closest("#palette[open]")`)
	p.press(kb.Escape)
	p.until("the search has the focus again", `!document.querySelector("#palette").open && document.activeElement.matches(".search input")`)

	p.press("k", chromedp.ModifierCtrl)
	p.press("event t")
	p.until("the page is offered", offered, "Event types")
	p.leaves(func() { p.press(kb.Enter) })
	p.until("the page is open", `location.pathname === "/event-types"`)

	id := ok(s.Deliveries(t.Context(), client.DeliveryFilter{}))(t).Data[0].ID
	p.press("k", chromedp.ModifierCtrl)
	p.press(id)
	p.until("the delivery is offered", offered, id)
	p.leaves(func() { p.press(kb.Enter) })
	p.until("the delivery is open", `location.pathname === %s`, "/deliveries/"+id)
}

// TestThreeLettersReachAThing: three letters of a name and Enter lead to the page of a thing of any
// kind, although the options were not waited for. The box of a list finds in that list.
func TestThreeLettersReachAThing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ep := ok(s.Endpoints(t.Context(), client.EndpointFilter{}))(t).Data[0].ID
	other := ok(s.CreateEndpoint(t.Context(), client.NewEndpoint{URL: "https://receiver.example/in", Description: "Old warehouse",
		EventTypes: []string{"never"}}))(t).ID
	queue := ok(s.CreateQueue(t.Context(), client.NewQueue{Name: "zeitung", EventTypes: []string{"never"}}))(t).ID
	kind := ok(s.CreateEventType(t.Context(), client.NewEventType{Name: "wombat.fed"}))(t).ID
	p := openTab(t, s.url())
	p.signIn(adminKey)
	p.visit("/deliveries")
	for typed, path := range map[string]string{"acm": "/endpoints/" + ep, "hou": "/endpoints/" + other, "zei": "/queues/" + queue,
		"wom": "/event-types/" + kind} {
		p.press("k", chromedp.ModifierCtrl)
		p.leaves(func() { p.press(typed + kb.Enter) })
		p.until(typed+" leads to its page", `location.pathname === %s`, path)
	}
	p.visit("/endpoints")
	p.press("/")
	p.leaves(func() { p.press("WARE" + kb.Enter) })
	p.until("one endpoint is found", `[...document.querySelectorAll("[data-row] a")].map(a => a.innerText).join() === "Old warehouse"`)
}

// TestConditionsAreChosen: a condition is chosen from a menu and removed again, by links.
func TestConditionsAreChosen(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.publish()
	p := openTab(t, s.url())
	p.signIn(adminKey)
	p.visit("/deliveries")
	p.lists("n1")
	p.click(".menu summary", "Endpoint")
	p.leaves(func() { p.click(".menu[open] a", "Acme") })
	p.lists("n1")
	p.until("the condition can be removed", `document.querySelector("a.chip")?.innerText.startsWith("endpoint:ep_")`)
	p.leaves(func() { p.click("a.chip", "endpoint:") })
	p.until("it is removed", `location.search.replace("?q=", "") === "" && !document.querySelector("a.chip")`)
}

// TestTheSearchCompletes: the words that a search may have are offered while it is typed, and the
// keyboard takes them.
func TestTheSearchCompletes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.publish()
	s.holds("the first has arrived", func(ctx context.Context) (bool, error) {
		page, err := s.Deliveries(ctx, client.DeliveryFilter{Status: []grapnel.Status{grapnel.Delivered}})
		return err == nil && len(page.Data) == 1, err
	})
	s.refuses.Store(true)
	s.publish()
	p := openTab(t, s.url())
	p.signIn(adminKey)
	p.visit("/deliveries")
	p.lists("n2")
	p.press("/")
	p.press("st")
	p.until("the word is offered", offered, "status:")
	p.press("at" + kb.ArrowDown + kb.Tab) // before there are options for the longer word
	p.until("the word stands in the box", `document.querySelector(".search input").value === "status:"`)
	p.press("dea")
	p.until("its values are offered", offered, "status:dead")
	p.press(kb.ArrowDown)
	p.press(kb.Enter)
	p.until("the value stands in the box", `document.querySelector(".search input").value.trim() === "status:dead"`)
	p.leaves(func() { p.press(kb.Enter) })
	p.lists("n2")
	p.lacks("n1")
}

// TestAllThatMatchIsReplayed: one tick selects also what the page does not show, and the replay has
// exactly that.
func TestAllThatMatchIsReplayed(t *testing.T) {
	t.Parallel()
	const letters = 45 // more than a page has
	s := serve(t)
	var repaired atomic.Bool
	address := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if !repaired.Load() {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	ctx := t.Context()
	ok(s.CreatePolicy(ctx, []byte(strict)))(t)
	ep := ok(s.CreateEndpoint(ctx, client.NewEndpoint{URL: address, Description: "Ledger", EventTypes: []string{"payment.*"},
		Policy: "strict"}))(t)
	var events []client.NewEvent
	for i := range letters + 5 {
		kind := "payment.made"
		if i >= letters {
			kind = "payment.refunded"
		}
		events = append(events, client.NewEvent{Type: kind, Key: fmt.Sprint("order_", i), Data: []byte(`{}`)})
	}
	ok(s.PublishBatch(ctx, events))(t)
	s.holds("all are dead letters", func(ctx context.Context) (bool, error) {
		page, err := s.DeadLetters(ctx, client.DeliveryFilter{Endpoint: ep.ID, Limit: 100})
		return err == nil && len(page.Data) == letters+5, err
	})
	repaired.Store(true)
	p := openTab(t, s.url())
	p.signIn(adminKey)
	p.visit("/dead-letters?q=type:payment.made")
	p.click("#bulkall", "")
	p.until("the page says so", `document.querySelector("#bulkcount").innerText === "all that match"`)
	p.leaves(func() { p.click("#bulkbar button", "Replay selected") })
	p.countAll()
	p.sees(fmt.Sprint(letters, " deliveries will be delivered again."))
	p.leaves(func() { p.click("button", fmt.Sprint("Replay ", letters, " deliveries")) })
	p.sees(fmt.Sprint("All ", letters, " deliveries have arrived."))
	there := ok(s.Deliveries(ctx, client.DeliveryFilter{Endpoint: ep.ID, Status: []grapnel.Status{grapnel.Delivered}, Limit: 100}))(t)
	if len(there.Data) != letters {
		t.Errorf("%d deliveries have arrived; want those %d of the search", len(there.Data), letters)
	}
}
