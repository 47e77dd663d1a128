//go:build linux && prove

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// memoryLimit is the most memory that a server with a million pending deliveries may use, in MiB.
const memoryLimit = 300

// A backlog for a dead endpoint costs rows, not memory. Another endpoint of the same process is as
// quick as without it, and a restart does not read it.
func TestMillionPending(t *testing.T) {
	pending, windows := 100_000, 3
	if soak() {
		pending, windows = 1_000_000, 7
	}
	// An endpoint that hangs would also use up a longer drain timeout. The backlog exceeds the default
	// limit of pending deliveries per tenant, so the flag raises it.
	impatient := program{flag: []string{"--drain-timeout", "3s", "--max-pending", "0"}}
	for _, dead := range []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"refuses", refusing},
		{"hangs", hanging},
	} {
		t.Run(dead.name, func(t *testing.T) {
			sink := newStopwatch(t)
			loaded, idle := newChild(t, impatient, t.TempDir()), newChild(t, impatient, t.TempDir())
			for _, c := range []*child{loaded, idle} {
				c.start()
				c.ready(30 * time.Second)
				c.endpoint(sink.base+"/"+c.addr, map[string]any{"event_types": []string{"live.*"}})
			}
			_, _ = loaded.endpoint(dead.url(t), map[string]any{"event_types": []string{"dead.*"}})
			// The other server also has an endpoint that does not answer, with a handful of deliveries, so
			// that the backlog is the only difference.
			_, _ = idle.endpoint(dead.url(t), map[string]any{"event_types": []string{"dead.*"}})
			backlog(t, idle, 10)

			began := time.Now()
			backlog(t, loaded, pending)
			filled := time.Since(began)
			written(t, loaded)
			ratio, p99, without := compare(t, sink, loaded, idle, windows)
			now, peak := loaded.memory()
			t.Logf("%d pending, published in %v (%.0f/s): resident %.0f MiB, peak %.0f MiB; p99 of another endpoint %v, in a process without backlog %v, ratio %.2f",
				pending, filled.Round(time.Millisecond), float64(pending)/filled.Seconds(), now, peak, p99, without, ratio)
			if peak > memoryLimit {
				t.Errorf("the server took %.0f MiB with %d deliveries waiting, the limit is %d", peak, pending, memoryLimit)
			}
			if ratio > slower {
				t.Errorf("the p99 of a healthy endpoint is %.1f times what it is without the backlog", ratio)
			}

			began = time.Now()
			if code := loaded.terminate(40 * time.Second); code != 0 {
				t.Errorf("the exit code is %d", code)
			}
			stopped := time.Since(began)
			began = time.Now()
			loaded.start()
			loaded.ready(20 * time.Second)
			restarted := time.Since(began)
			again, _, _ := compare(t, sink, loaded, idle, 1)
			now, peak = loaded.memory()
			t.Logf("stopped in %v, ready again after %v; resident %.0f MiB, peak %.0f MiB, ratio %.2f", stopped.Round(time.Millisecond),
				restarted.Round(time.Millisecond), now, peak, again)
			if peak > memoryLimit {
				t.Errorf("the server took %.0f MiB after a restart with %d deliveries waiting, the limit is %d", peak, pending, memoryLimit)
			}
			if held := len(loaded.some(url.Values{"status": {"held"}}, 500)); held < 500 {
				t.Errorf("the backlog is not there after the restart: %d are held", held)
			}
		})
	}
}

// written waits until the server has brought the events of a burst into its tables: for two seconds
// it writes nothing. On a slow disk its own journal waits for those writes, whatever becomes of the
// events; what a burst costs others is not compared here.
func written(t *testing.T, c *child) {
	t.Helper()
	before, since := -1.0, time.Now()
	eventually(t, time.Minute, "the burst is in the tables", func() bool {
		now := c.metric("grapnel_store_written_bytes_total")
		if now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second
	})
}

// backlog publishes n events for the dead endpoint, in batches, over many keys.
func backlog(t *testing.T, c *child, n int) {
	t.Helper()
	const size = 1000
	var wg sync.WaitGroup
	next := make(chan int)
	for range 4 {
		wg.Go(func() {
			for first := range next {
				body := []byte(`{"events":[`)
				for i := first; i < min(first+size, n); i++ {
					if i > first {
						body = append(body, ',')
					}
					body = fmt.Appendf(body, `{"type":"dead.letter","key":"k%d","data":{"n":%d,"pad":"%0200d"}}`, i%50_000, i, i)
				}
				body = append(body, "]}"...)
				var status int
				var answer []byte
				var err error
				if !poll(t.Context(), time.Minute, 50*time.Millisecond, func() bool {
					status, answer, err = c.call(t.Context(), http.MethodPost, "/v1/events/batch", body)
					return err != nil || status != http.StatusServiceUnavailable
				}) || err != nil || status != http.StatusAccepted {
					t.Errorf("a batch was answered %d, %v: %.300s", status, err, answer)
				}
			}
		})
	}
	for first := 0; first < n && !t.Failed(); first += size {
		next <- first
	}
	close(next)
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// compare measures both servers in turn and returns the ratio of the 99th percentiles of their
// healthy endpoint's latency. The ratio is the median over pairs of neighbouring windows, so that
// other load on the machine is not blamed on the backlog.
//
// While the ratio is above the bar it adds windows, up to three times as many (see inTurn).
func compare(t *testing.T, sink *stopwatch, loaded, idle *child, windows int) (ratio float64, with, without time.Duration) {
	t.Helper()
	var loads, idles []time.Duration
	var ratios []float64
	for n := 0; n < windows || n < 3*windows && median(ratios) > slower; n++ {
		idles = append(idles, sink.window(t, idle))
		loads = append(loads, sink.window(t, loaded))
		ratios = append(ratios, float64(loads[n])/float64(idles[n]))
	}
	return median(ratios), median(loads), median(idles)
}

// slower is the largest allowed ratio of an event's latency to a healthy endpoint with a backlog to
// that without.
const slower = 3

// stopwatch is a receiver that measures how long after its planned publication each event arrived.
type stopwatch struct {
	base string
	mu   sync.Mutex
	took []time.Duration
	zero time.Time
}

func newStopwatch(t *testing.T) *stopwatch {
	t.Helper()
	s := &stopwatch{zero: time.Now()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.base = "http://" + listener.Addr().String()
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return s
}

func (s *stopwatch) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	now := time.Since(s.zero)
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		return
	}
	_, rest, _ := bytes.Cut(body.Bytes(), []byte(`"sent":`))
	digits, _, _ := bytes.Cut(rest, []byte(`}`))
	sent, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, now-time.Duration(sent))
}

// window publishes at a fixed rate, however long the answers take, and returns the 99th percentile.
func (s *stopwatch) window(t *testing.T, c *child) time.Duration {
	t.Helper()
	const n, every = 200, 5 * time.Millisecond
	s.mu.Lock()
	s.took = nil
	s.mu.Unlock()
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	start := time.Now()
	for i := range n {
		due := start.Add(time.Duration(i) * every)
		pause(ctx, time.Until(due))
		wg.Go(func() {
			body := fmt.Appendf(nil, `{"type":"live.tick","key":"k%d","data":{"sent":%d}}`, i%50, due.Sub(s.zero))
			if status, answer, err := c.call(ctx, http.MethodPost, "/v1/events", body); err != nil || status != http.StatusAccepted {
				t.Errorf("publishing was answered %d, %v: %.300s", status, err, answer)
			}
		})
	}
	wg.Wait()
	eventually(t, 20*time.Second, "every event has arrived", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.took) >= n || t.Failed()
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.took)
	return s.took[len(s.took)*99/100]
}

// refusing is an address that refuses connections.
func refusing(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	return "http://" + address + "/"
}

// hanging is an address that accepts connections and never answers.
func hanging(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-accepted
		for _, conn := range open {
			_ = conn.Close()
		}
	})
	return "http://" + listener.Addr().String() + "/"
}
