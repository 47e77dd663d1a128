//go:build linux

package browser

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/grapnelhq/grapnel/client"
)

// stage is a server with one endpoint, whose receiver refuses while a test says so.
type stage struct {
	*server
	refuses atomic.Bool
	sent    int
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{server: serve(t)}
	address := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if s.refuses.Load() {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	ok(s.CreatePolicy(t.Context(), []byte(strict)))(t)
	ok(s.CreateEndpoint(t.Context(), client.NewEndpoint{URL: address, Description: "Acme", EventTypes: []string{"order.*"},
		Policy: "strict"}))(t)
	return s
}

// publish publishes the next event: its key is n1, n2, n3 …
func (s *stage) publish() (key string) {
	s.t.Helper()
	s.sent++
	key = fmt.Sprint("n", s.sent)
	ok(s.Publish(s.t.Context(), client.NewEvent{Type: "order.placed", Key: key, Data: []byte(`{}`)}))(s.t)
	return key
}

// listed is a condition: the list has a row with a key.
const listed = `[...document.querySelectorAll("tr[data-row] .key")].some(e => e.innerText.trim() === %s)`

// peeked is a condition: the panel beside the list shows a text.
const peeked = `document.querySelector("#peek:not([hidden])")?.innerText.includes(%s)`

func (p *tab) lists(key string) {
	p.t.Helper()
	p.until("the list has "+key, listed, key)
}

func (p *tab) lacks(key string) {
	p.t.Helper()
	if value[bool](p, listed, key) {
		p.t.Errorf("%s lists %s", p.path(), key)
	}
}

// another is a second person's tab on a page.
func (p *tab) another(path string) *tab {
	p.t.Helper()
	q := openTab(p.t, p.base)
	q.signIn(adminKey)
	q.visit(path)
	return q
}

// TestTroubleIsCountedLive: the number beside Trouble appears on an open page about something else.
func TestTroubleIsCountedLive(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := openTab(t, s.url())
	p.signIn(adminKey)
	p.visit("/event-types")
	p.mark()
	p.until("nothing is wrong", `document.querySelector("nav [data-count]").hidden`)
	s.refuses.Store(true)
	s.publish()
	p.until("the number appears", `(e => !e.hidden && Number(e.innerText) > 0)(document.querySelector("nav [data-count]"))`)
	p.same()
	p.leaves(func() { p.click("nav a", "Trouble") })
	p.sees("1 issue is open")
}

// TestListsAreLive: what happens on the server appears in open lists without a reload, and in a
// filtered list only what its filter wants.
func TestListsAreLive(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.publish()
	p := openTab(t, s.url())
	p.signIn(adminKey)
	p.visit("/deliveries")
	p.lists("n1")
	p.mark()
	dead := p.another("/deliveries?q=status:dead")
	dead.has(".empty")
	dead.mark()
	arrives := s.publish()
	p.lists(arrives)
	s.refuses.Store(true)
	fails := s.publish()
	p.lists(fails)
	dead.lists(fails)
	dead.lacks(arrives)
	p.same()
	dead.same()
}

// TestRowsStayUnderThePointer: while the pointer aims at a row, the row stays where it is, and the
// list goes on when the pointer has left it. A row marked by the keyboard stays the marked one.
func TestRowsStayUnderThePointer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for range 5 {
		s.publish()
	}
	p := openTab(t, s.url())
	p.signIn(adminKey)
	p.visit("/deliveries")
	p.lists("n5")
	q := p.another("/deliveries")
	const under = `document.elementFromPoint(%s, %s)?.closest("tr")?.id`
	x, y := p.point("tr[data-row] .key", "n3")
	row := value[string](p, under, x, y)
	newer := s.publish()
	seen := eventually(p.ctx, patience, func() bool { // the hand is never quite still
		x++
		p.do("moving", chromedp.MouseEvent(chromedp.MouseMoved, x-2*float64(int(x)%2), y))
		return value[bool](q, listed, newer)
	})
	if now := value[string](p, under, x, y); !seen || now != row {
		t.Errorf("another tab has the new row: %v; under the pointer is %s, which was %s", seen, now, row)
	}
	p.point(".search input", "")
	p.lists(newer)

	p.press("\x1b")
	p.press("jj")
	marked := p.text(`[aria-selected] .key`)
	newer = s.publish()
	p.lists(newer)
	if now := p.text(`[aria-selected] .key`); now != marked {
		t.Errorf("the marked row is %s, which was %s", now, marked)
	}
	p.press("j")
	if next, want := p.text(`[aria-selected] .key`), "n4"; next != want {
		t.Errorf("the row after %s is %s; want %s", marked, next, want)
	}
	p.press("\r")
	p.until("the row is shown beside the list", peeked, "n4")
	p.lists(newer)
}

// TestHiddenTabsRest: a hidden tab asks for nothing, and is up to date when it is shown again.
func TestHiddenTabsRest(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.publish()
	p := openTab(t, s.url())
	p.signIn(adminKey)
	p.visit("/deliveries")
	p.until("the page is live", `document.querySelector("#live").dataset.state === "live"`)
	q := p.another("/deliveries")
	p.mark()
	const become = `(Object.defineProperty(document, "hidden", { configurable: true, get: () => %s }), document.dispatchEvent(new Event("visibilitychange")))`
	value[bool](p, become, true)
	asked := p.times("/deliveries")
	first := s.publish()
	q.lists(first)
	second := s.publish() // by now a look at the first would have been drawn
	q.lists(second)
	p.lacks(first)
	if now := p.times("/deliveries"); now != asked {
		t.Errorf("the hidden tab has asked %d times", now-asked)
	}
	value[bool](p, become, false)
	p.lists(second)
	p.same()

	p.press(" ")
	p.until("the page is paused", `document.querySelector("#live").dataset.state === "paused"`)
	third := s.publish()
	q.lists(third)
	p.lacks(third)
	p.press(" ")
	p.lists(third)
}

// TestPollingWithoutAStream: where something between the browser and the server refuses event
// streams, the page asks from time to time.
func TestPollingWithoutAStream(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.publish()
	p := openTab(t, s.url())
	p.allow("net::ERR_FAILED")
	p.signIn(adminKey)
	paused := chromedp.Events(p.ctx, fetch.RequestPaused)
	p.ended.Go(func() {
		for ev, err := range paused {
			if err != nil {
				return
			}
			if strings.Contains(fmt.Sprint(ev.Request.Headers), "event-stream") {
				_, _ = chromedp.Call(p.ctx, fetch.FailRequest, fetch.FailRequestParams{RequestID: ev.RequestID, ErrorReason: network.ErrorReasonFailed})
			} else {
				_, _ = chromedp.Call(p.ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: ev.RequestID})
			}
		}
	})
	p.hurry()
	p.do("refusing streams",
		call(fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: "*"}}}))
	p.visit("/deliveries")
	p.until("the page polls", `document.querySelector("#live").dataset.state === "polling"`)
	p.mark()
	p.lists(s.publish())
	p.same()
	if !strings.Contains(p.text("#live"), "polling") {
		t.Errorf("the page says %q", p.text("#live"))
	}
}
