//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// door is an address of loopback that can be shut: while it is, connections to it are refused.
type door struct {
	t       testing.TB
	addr    string
	handler http.Handler

	mu     sync.Mutex
	server *http.Server // nil while it is shut
	served chan struct{}
}

// newDoor opens a door at a free port. A host other than 127.0.0.1 keeps others from taking the port while the door is shut:
// nobody connects from there.
func newDoor(t testing.TB, host string, handler http.Handler) *door {
	t.Helper()
	d := &door{t: t, addr: host + ":0", handler: handler}
	d.open()
	t.Cleanup(d.shut)
	return d
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.server != nil {
		return
	}
	listener, err := net.Listen("tcp", d.addr)
	if err != nil {
		d.t.Errorf("a receiver cannot listen: %v", err)
		return
	}
	d.addr = listener.Addr().String()
	server, served := &http.Server{Handler: d.handler, ReadHeaderTimeout: 10 * time.Second}, make(chan struct{})
	d.server, d.served = server, served
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
}

// shut closes the listener and every connection. What is about to be answered is answered before, so that no answer gets lost.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_ = d.server.Shutdown(ctx)
	_ = d.server.Close() // whoever hangs
	<-d.served
	d.server = nil
}

// site is the receiver of one endpoint. It can be told how to treat whoever comes, and remembers everybody. Events published
// for it are named PREFIX-KEY-NUMBER, where the numbers of a key are 1, 2, 3 …; what arrives is held against that.
type site struct {
	zero  time.Time
	keeps bool                     // the bodies of requests
	pick  func(*visit) (way, bool) // treats single visits in another way; nil: none

	mu     sync.Mutex
	way    way
	visits []visit
	done   map[string]time.Duration // when an event was taken first
}

// way is how a site treats whoever comes.
type way struct {
	hangs  bool // no answer until the sender gives up
	after  time.Duration
	freed  <-chan struct{} // ends after early; nil: nothing does
	status int             // 0: 200
}

// visit is one request.
type visit struct {
	event   string
	key     string
	number  int
	trigger string
	attempt int
	start   time.Duration
	end     time.Duration // before the answer was written; 0: it is still open
	status  int           // 0: the sender gave up
	lag     time.Duration // from the moment at which the event should have been published; only if its data say when
	travel  time.Duration // from its acceptance, by the server's word
	body    []byte        // only where it is kept
}

func newSite() *site { return &site{zero: time.Now(), done: map[string]time.Duration{}} }

func (s *site) now() time.Duration { return time.Since(s.zero) }

// turn changes how the site treats those who come from now on. Whoever hangs goes on hanging.
func (s *site) turn(w way) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way = w
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	v := visit{event: r.Header.Get("webhook-id"), trigger: r.Header.Get("grapnel-trigger"), start: arrived.Sub(s.zero)}
	v.attempt, _ = strconv.Atoi(r.Header.Get("grapnel-attempt"))
	if parts := strings.Split(v.event, "-"); len(parts) == 3 {
		v.key = parts[1]
		v.number, _ = strconv.Atoi(parts[2])
	}
	if sent, ok := between(body, `"sent":`, "}"); ok {
		if n, err := strconv.ParseInt(sent, 10, 64); err == nil {
			v.lag = v.start - time.Duration(n)
		}
	}
	if text, ok := between(body, `"timestamp":"`, `"`); ok {
		if accepted, err := time.Parse(time.RFC3339Nano, text); err == nil {
			v.travel = arrived.Sub(accepted)
		}
	}
	s.mu.Lock()
	way := s.way
	if s.pick != nil {
		if special, ok := s.pick(&v); ok {
			way = special
		}
	}
	if s.keeps {
		v.body = body
	}
	at := len(s.visits)
	s.visits = append(s.visits, v)
	s.mu.Unlock()

	status := 0
	if way.waits(r.Context()) {
		if status = way.status; status == 0 {
			status = http.StatusOK
		}
	}
	s.mu.Lock()
	s.visits[at].end, s.visits[at].status = s.now(), status
	if _, again := s.done[v.event]; status == http.StatusOK && !again {
		s.done[v.event] = s.visits[at].end
	}
	s.mu.Unlock()
	if status == 0 {
		panic(http.ErrAbortHandler) // nobody listens any more
	}
	w.WriteHeader(status)
}

// waits says whether there is anybody left to answer when the time for it has come.
func (w way) waits(ctx context.Context) bool {
	if w.hangs {
		<-ctx.Done()
		return false
	}
	if w.after > 0 {
		timer := time.NewTimer(w.after)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-w.freed:
		case <-timer.C:
		}
	}
	return ctx.Err() == nil
}

func between(text []byte, from, to string) (string, bool) {
	_, rest, ok := bytes.Cut(text, []byte(from))
	if !ok {
		return "", false
	}
	found, _, ok := bytes.Cut(rest, []byte(to))
	return string(found), ok
}

// taken is how many events the site has answered with 200.
func (s *site) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.done)
}

// seen is a copy of the visits from a moment on, in the order of their arrival.
func (s *site) seen(from time.Duration) []visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.visits), func(v visit) bool { return v.start < from })
	slices.SortStableFunc(all, func(a, b visit) int { return int(a.start - b.start) })
	return all
}

// disorder says what was wrong with the order and the completeness of what arrived: every event of a key must be taken once, and
// the one after it may arrive only then. Faults, if there were any, excuse as many repetitions.
func (s *site) disorder(faults int) []string {
	var wrong []string
	last := map[string]visit{}
	repeated := 0
	for _, v := range s.seen(0) {
		before := last[v.key]
		switch {
		case v.number == before.number && before.status == http.StatusOK:
			repeated++
		case v.number == before.number+1 && (before.number == 0 || before.status == http.StatusOK && before.end <= v.start):
		case v.number == before.number && (before.status == 0 || before.end <= v.start): // that a sender has given up is seen late
		default:
			wrong = append(wrong, fmt.Sprintf("%s came at %v, after number %d, which was answered %d at %v", v.event, v.start, before.number, before.status, before.end))
		}
		last[v.key] = v
	}
	if repeated > faults {
		wrong = append(wrong, fmt.Sprintf("%d events were repeated although they had been taken", repeated))
	}
	return wrong
}

// crowd is the most requests that were open at once. One that the sender has given up is seen to be over only a little later, so
// the last fifth of the timeout of such a one does not count.
func crowd(visits []visit, timeout time.Duration) int {
	type edge struct {
		at  time.Duration
		was int
	}
	var edges []edge
	for _, v := range visits {
		end := v.end
		if v.status == 0 && (end == 0 || end > v.start+timeout*4/5) {
			end = v.start + timeout*4/5
		}
		edges = append(edges, edge{v.start, 1}, edge{end, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.was - b.was
	})
	open, most := 0, 0
	for _, e := range edges {
		open += e.was
		most = max(most, open)
	}
	return most
}

// busiest is the most requests that arrived within the given time.
func busiest(visits []visit, within time.Duration) int {
	most, first := 0, 0
	for i, v := range visits {
		for visits[first].start <= v.start-within {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// percentile is the value below which so many of a hundred lie. It sorts.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)*p/100, len(all)-1)]
}

func median[T ~int64 | ~float64](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
