//go:build linux && prove

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"
)

// Many endpoints recover at the same moment, each with a large backlog. New events to healthy
// endpoints arrive as quickly as before, and none of the recovered ones gets more than its limits
// or anything out of order. The short form compares in turn with a second server that has no
// others, because beside other tests the machine is not the same before and meanwhile.
func TestManyComeBackAtOnce(t *testing.T) {
	// In the short form the endpoints' limits add up to less than the machine can do; in the long form
	// to far more.
	endpoints, each, topics, perSecond, quantile := 50, 160, 10, 20, 75
	if soak() {
		endpoints, each, topics, perSecond, quantile = 1000, 1000, 100, 100, 50
	}
	const burst, concurrency, hosts, keys = 5, 4, 250, 40
	server := program{flag: []string{"--max-pending", "0"}}
	launched := func(network string) (*child, *beat) {
		c := newChild(t, server, t.TempDir())
		c.start()
		c.ready(30 * time.Second)
		return c, newBeat(t, c, network, 5, 200)
	}
	c, b := launched("127.0.5")
	calm := b
	if !soak() {
		_, calm = launched("127.0.17")
	}
	const length = time.Second
	var quiet, quietLag, busy, busyLag []time.Duration
	measureCalm := func() {
		travel, lag := calm.window(length, calm.sites)
		quiet, quietLag = append(quiet, travel), append(quietLag, lag)
	}
	b.window(length, b.sites) // warms up
	calm.window(length, calm.sites)
	for range 5 {
		if soak() {
			measureCalm()
		}
	}
	var idle, crowded float64 // MiB
	idle, _ = c.memory()

	// Several endpoints share a host, as at a hosting service.
	sites, doors := make([]*site, endpoints), make([]*door, min(hosts, endpoints))
	muxes := make([]*http.ServeMux, len(doors))
	for i := range doors {
		muxes[i] = http.NewServeMux()
		doors[i] = newDoor(t, fmt.Sprintf("127.0.6.%d", i+1), muxes[i])
		doors[i].shut()
	}
	for i := range sites {
		sites[i] = newSite()
		path := fmt.Sprintf("/%d", i)
		muxes[i%len(doors)].Handle(path, sites[i])
		c.endpoint("http://"+doors[i%len(doors)].addr+path, map[string]any{"event_types": []string{fmt.Sprintf("herd%d.*", i%topics)},
			"rate_limit": map[string]any{"per_second": perSecond, "burst": burst}, "max_concurrency": concurrency,
			"policy": map[string]any{"breaker": map[string]any{"failures": 5, "ratio": 0.5, "window": "30s", "probe": "1s", "probe_max": "2s"}}})
	}
	var wg sync.WaitGroup
	for topic := range topics {
		wg.Go(func() {
			if err := c.publishMany(context.Background(), numbered(fmt.Sprintf("herd%d", topic), "k", keys, 1, each/keys)); err != nil {
				t.Error(err)
			}
		})
		if topic%4 == 3 {
			wg.Wait()
		}
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}

	away, _ := b.window(length, b.sites)
	crowded, _ = c.memory()
	back := time.Now()
	for _, d := range doors {
		d.open()
	}
	taken := func() int {
		n := 0
		for _, s := range sites {
			n += s.taken()
		}
		return n
	}
	for len(busy) < 3 || taken() < endpoints*each && time.Since(back) < 30*time.Minute && !t.Failed() {
		if !soak() {
			measureCalm()
		}
		travel, lag := b.window(length, b.sites)
		busy, busyLag = append(busy, travel), append(busyLag, lag)
		if len(busy)%60 == 0 {
			t.Logf("%v after their return %d of %d deliveries are there; p99 of healthy endpoints %v", time.Since(back).Round(time.Second), taken(),
				endpoints*each, median(busy))
		}
	}
	took := time.Since(back)
	if n := taken(); n != endpoints*each {
		t.Errorf("%v after their return %d of %d deliveries are there", took, n, endpoints*each)
	}
	most, fastest, attempts := 0, 0, 0
	for i, s := range sites {
		all := s.seen(0)
		most, fastest, attempts = max(most, crowd(all, 15*time.Second)), max(fastest, busiest(all, time.Second)), attempts+len(all)
		for _, wrong := range s.disorder(0) {
			t.Fatalf("endpoint %d: %s", i, wrong)
		}
	}
	if most > concurrency || fastest > perSecond+burst+perSecond/10 {
		t.Errorf("an endpoint got %d requests at once and %d in a second; %d, %d and bursts of %d are allowed", most, fastest, concurrency,
			perSecond, burst)
	}
	a, z := percentile(slices.Clone(quiet), quantile), median(busy) // see inTurn
	ratio := float64(z) / float64(a)
	_, peak := c.memory()
	t.Logf("%d endpoints with %d deliveries, all taken %v after their return (%.0f/s); p99 of healthy endpoints from acceptance to arrival %v without them, %v "+
		"while they were away and %v meanwhile, ratio %.2f; from when they should have been published %v and %v; at most %d at once and %d in a second for each; "+
		"%d requests for %d deliveries; resident %.0f MiB before, %.0f MiB with what waits, peak %.0f MiB", endpoints, endpoints*each,
		took.Round(time.Millisecond),
		float64(endpoints*each)/took.Seconds(), a, away, z, ratio, median(quietLag), median(busyLag), most, fastest, attempts,
		endpoints*each, idle, crowded, peak)
	if ratio > 3 {
		t.Errorf("the p99 of healthy endpoints is %.2f times that without the others: %v against %v", ratio, busy, quiet)
	}
	if peak > memoryLimit {
		t.Errorf("the server took %.0f MiB, %.0f of them with %d endpoints waiting; the limit is %d", peak, crowded, endpoints, memoryLimit)
	}
	if failed := c.rows(url.Values{"status": {"failed"}}); len(failed) > 0 {
		t.Errorf("%d deliveries failed", len(failed))
	}
}
