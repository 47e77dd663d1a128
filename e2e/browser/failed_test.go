//go:build linux

package browser

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// TestFindAndReplayOne: a failed delivery is found in three ways, says why it failed, and is seen
// to arrive after it was replayed, without a reload.
func TestFindAndReplayOne(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var repaired atomic.Bool
	address := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if !repaired.Load() {
			http.Error(w, "currency JPY is not supported", http.StatusUnprocessableEntity)
		}
	})
	ctx := t.Context()
	ok(s.CreatePolicy(ctx, []byte(strict)))(t)
	ep := ok(s.CreateEndpoint(ctx, client.NewEndpoint{URL: address, Description: "Ledger", EventTypes: []string{"payment.*"},
		Policy: "strict"}))(t)
	for i := range 3 {
		ok(s.Publish(ctx, client.NewEvent{Type: "payment.made", Key: fmt.Sprint("order_", i), Data: []byte(`{"currency":"JPY"}`)}))(t)
	}
	p := openTab(t, s.url())
	p.signIn(adminKey)
	const rows = `document.querySelectorAll("tr[data-row]").length === %s`

	p.leaves(func() { p.click("nav a", "Deliveries") })
	p.leaves(func() { p.click(".tabs a", "Dead letters") })
	p.sees("3 deliveries have failed for good")
	p.leaves(func() { p.click("nav a", "Deliveries") })
	p.leaves(func() { p.click(".views a", "Dead") })
	p.until("the filter shows three rows", rows, 3)
	p.fill(".search input", "key:order_1 status:dead")
	p.leaves(func() { p.press(kb.Enter) })
	p.until("the search shows one row", rows, 1)

	p.leaves(func() { p.click("tr[data-row] a", "payment.made") })
	p.sees("The endpoint answered 422")
	p.sees("currency JPY is not supported")
	repaired.Store(true)
	p.leaves(func() { p.click("button", "Deliver again") })
	p.mark()
	p.until("the page shows the redelivery as delivered, or leads to it", `document.querySelector(".head .pill")?.innerText.includes("delivered") ||
		document.body.innerText.includes("Delivered again")`)
	p.same()
	s.holds("the redelivery has arrived", func(ctx context.Context) (bool, error) {
		page, err := s.Deliveries(ctx, client.DeliveryFilter{Endpoint: ep.ID, Key: "order_1", Status: []grapnel.Status{grapnel.Delivered}})
		return err == nil && len(page.Data) == 1, err
	})
}

// countAll has the preview of a replay count everything, if it says that its time was too short.
func (p *tab) countAll() {
	p.t.Helper()
	p.has(".answer")
	if value[bool](p, `[...document.querySelectorAll("a")].some(a => a.innerText === "Count all")`) {
		p.leaves(func() { p.click("a", "Count all") })
	}
}

// TestReplayThroughAKill: a person starts the replay of some hundred dead letters. The server is
// killed in the middle and started again. The page stays, shows the progress again, and ends with
// the right number; the receiver got each delivery.
func TestReplayThroughAKill(t *testing.T) {
	t.Parallel()
	const letters = 300
	s := serve(t)
	var mu sync.Mutex
	arrived := map[string]int{}
	repaired := false
	address := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !repaired {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		arrived[r.Header.Get("webhook-id")]++
	})
	ctx := t.Context()
	ok(s.CreatePolicy(ctx, []byte(strict)))(t)
	ep := ok(s.CreateEndpoint(ctx, client.NewEndpoint{URL: address, Description: "Ledger", EventTypes: []string{"payment.*"},
		Policy: "strict"}))(t)
	var events []client.NewEvent
	for i := range letters {
		events = append(events, client.NewEvent{Type: "payment.made", Key: fmt.Sprint("order_", i%40), Data: []byte(`{"amount":1}`)})
	}
	for at := 0; at < letters; at += 100 {
		ok(s.PublishBatch(ctx, events[at:at+100]))(t)
	}
	s.holds("all are dead letters", func(ctx context.Context) (bool, error) {
		page, err := s.DeadLetters(ctx, client.DeliveryFilter{Endpoint: ep.ID, Limit: 500})
		return err == nil && len(page.Data) == letters, err
	})
	mu.Lock()
	repaired = true
	mu.Unlock()

	p := openTab(t, s.url())
	p.allow("net::ERR_|status of 503")
	p.hurry()
	p.signIn(adminKey)
	p.leaves(func() { p.click("nav a", "Deliveries") })
	p.leaves(func() { p.click(".tabs a", "Dead letters") })
	p.leaves(func() { p.click("a.btn", "Replay All Failed") })
	p.countAll()
	p.sees("300 deliveries will be delivered again.")
	p.fill("input[name=rate]", "60")
	p.leaves(func() { p.click("button", "Replay 300 deliveries") })
	p.mark()
	const figure = `Number([...document.querySelectorAll(".legend div")].find(d => d.innerText.includes("Arrived")).querySelector("dd").innerText)`
	p.until("some have arrived", figure+" >= 40")
	s.kill()
	p.until("the page says that the server is lost", `document.querySelector("#live").dataset.state === "lost"`)
	before := value[int](p, figure)
	asked := p.times(p.path())
	if !eventually(ctx, 3*patience, func() bool { return p.times(p.path()) >= asked+2 }) { // enough to give the stream up
		t.Fatal("the page does not ask for the server")
	}
	s.start()
	p.within(3*patience, "the page is live again", `document.querySelector("#live").dataset.state === "live"`)
	p.within(3*patience, "all have arrived", `document.body.innerText.includes("All 300 deliveries have arrived.")`)
	p.same()
	if after := value[int](p, figure); before >= after || after != letters {
		t.Errorf("the page counted %d before the kill and %d at the end", before, after)
	}
	replays := ok(s.Replays(ctx, client.ReplayFilter{Endpoint: ep.ID}))(t).Data
	if len(replays) != 1 || replays[0].Made != letters || replays[0].Delivered != letters {
		t.Errorf("the server says: %+v", replays)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(arrived) != letters {
		t.Errorf("%d of %d arrived", len(arrived), letters)
	}
}
