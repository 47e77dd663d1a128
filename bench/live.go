//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// watchers are open dashboards.
type watchers struct {
	b     *browser
	paths []string // each browser looks at one of them
	n     int

	states, bytes atomic.Int64
}

// livePages are pages that people keep open, lists with filters among them.
func livePages(endpoint string) []string {
	paths := []string{"/", "/deliveries", "/endpoints", "/endpoints/" + endpoint, "/dead-letters", "/events"}
	for _, q := range []string{"status:failed", "status:waiting", "type:bench.*", "type:order.*", "endpoint:" + endpoint, "since:6h",
		"error:timeout", "code:5xx since:7d", "tenant:default"} {
		paths = append(paths, "/deliveries?"+url.Values{"q": {q}}.Encode())
	}
	return paths
}

// open opens them; close ends them and says what went wrong before.
func (w *watchers) open(ctx context.Context) (closing func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	errs := make([]error, w.n)
	for i := range w.n {
		all.Go(func() {
			err := w.b.watch(ctx, w.paths[i%len(w.paths)], func(bytes int) {
				w.states.Add(1)
				w.bytes.Add(int64(bytes))
			})
			if ctx.Err() == nil {
				errs[i] = fmt.Errorf("a live page ended: %w", err)
			}
		})
	}
	return func() error {
		cancel()
		all.Wait()
		return errors.Join(errs...)
	}
}

// compare measures throughput with open dashboards and with none, in turn; every second round in
// the other order, so that a machine that gets slower favours neither.
func (d *dashboard) compare(ctx context.Context, g *server, browser *browser, out io.Writer) (missed []string, err error) {
	b := &bench{settings: d.settings, out: out}
	b.endpoints, b.rate = 1, 1
	at, stop, err := b.startClients()
	if err != nil {
		return nil, err
	}
	defer stop()
	var ep struct {
		ID string `json:"id"`
	}
	if err := g.send(ctx, http.MethodPost, "/v1/endpoints", map[string]any{"url": "http://" + at + "/0", "max_concurrency": d.workers,
		"event_types": []string{"bench.tick"}}, &ep); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, g.send(context.WithoutCancel(ctx), http.MethodDelete, "/v1/endpoints/"+ep.ID, nil, nil))
	}()
	watched := &watchers{b: browser, paths: livePages(ep.ID), n: d.live}
	sides := []*side{{name: "none", addr: g.Addr, cpu: g.cpu}, {name: "live", addr: g.Addr, cpu: g.cpu}}
	_, _ = fmt.Fprintf(out, "%d dashboards at %d pages, and none; %v after %v of warming up, %d publishers\n", d.live, len(watched.paths),
		d.window, d.warm, d.publishers)
	b.say("round  side     delivered/s  accepted/s  backlog  drained in   itself  publisher  sink  database  others")
	for round := range d.rounds {
		for i := range sides {
			x := sides[(i+round)%2]
			closing := func() error { return nil }
			if x.name == "live" {
				closing = watched.open(ctx)
			}
			w, err := b.window1(ctx, x)
			if err := errors.Join(err, closing()); err != nil {
				return nil, fmt.Errorf("%w\n%s", err, g.Words())
			}
			x.windows = append(x.windows, w)
			b.row(round, x, w)
		}
	}
	rate := func(x *side) float64 { return median(x.windows, func(w window) float64 { return w.delivered }) }
	cost := func(x *side) float64 {
		return median(x.windows, func(w window) float64 { return 1e6 * w.own / w.delivered })
	}
	ratio := rate(sides[1]) / rate(sides[0])
	// A live page lasts for the warm time, the window, and until all has arrived.
	took := time.Duration(d.rounds) * (d.warm + d.window)
	b.say("")
	b.say("median    none %.0f/s, live %.0f/s, ratio %.1f %%  (bar: at least %.0f %%: %s)", rate(sides[0]), rate(sides[1]), 100*ratio,
		100*d.least, verdict(ratio >= d.least))
	// Other programs change throughput from window to window, but hardly the cost of a delivery.
	b.say("          processor time of the server per delivery: none %.0f µs, live %.0f µs (%.1f %%)", cost(sides[0]), cost(sides[1]),
		100*cost(sides[0])/cost(sides[1]))
	b.say("          each dashboard got %.2f states a second, of %d bytes", float64(watched.states.Load())/took.Seconds()/float64(d.live),
		watched.bytes.Load()/max(watched.states.Load(), 1))
	if ratio < d.least {
		missed = append(missed, fmt.Sprintf("with %d open dashboards throughput is %.1f %% of that with none, limit %.0f %%", d.live,
			100*ratio, 100*d.least))
	}
	return missed, nil
}
