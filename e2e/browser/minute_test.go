//go:build linux

package browser

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
)

// TestFirstMinute plays the first minute of a new user: the login link of grapnel dev, the story
// that ticks its steps, the repair, the replay. The steps are ticked by what the server has done,
// so a click alone ticks none.
func TestFirstMinute(t *testing.T) {
	t.Parallel()
	s, login := dev(t)
	p := openTab(t, s.url())
	p.visit(login)
	p.until("the link has signed in", `location.pathname === "/first-minute" && document.querySelector(".coach")`)
	p.mark()

	story := []string{"A failed attempt is repeated until it succeeds", "An endpoint that is down gets probes only",
		"What it missed arrives when it is back", "What cannot succeed becomes a dead letter", "The cause is visible", "A duplicate does no harm"}
	const ticked = `[...document.querySelectorAll(".coach tr")].filter(r => r.querySelector(".pill")?.innerText.trim() === "done").map(r => r.querySelector(".what").innerText.trim())`
	var order []string
	if !eventually(p.ctx, 2*time.Minute, func() bool {
		for _, step := range value[[]string](p, ticked) {
			if !slices.Contains(order, step) {
				order = append(order, step)
			}
		}
		return len(order) >= len(story)
	}) {
		t.Fatalf("ticked: %q; the page says: %s", order, p.words())
	}
	rank := func(step string) int { return slices.Index(story, step) }
	if !slices.IsSortedFunc(order[:4], func(a, b string) int { return rank(a) - rank(b) }) {
		t.Errorf("the steps were ticked in this order: %q", order)
	}
	dead := ok(s.DeadLetters(t.Context(), client.DeliveryFilter{}))(t)
	if len(dead.Data) != 3 {
		t.Errorf("the page speaks of dead letters; there are %d", len(dead.Data))
	}
	p.same() // all of it was seen without a reload

	p.leaves(func() { p.click("button", "Fix the receiver") })
	p.sees("The ledger is repaired. Replay its three dead letters.")
	if done := value[[]string](p, ticked); len(done) != len(story) {
		t.Errorf("the repair alone ticked a step: %q", done)
	}
	p.leaves(func() { p.click("a.btn", "Look at the dead letters") })
	p.sees("3 deliveries have failed for good")
	p.leaves(func() { p.click("a.btn", "Replay all that match") })
	p.countAll()
	p.leaves(func() { p.click("button", "Replay 3 deliveries") })
	p.sees("All 3 deliveries have arrived.")
	p.leaves(func() { p.click("nav a", "First minute") })
	p.sees("You have seen it: nothing was lost, and no duplicate did harm.")
	s.holds("the server has no dead letter left", func(ctx context.Context) (bool, error) {
		page, err := s.DeadLetters(ctx, client.DeliveryFilter{})
		return err == nil && len(page.Data) == 0, err
	})
	if text := p.text(".own"); !strings.Contains(text, s.addr) {
		t.Errorf("the command for a receiver of one's own does not lead to this server: %s", text)
	}

	p.look("/first-minute", axeCore(t))

	second := openTab(t, s.url())
	second.allow("status of 403")
	second.visit(login)
	second.sees("The link was used already, or is too old.")
}
