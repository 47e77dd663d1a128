//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// recovery measures endpoints that were down and come back at once, each with a backlog: how fast
// the backlog drains, and how quick a healthy endpoint's deliveries are before and meanwhile. It
// also measures a server's memory with the backlog, and a restart.
//
//	go run ./bench recovery -n 1000000
type recovery struct {
	n, endpoints, keys, size, rate int
	quiet, window                  time.Duration
	dir, binary                    string

	out              io.Writer
	server           *server
	receivers        *role
	sink, publisher  *role
	before, during   []time.Duration // of the healthy endpoint's deliveries, sorted
	restart          time.Duration
	empty, full, end memory
	count            receiversCount
}

// The bars.
const (
	recoverySlower   = 2.0    // p99 of the healthy endpoint meanwhile, of that before
	recoveryPerSec   = 3000.0 // deliveries drained
	recoveryRestart  = 2 * time.Second
	recoveryHosts    = 250
	recoveryBatch    = 1000
	recoveryLines    = 4 // publishers of the backlog
	recoveryPatience = 2 * time.Minute
)

func recoveryMain(ctx context.Context, args []string, out io.Writer) int {
	h := recovery{out: out}
	flags := flag.NewFlagSet("bench recovery", flag.ContinueOnError)
	flags.IntVar(&h.n, "n", 1_000_000, "deliveries that wait")
	flags.IntVar(&h.endpoints, "endpoints", 1000, "endpoints that they wait for")
	flags.IntVar(&h.keys, "keys", 40, "ordering keys of each endpoint; 0: events without a key")
	flags.IntVar(&h.size, "size", 200, "bytes of padding in each event's data")
	flags.IntVar(&h.rate, "rate", 50, "events per second for the healthy endpoint")
	flags.DurationVar(&h.quiet, "quiet", 30*time.Second, "time of the healthy endpoint's deliveries before the return")
	flags.DurationVar(&h.window, "window", 2*time.Second, "time of each of its windows meanwhile")
	flags.StringVar(&h.dir, "dir", "", "where the database is put; empty: a new directory below the current one")
	flags.StringVar(&h.binary, "binary", "", "the grapnel binary; empty: it is built")
	if flags.Parse(args) != nil {
		return 2
	}
	if err := h.run(ctx); err != nil {
		return failed(err)
	}
	return 0
}

func (h *recovery) say(format string, args ...any) { _, _ = fmt.Fprintf(h.out, format+"\n", args...) }

func (h *recovery) run(ctx context.Context) (err error) {
	if h.n < 1 || h.endpoints < 1 || h.keys < 0 || h.rate < 1 || h.size < 0 || h.window <= 0 || h.quiet <= 0 {
		return errors.New("n, endpoints, rate, quiet and window are above 0, keys and size at least 0")
	}
	s := settings{dir: h.dir, binary: h.binary, workers: 64, flags: []string{"--max-pending", "0"}}
	dir, d, remove, err := s.prepare("recovery", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	h.say("machine   %s", machine())
	h.say("disk      %s, write of 4 KiB and fsync %v", d.kind, d.sync.Round(time.Microsecond))
	h.say("load      %d deliveries for %d endpoints at %d addresses, %d keys each; %d events/s for a healthy endpoint", h.n, h.endpoints,
		min(recoveryHosts, h.endpoints), h.keys, h.rate)
	for name, to := range map[string]**role{"receivers": &h.receivers, "sink": &h.sink, "publisher": &h.publisher} {
		if *to, err = startRole(name); err != nil {
			return err
		}
		defer (*to).stop()
	}
	if h.server, err = startServer(ctx, s, dir, nil); err != nil {
		return err
	}
	defer func() { h.server.Stop() }()
	if err := h.measure(ctx, s, dir); err != nil {
		return fmt.Errorf("%w\n%s", err, h.server.Words())
	}
	h.report()
	return nil
}

// measure goes from an empty server to a drained one.
func (h *recovery) measure(ctx context.Context, s settings, dir string) error {
	if err := h.settle(ctx); err != nil {
		return err
	}
	var err error
	if h.empty, err = h.server.memory(); err != nil {
		return err
	}
	began := time.Now()
	if err := h.fill(ctx); err != nil {
		return err
	}
	h.say("backlog   published in %v (%.0f/s)", time.Since(began).Round(time.Millisecond), float64(h.n)/time.Since(began).Seconds())
	if h.full, err = h.server.memory(); err != nil {
		return err
	}
	h.say("memory    resident %.0f MiB with the endpoints, %.0f MiB with the backlog", mib(h.empty.resident), mib(h.full.resident))
	h.server.Stop()
	began = time.Now()
	again, err := startServer(ctx, s, dir, nil)
	if err != nil {
		return err
	}
	h.server, h.restart = again, time.Since(began)
	h.say("restart   ready after %v with the backlog  (bar: less than %v: %s)", h.restart.Round(time.Millisecond), recoveryRestart,
		verdict(h.restart < recoveryRestart))
	until := time.Now().Add(h.quiet)
	if h.before, err = h.healthy(ctx, func() (bool, error) { return time.Now().Before(until), ctx.Err() }); err != nil {
		return err
	}
	if err := h.drain(ctx); err != nil {
		return err
	}
	if h.end, err = h.server.memory(); err != nil {
		return err
	}
	return h.finished(ctx)
}

// settle creates the endpoints. Those of the receivers are probed every second or two, so that all
// of them are found working within seconds of their return.
func (h *recovery) settle(ctx context.Context) error {
	var at string
	if err := h.sink.ask("listen", nil, &at); err != nil {
		return err
	}
	if err := h.server.send(ctx, http.MethodPost, "/v1/endpoints", map[string]any{"url": "http://" + at + "/",
		"event_types": []string{"bench.tick"}}, nil); err != nil {
		return err
	}
	var hosts []string
	if err := h.receivers.ask("reserve", receiversOrder{Hosts: min(recoveryHosts, h.endpoints), Numbers: h.n}, &hosts); err != nil {
		return err
	}
	for i := range h.endpoints {
		if err := h.server.send(ctx, http.MethodPost, "/v1/endpoints", map[string]any{
			"url":         fmt.Sprintf("http://%s/%d", hosts[i%len(hosts)], i),
			"event_types": []string{fmt.Sprintf("recovery.e%d", i)},
			"policy":      map[string]any{"breaker": map[string]any{"probe": "1s", "probe_max": "2s"}}}, nil); err != nil {
			return err
		}
	}
	return nil
}

// fill publishes the backlog in batches.
func (h *recovery) fill(ctx context.Context) error {
	return each(recoveryLines, (h.n+recoveryBatch-1)/recoveryBatch, func(i int) error {
		return h.batch(ctx, i*recoveryBatch, min((i+1)*recoveryBatch, h.n))
	})
}

// batch publishes events. While the server sheds load it repeats them; their ids make that
// harmless.
func (h *recovery) batch(ctx context.Context, from, to int) error {
	pad := strings.Repeat("x", h.size)
	body := []byte(`{"events":[`)
	for i := from; i < to; i++ {
		if i > from {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"id":"recovery-%d","type":"recovery.e%d",`, i, i%h.endpoints)
		if h.keys > 0 {
			body = fmt.Appendf(body, `"key":"e%d-%d",`, i%h.endpoints, i/h.endpoints%h.keys)
		}
		body = fmt.Appendf(body, `"data":{%s%d,"pad":"%s"}}`, numberMark, i, pad)
	}
	body = append(body, "]}"...)
	return process.Until(ctx, recoveryPatience, func() (bool, error) {
		err := h.server.send(ctx, http.MethodPost, "/v1/events/batch", json.RawMessage(body), nil)
		if r, ok := errors.AsType[*refused](err); ok && r.status == http.StatusServiceUnavailable {
			return false, nil
		}
		return err == nil, err
	})
}

// healthy publishes to the healthy endpoint, window by window, until again says no, and returns
// how long its deliveries took, sorted.
func (h *recovery) healthy(ctx context.Context, again func() (bool, error)) (took []time.Duration, err error) {
	var before, accepted int64
	if err := errors.Join(h.sink.ask("time", nil, nil), h.sink.ask("received", nil, &before)); err != nil {
		return nil, err
	}
	for more := true; more; {
		var n int64
		if err := h.publisher.ask("open", order{Addr: h.server.Addr, Bearer: bearer, Connections: 16, Size: 1024, Rate: h.rate,
			For: h.window}, &n); err != nil {
			return nil, err
		}
		accepted += n
		if more, err = again(); err != nil {
			return nil, err
		}
	}
	if got, err := h.sink.arrived(ctx, 30*time.Second, before, accepted); err != nil {
		return nil, fmt.Errorf("the healthy endpoint got %d of %d deliveries: %w", got, accepted, err)
	}
	err = h.sink.ask("times", nil, &took)
	slices.Sort(took)
	return took, err
}

// drain opens the endpoints and waits until each delivery has arrived.
func (h *recovery) drain(ctx context.Context) (err error) {
	if err := h.receivers.ask("open", nil, nil); err != nil {
		return err
	}
	progress, told := time.Now(), time.Now()
	h.during, err = h.healthy(ctx, func() (bool, error) {
		before := h.count.Distinct
		if err := errors.Join(ctx.Err(), h.receivers.ask("count", nil, &h.count)); err != nil {
			return false, err
		}
		if h.count.Distinct > before {
			progress = time.Now()
		}
		if time.Since(progress) > recoveryPatience {
			return false, fmt.Errorf("%d of %d deliveries have arrived, and none for %v", h.count.Distinct, h.n, recoveryPatience)
		}
		if time.Since(told) > 30*time.Second {
			told = time.Now()
			h.say("          %d drained after %v", h.count.Distinct, h.count.Took.Round(time.Second))
		}
		return h.count.Distinct < h.n, nil
	})
	return err
}

// finished checks that the server has no unfinished and no failed delivery, and the receivers none
// that was not ordered.
func (h *recovery) finished(ctx context.Context) error {
	left := map[string]int{}
	if err := process.Until(ctx, 30*time.Second, func() (bool, error) {
		for _, status := range []string{"pending", "held", "failed"} {
			var page struct {
				Data []json.RawMessage `json:"data"`
			}
			if err := h.server.send(ctx, http.MethodGet, "/v1/deliveries?limit=100&status="+status, nil, &page); err != nil {
				return false, err
			}
			left[status] = len(page.Data)
		}
		return left["pending"]+left["held"]+left["failed"] == 0, nil
	}); err != nil {
		return fmt.Errorf("the first pages of deliveries that are not delivered: %v: %w", left, err)
	}
	if err := h.receivers.ask("count", nil, &h.count); err != nil {
		return err
	}
	if h.count.Distinct != h.n || h.count.Strange > 0 {
		return fmt.Errorf("%d deliveries were published, and this arrived: %+v", h.n, h.count)
	}
	return nil
}

func (h *recovery) report() {
	ratio := float64(quantile(h.during, 0.99)) / float64(max(1, quantile(h.before, 0.99)))
	drained := float64(h.n) / h.count.Took.Seconds()
	h.say("drain     %d deliveries in %v: %.0f/s  (bar: at least %.0f/s: %s); %d requests more", h.count.Distinct,
		h.count.Took.Round(time.Millisecond), drained, recoveryPerSec, verdict(drained >= recoveryPerSec), h.count.Repeated)
	h.say("memory    resident %.0f MiB at the end, %.0f MiB at most since the restart", mib(h.end.resident), mib(h.end.peak))
	h.say("")
	h.say("healthy endpoint, from the intended moment to the receiver")
	h.say("            events        p50        p90        p99        max")
	for _, row := range []struct {
		name string
		took []time.Duration
	}{{"before", h.before}, {"meanwhile", h.during}} {
		h.say("%-9s %8d  %9v  %9v  %9v  %9v", row.name, len(row.took), quantile(row.took, 0.5), quantile(row.took, 0.9),
			quantile(row.took, 0.99), quantile(row.took, 1))
	}
	h.say("ratio     of the 99th percentiles %.2f  (bar: at most %.1f: %s)", ratio, recoverySlower, verdict(ratio <= recoverySlower))
}
