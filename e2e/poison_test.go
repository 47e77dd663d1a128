//go:build linux && prove

package e2e

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// An event that its endpoint never accepts blocks its own key and nothing else: the same events
// reach another endpoint, which accepts all, no sooner. The circuit stays closed, the lane is
// listed as blocked, and skipping the event unblocks it.
func TestPoisonStopsItsKeyOnly(t *testing.T) {
	const poison, behind, windows = "beat0-bad0-1", 6, 5
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	b := newBeat(t, c, "127.0.4", 1, 200)
	clean, poisoned := b.sites[0], newSite()
	poisoned.zero = b.zero
	poisoned.pick = func(v *visit) (way, bool) { return way{status: http.StatusUnprocessableEntity}, v.event == poison }
	// The poison is attempted ten times per second, so that it has many attempts.
	id, _ := c.endpoint("http://"+newDoor(t, "127.0.4.200", poisoned).addr+"/", map[string]any{"event_types": []string{"beat0.*"},
		"policy": map[string]any{"max_attempts": 10_000, "max_age": "24h", "jitter": 0, "limits": []any{},
			"schedule": map[string]any{"mode": "since_previous", "delays": []string{"0s", "100ms"}, "tail": "repeat"}}})

	both := []*site{clean, poisoned}
	b.window(time.Second, both)
	if err := c.publishMany(t.Context(), numbered("beat0", "bad", 1, 1, behind+1)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the poison has been tried", func() bool { return len(of(poisoned.seen(0), poison)) > 1 })
	var ratio50, ratio99 []float64
	for range windows {
		from := poisoned.now()
		b.window(time.Second, both)
		with, without := travels(poisoned.seen(from)), travels(clean.seen(from))
		ratio50 = append(ratio50, float64(percentile(with, 50))/float64(percentile(without, 50)))
		ratio99 = append(ratio99, float64(percentile(with, 99))/float64(percentile(without, 99)))
		if h := c.health(id); h.State != "healthy" {
			t.Errorf("the health of the poisoned endpoint is %+v", h)
		}
	}
	tried := of(poisoned.seen(0), poison)
	t.Logf("%d attempts of the poison in vain; other keys beside it and where there is none: p50 %.2f, p99 %.2f times (medians of %d windows)",
		len(tried), median(ratio50), median(ratio99), windows)
	if median(ratio50) > 1.5 || median(ratio99) > 1.5 {
		t.Errorf("other keys of the poisoned endpoint are delayed: p50 %.2f times, p99 %.2f times", ratio50, ratio99)
	}
	if len(tried) < 5*windows {
		t.Errorf("the poison was tried %d times only: it was none", len(tried))
	}
	for _, v := range poisoned.seen(0) {
		if v.event != poison && (v.attempt != 1 || v.key == "bad0") {
			t.Fatalf("beside the poison, event %s was attempted for the %d. time", v.event, v.attempt)
		}
	}

	var lanes struct {
		Data []struct {
			Key     string `json:"key"`
			Head    row    `json:"head"`
			Waiting int    `json:"waiting"`
		} `json:"data"`
	}
	c.must(http.StatusOK, http.MethodGet, "/v1/endpoints/"+id+"/lanes", nil, &lanes)
	if len(lanes.Data) != 1 || lanes.Data[0].Key != "beat0bad0" || lanes.Data[0].Waiting != behind || lanes.Data[0].Head.EventID != poison ||
		lanes.Data[0].Head.Attempts < len(tried)-1 {
		t.Fatalf("the stuck lanes are %+v", lanes.Data)
	}
	before := poisoned.taken()
	c.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+lanes.Data[0].Head.ID+"/skip",
		map[string]any{"reason": "the customer will never take it"}, nil)
	eventually(t, 10*time.Second, "what waited behind the poison has arrived", func() bool { return poisoned.taken() == before+behind })
	eventually(t, 10*time.Second, "that is on record", func() bool { return !c.waiting() })
	number := 2
	for _, v := range poisoned.seen(0) {
		if v.key == "bad0" && v.event != poison {
			if v.number != number {
				t.Errorf("event %s came when number %d was to come", v.event, number)
			}
			number++
		}
	}
	c.must(http.StatusOK, http.MethodGet, "/v1/endpoints/"+id+"/lanes", nil, &lanes)
	if len(lanes.Data) != 0 {
		t.Errorf("after skipping, lanes are stuck still: %+v", lanes.Data)
	}
	for _, r := range c.rows(url.Values{"endpoint": {id}, "key": {"beat0bad0"}}) {
		if want := fate(r.EventID == poison); r.Status != want {
			t.Errorf("%s is %s, not %s", r.EventID, r.Status, want)
		}
	}
}

func fate(skipped bool) grapnel.Status {
	if skipped {
		return grapnel.Skipped
	}
	return grapnel.Delivered
}

// of are the visits of one event.
func of(visits []visit, event string) []visit {
	var all []visit
	for _, v := range visits {
		if v.event == event {
			all = append(all, v)
		}
	}
	return all
}

// travels are the times from acceptance to arrival of the events that arrived once.
func travels(visits []visit) []time.Duration {
	var all []time.Duration
	for _, v := range visits {
		if v.status == http.StatusOK {
			all = append(all, v.travel)
		}
	}
	return all
}
