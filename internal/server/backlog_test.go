package server

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel/internal/store"
)

// counting is a store that counts how often it is asked.
type counting struct {
	asked int
	list  []store.Backlog
	err   error
}

func (c *counting) Backlogs(_ context.Context, _ store.Scope, _ string, _ time.Time, limit int64) ([]store.Backlog, error) {
	if c.asked++; limit < 1 {
		return nil, errors.New("without a limit every row would be counted")
	}
	return c.list, c.err
}

// TestScrapesShareACount: however many scrapes there are, the store is asked once in ten seconds.
// The last count stands in for those that fail, for a while.
func TestScrapesShareACount(t *testing.T) {
	from, now := &counting{}, time.Unix(1_700_000_000, 0)
	b := store.Backlog{Endpoint: "a", Pending: 20, Ready: 3, Leased: 1, Blocked: 2, Waiting: 4, Later: 10,
		Oldest: now.Add(-time.Hour), Dead: 5}
	more := store.Backlog{Endpoint: "b", Pending: 1000, Ready: 30, Later: 5, More: true, Oldest: now.Add(-time.Minute)}
	from.list = []store.Backlog{b, more, {Endpoint: "c", Dead: 2}}
	size := func(context.Context) (int64, error) { return 0, errors.New("away") }
	m := newBacklog(Bounds{}, from, func() []string { return []string{"b", "z"} },
		func() map[string]string { return map[string]string{"a": "jobs", "q": "idle"} }, size,
		func() time.Time { return now }, slog.New(slog.DiscardHandler))
	scrape := func() map[string]float64 {
		t.Helper()
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(m)
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]float64{}
		for _, f := range families {
			for _, one := range f.Metric {
				name := f.GetName()
				for _, l := range one.Label {
					name += " " + l.GetValue()
				}
				all[name] = one.GetGauge().GetValue()
			}
		}
		return all
	}
	for range 100 {
		got := scrape()
		for name, want := range map[string]float64{"grapnel_backlog ready": 3, "grapnel_backlog scheduled": 10, "grapnel_backlog held": 35,
			"grapnel_backlog leased": 1, "grapnel_backlog blocked": 2, "grapnel_backlog waiting": 4, "grapnel_backlog uncounted": 965,
			"grapnel_oldest_undelivered_age_seconds": 3600, "grapnel_dead_letters": 7, "grapnel_ordering_blocked_keys": 2,
			"grapnel_queue_leases jobs": 1, "grapnel_queue_leases idle": 0, "grapnel_queue_leases other": 0} {
			if got[name] != want {
				t.Fatalf("%s is %v, want %v", name, got[name], want)
			}
		}
		if _, is := got["grapnel_store_bytes"]; is {
			t.Fatal("an unknown size is a number")
		}
	}
	if from.asked != 1 {
		t.Errorf("100 scrapes asked %d times", from.asked)
	}
	from.err = errors.New("away")
	now = now.Add(10 * time.Second)
	if got := scrape(); from.asked != 2 || got["grapnel_dead_letters"] != 7 || got["grapnel_oldest_undelivered_age_seconds"] != 3610 {
		t.Errorf("while the store is away, after %d questions: %v", from.asked, got)
	}
	now = now.Add(10 * time.Minute)
	if got := scrape(); len(got) != 0 {
		t.Errorf("a count of ten minutes ago is shown: %v", got)
	}
	from.err, from.list = nil, nil
	now = now.Add(10 * time.Second)
	if got := scrape(); got["grapnel_backlog ready"] != 0 || len(got) != 13 || got["grapnel_oldest_undelivered_age_seconds"] != 0 {
		t.Errorf("an empty store: %v", got)
	}
}
