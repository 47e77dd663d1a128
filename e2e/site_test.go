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

// door is an address of loopback that can be closed: connections to it are then refused.
type door struct {
	t       testing.TB
	addr    string
	handler http.Handler

	mu     sync.Mutex
	server *http.Server // nil: closed
	served chan struct{}
}

// newDoor opens a door at a free port. A host other than 127.0.0.1 keeps the port free while the
// door is closed, because no connection goes out from that address.
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

// shut closes the listener and every connection. Requests about to be answered are answered first,
// so that no answer is lost.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_ = d.server.Shutdown(ctx)
	_ = d.server.Close() // ends requests that hang
	<-d.served
	d.server = nil
}

// site is the receiver of one endpoint. A test can change how it treats requests, and it remembers
// all of them. Events published for it are named PREFIX-KEY-NUMBER, where the numbers of a key are
// 1, 2, 3 …; the checks compare arrivals with that.
type site struct {
	zero  time.Time
	keeps bool                     // of request bodies
	pick  func(*visit) (way, bool) // treats single visits differently; nil: none

	mu     sync.Mutex
	way    way
	visits []visit
	done   map[string]time.Duration // when an event was first accepted
}

// way is how a site treats requests.
type way struct {
	hangs  bool // no answer until the sender gives up
	after  time.Duration
	freed  <-chan struct{} // ends early; nil: no such channel
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
	end     time.Duration // before the answer was written; 0: still open
	status  int           // 0: the sender gave up
	lag     time.Duration // from the event's planned publication; only if its data contain that
	travel  time.Duration // from the event's acceptance, as the server reports it
	body    []byte        // only if keeps is set
}

func newSite() *site { return &site{zero: time.Now(), done: map[string]time.Duration{}} }

func (s *site) now() time.Duration { return time.Since(s.zero) }

// turn changes how the site treats new requests. Requests in progress keep their treatment.
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
		panic(http.ErrAbortHandler) // the caller has disconnected
	}
	w.WriteHeader(status)
}

// waits says whether the caller is still connected when the time for the answer has come.
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

// taken is the number of events that the site has answered with 200.
func (s *site) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.done)
}

// seen is a copy of the visits since a moment, in order of arrival.
func (s *site) seen(from time.Duration) []visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.visits), func(v visit) bool { return v.start < from })
	slices.SortStableFunc(all, func(a, b visit) int { return int(a.start - b.start) })
	return all
}

// disorder returns the faults in order and completeness: every event of a key must be
// accepted once, and the next one may arrive only then. Each fault excuses one repetition.
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
			wrong = append(wrong, fmt.Sprintf("%s came at %v, after number %d, which was answered %d at %v", v.event, v.start, before.number,
				before.status, before.end))
		}
		last[v.key] = v
	}
	if repeated > faults {
		wrong = append(wrong, fmt.Sprintf("%d events were repeated although they had been taken", repeated))
	}
	return wrong
}

// crowd is the largest number of requests open at once. The site notices late that a sender has
// given up, so the last fifth of the timeout of such a request does not count.
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

// busiest is the largest number of requests that arrived within the given time.
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

// percentile is the value below which p percent of the values lie. It sorts them.
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
