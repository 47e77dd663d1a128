package consent_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/send/consent"
)

// TestRandomHistories: whatever people do with an endpoint, whatever is in flight when they do it
// and whenever the server restarts, no delivery reaches an address before its consent, and none to
// an address that never consents. In the end all events are delivered.
func TestRandomHistories(t *testing.T) {
	rapidtest.Check(t, func(rt *rapid.T) {
		// The draws come before the bubble, which has goroutines of its own.
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 60).Draw(rt, "steps")
		wrong := ""
		synctest.Test(t, func(t *testing.T) { wrong = history(t, steps) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// step is one thing that happens.
type step struct {
	Do    string
	At    int           // the address, for those that have one
	After time.Duration // since the step before
}

func drawStep(t *rapid.T) step {
	return step{
		Do: rapid.SampledFrom([]string{"publish", "publish", "publish", "move", "move", "move", "enable", "enable", "ask", "ask", "agree",
			"pause", "disable", "restart"}).Draw(t, "do"),
		At:    rapid.IntRange(0, 3).Draw(t, "at"),
		After: time.Duration(rapid.SampledFrom([]int{0, 1, 20, 300, 5000, 90000, 90000}).Draw(t, "ms")) * time.Millisecond,
	}
}

// history takes some steps, and says what was wrong; empty: nothing. Address 0 never consents; the
// others do from their step "agree" on, slowly.
func history(t *testing.T, steps []step) (wrong string) {
	b := newBench(t, consent.Bounds{PerTenant: 1 << 20, PerHost: 1 << 20})
	defer b.close()
	var at [4]receiver
	var urls [4]string
	for i := range at {
		urls[i] = b.host(fmt.Sprintf("r%d.test", i), slowly{&at[i]})
	}
	b.create("ep", "acme", urls[0])
	set := func(status grapnel.EndpointStatus) {
		b.change("ep", func(ep *grapnel.Endpoint) {
			if ep.Status != status {
				ep.Status, ep.DisabledReason = status, ""
			}
		})
	}
	agree := func(i int) {
		at[i].mu.Lock()
		defer at[i].mu.Unlock()
		at[i].agrees()
	}
	agree(1)
	for i, s := range steps {
		time.Sleep(s.After)
		switch s.Do {
		case "publish":
			b.publish("acme", fmt.Sprint("k", i%3))
		case "move":
			b.change("ep", func(ep *grapnel.Endpoint) { ep.URL = urls[s.At] })
		case "enable":
			set(grapnel.EndpointEnabled)
		case "pause":
			set(grapnel.EndpointPaused)
		case "disable":
			set(grapnel.EndpointDisabled)
		case "ask":
			_, _ = b.keeper.Ask(t.Context(), "ep", byPerson) // a conflict if it waits for nothing
		case "agree":
			agree(max(1, s.At))
		case "restart":
			b.halt()
			b.start()
		}
	}
	agree(3)
	b.change("ep", func(ep *grapnel.Endpoint) { ep.URL = urls[3] })
	set(grapnel.EndpointEnabled)
	time.Sleep(3 * time.Hour)
	got := map[string]bool{}
	for i := range at {
		if challenges, n, early := at[i].counts(); early > 0 || i == 0 && n > 0 {
			return fmt.Sprintf("address %d got %d deliveries, %d before its consent, and %d challenges", i, n, early, challenges)
		}
		for _, id := range at[i].deliveries {
			got[id] = true
		}
	}
	if len(got) != b.count {
		return fmt.Sprintf("%d of %d events were delivered; the endpoint is %+v", len(got), b.count, b.at("ep").Consent)
	}
	return ""
}
