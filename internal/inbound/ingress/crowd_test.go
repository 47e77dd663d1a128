package ingress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// These tests attack a server as anyone can who knows its sources: the shares are a 32nd of the
// real ones.
const (
	crowdSlots = 64
	crowdBytes = 64 << 10
	crowdBody  = 1 << 10
)

// crowd is a receiver behind a real server, with three sources of one tenant and one of another.
// All verify signatures. settled waits until n requests have begun, and each of them holds a slot
// or has its answer.
func crowd(t *testing.T) (w *world, address string, settled func(n int)) {
	t.Helper()
	var begun, ended atomic.Int64
	w = newWorld(t, func(o *Options) {
		o.Bounds.MaxAtOnce, o.Bounds.MaxBuffered, o.MaxBody = crowdSlots, crowdBytes, crowdBody
	})
	key := grapnel.Verify{Scheme: "api_key", Secrets: secrets("the right one")}
	for id, tenant := range map[string]string{"src_1": "acme", "src_2": "acme", "src_3": "acme", "src_4": "other", "src_5": "third"} {
		w.source(key, func(s *grapnel.Source) { s.ID, s.Tenant, s.Dedupe.By = id, tenant, nil })
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		begun.Add(1)
		w.receiver.Take(rw, r, strings.TrimPrefix(r.URL.Path, "/in/"))
		ended.Add(1)
	}))
	t.Cleanup(server.Close)
	return w, server.Listener.Addr().String(), func(n int) {
		for {
			done := ended.Load() // before the other two: one that ends meanwhile is waited for once more
			if all := begun.Load(); all == int64(n) && all-done == int64(w.receiver.busy.busy()) {
				return
			}
			time.Sleep(time.Millisecond) //nolint:forbidigo // for sockets, which no clock of a test moves
		}
	}
}

// hold opens a connection from an address of this machine and begins a request.
func hold(t *testing.T, from, to, source string, announced int, body string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /in/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", source, announced, body)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestNobodyStopsIngestWithoutAKey: while an attacker holds as much as possible, every source
// answers signed requests.
func TestNobodyStopsIngestWithoutAKey(t *testing.T) {
	one := func(int) string { return "127.0.0.1" }
	many := func(i int) string { return fmt.Sprint("127.0.0.", 2+i%200) }
	first := func(int) string { return "src_1" }
	three := func(i int) string { return fmt.Sprint("src_", 1+i%3) }
	vouched := func(i int) string { return fmt.Sprint("src_", 1+i%2*4) } // of two tenants
	all := func(i int) string { return fmt.Sprint("src_", 1+i%4) }
	for name, c := range map[string]struct {
		connections int
		from        func(int) string
		source      func(int) string
		announced   int
		body        int // bytes sent
		// the attacked sources have verified a request before, the other one has not
		vouched bool
	}{
		"silent, announcing the most, to one source":         {crowdBytes/crowdBody/2 + 2, one, first, crowdBody, 0, false},
		"announcing one byte, to three sources":              {crowdSlots + 12, one, three, 1, 0, false},
		"announcing all the memory exactly":                  {crowdBytes / crowdBody, one, all, crowdBody, 0, false},
		"the same from many addresses":                       {crowdBytes / crowdBody, many, all, crowdBody, 0, false},
		"announcing one byte, from many addresses":           {3 * crowdSlots, many, three, 1, 0, false},
		"many addresses, at every source":                    {3 * crowdSlots, many, all, 1, 0, false},
		"sending all but the last byte, from many addresses": {2 * crowdBytes / crowdBody, many, all, crowdBody, crowdBody - 1, false},
		"sending too much, from many addresses":              {2 * crowdSlots, many, all, 2 * crowdBody, 100, false},
		"sources that have verified, from many addresses":    {3 * crowdSlots, many, vouched, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, address, settled := crowd(t)
			sent, held := 0, 0
			send := func(source string) {
				sent++
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/in/"+source,
					strings.NewReader(strings.Repeat("y", crowdBody/2)))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Api-Key", "the right one")
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				if answer.StatusCode != http.StatusAccepted {
					t.Fatalf("a request to %s: answered %d %s", source, answer.StatusCode, text)
				}
			}
			if c.vouched {
				send("src_1")
				send("src_5")
			}
			// Half of them first. The others begin among the requests, a few at a time: a request
			// gives way if more begin while its bytes arrive than its share has slots, and in a
			// real server a share has 32 times as many.
			more := func(n int) {
				settled(sent + held)
				for ; n > 0 && held < c.connections; n-- {
					hold(t, c.from(held), address, c.source(held), c.announced, strings.Repeat("x", c.body))
					held++
				}
			}
			more(c.connections / 2)
			for range 40 {
				more(c.connections/40 + 1)
				send("src_4")
				send("src_1")
			}
		})
	}
}

// TestWhatIsDiscardedGivesWayFirst: a request that is refused for its length holds its slot while
// its body is discarded. No request that may still be accepted gives way before it.
func TestWhatIsDiscardedGivesWayFirst(t *testing.T) {
	o := Options{Bounds: bounds.Fill(Bounds{MaxAtOnce: 2, MaxBuffered: 1 << 20, BodyTimeout: time.Minute, TenantShare: 1, RemoteShare: 1})}
	a := newAdmission(&o)
	enter := func() *slot {
		return a.enter("acme", "127.0.0.1:1", true, http.NewResponseController(httptest.NewRecorder()))
	}
	early, late := enter(), enter()
	late.discarding()
	third := enter()
	if third == nil || !late.left || early.left {
		t.Fatalf("a third request entered: %t; the discarded one left: %t, the earlier one: %t", third != nil, late.left, early.left)
	}
	if fourth := enter(); fourth == nil || !early.left || third.left {
		t.Fatal("with nothing discarded the earliest gives way")
	}
}

// TestTheReserveIsForSlots: a source that has verified nothing gets its slot before others fill the
// reserve. The bytes of its request are accepted afterwards, and no other request gives way.
func TestTheReserveIsForSlots(t *testing.T) {
	o := Options{Bounds: bounds.Fill(Bounds{MaxAtOnce: 16, MaxBuffered: 1 << 20, BodyTimeout: time.Minute, TenantShare: 1, RemoteShare: 1,
		Reserve: 8})}
	for name, sent := range map[string]int{"silent": 0, "sending": 1} {
		a := newAdmission(&o)
		enter := func(vouched bool) *slot {
			return a.enter("acme", "127.0.0.1:1", vouched, http.NewResponseController(httptest.NewRecorder()))
		}
		late := enter(false)
		var others []*slot
		for range 15 {
			s := enter(true)
			if sent > 0 && !s.arrived(sent, true) {
				t.Fatal("there is no room")
			}
			others = append(others, s)
		}
		if !late.arrived(100, true) || !late.read() {
			t.Errorf("%s: its bytes are refused", name)
		}
		if slices.ContainsFunc(others, func(s *slot) bool { return s.left }) {
			t.Errorf("%s: another request gave way", name)
		}
	}
}

// pipes is a network inside this process, so that a synctest bubble controls its clock.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// connected serves the source src_1 over such a network, and returns a connection to it. end closes
// both, and waits until nothing of them runs.
func (w *world) connected() (ours net.Conn, end func()) {
	network := make(pipes)
	server := &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.receiver.Take(rw, r, "src_1") }),
	} //nolint:gosec // only this test reaches it
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(network) })
	ours, theirs := net.Pipe()
	network <- theirs
	return ours, func() {
		close(network)
		_ = ours.Close()
		_ = server.Close()
		serving.Wait()
	}
}

// TestABodyHasALeastRate: a sender that falls behind is cut off long before the time limit of the
// whole body.
func TestABodyHasALeastRate(t *testing.T) {
	const rate, grace, whole = 100, time.Second, time.Hour
	for name, c := range map[string]struct {
		piece  int
		every  time.Duration
		status int
		after  time.Duration // upper limit
	}{
		"silent":                             {0, time.Minute, http.StatusRequestTimeout, grace},
		"a byte now and then":                {1, 500 * time.Millisecond, http.StatusRequestTimeout, 2 * grace},
		"too slow":                           {40, 500 * time.Millisecond, http.StatusRequestTimeout, 6 * grace},
		"fast enough":                        {60, 500 * time.Millisecond, http.StatusAccepted, 20 * grace},
		"a burst is no credit for long":      {900, time.Minute, http.StatusRequestTimeout, grace},
		"all at once":                        {1000, time.Minute, http.StatusAccepted, 0},
		"slower than that, but within grace": {500, 900 * time.Millisecond, http.StatusAccepted, grace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(o *Options) {
					o.Bounds.BodyTimeout, o.Bounds.BodyRate, o.Bounds.BodyGrace = whole, rate, grace
				})
				w.source(open)
				ours, end := w.connected()
				var wg sync.WaitGroup
				began := time.Now()
				wg.Go(func() {
					_, _ = io.WriteString(ours, "POST /in/src_1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
					for sent := 0; sent < 1000; sent += c.piece {
						if _, err := io.WriteString(ours, strings.Repeat("x", min(c.piece, 1000-sent))); err != nil {
							return
						}
						time.Sleep(c.every) //nolint:forbidigo // the bubble's time
					}
				})
				answer, err := http.ReadResponse(bufio.NewReader(ours), nil)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); answer.StatusCode != c.status || took > c.after {
					t.Errorf("answered %d after %s", answer.StatusCode, took)
				}
				end()
				wg.Wait()
			})
		})
	}
}

// TestWhoVerifiesHasAReserve: requests that are being committed do not give way, so an eighth is
// reserved for sources that recently verified a request.
func TestWhoVerifiesHasAReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release := holding(t, func(o *Options) { o.Bounds.MaxAtOnce = 16 })
		key := grapnel.Verify{Scheme: "api_key", Secrets: secrets("the right one")}
		for i := range 4 {
			w.source(open, func(s *grapnel.Source) { s.ID, s.Tenant = fmt.Sprint("src_open", i), fmt.Sprint("tenant", i) })
		}
		w.source(key, func(s *grapnel.Source) { s.Tenant = "acme" })
		w.source(key, func(s *grapnel.Source) { s.ID, s.Tenant = "src_new", "new" })
		send := func(source, secret string) int {
			rec := httptest.NewRecorder()
			w.receiver.Take(rec, request("POST", "/in/"+source, `{}`, "X-Api-Key", secret), source)
			return rec.Code
		}
		done := make(chan int, 32)
		begin := func(source string) { go func() { done <- send(source, "the right one") }() }
		begin("src_1") // it verifies, and is committed later
		synctest.Wait()
		for i := range 16 {
			begin(fmt.Sprint("src_open", i%4))
		}
		synctest.Wait()
		for range 16 - 13 {
			if got := <-done; got != http.StatusServiceUnavailable {
				t.Errorf("beyond seven eighths: answered %d", got)
			}
		}
		if got := send("src_new", "the right one"); got != http.StatusServiceUnavailable {
			t.Errorf("a source that has verified nothing: answered %d", got)
		}
		begin("src_1")
		synctest.Wait()
		if held := w.receiver.busy.busy(); held != 15 {
			t.Errorf("%d held, want 14 and the one that verifies", held)
		}
		close(release)
		for range 15 {
			if got := <-done; got/100 != 2 {
				t.Errorf("answered %d", got)
			}
		}
		// The same holds among the sources of one tenant.
		w.source(open, func(s *grapnel.Source) { s.ID, s.Tenant = "src_everybody", "acme" })
		release = make(chan struct{})
		w.receiver.o.Engine = held{w, release}
		w.receiver.o.Bounds.MaxAtOnce = 32
		for range 16 {
			begin("src_everybody")
		}
		synctest.Wait()
		for range 2 {
			if got := <-done; got != http.StatusServiceUnavailable {
				t.Errorf("beyond seven eighths of a tenant's: answered %d", got)
			}
		}
		begin("src_1")
		synctest.Wait()
		close(release)
		for range 15 {
			if got := <-done; got/100 != 2 {
				t.Errorf("answered %d", got)
			}
		}
		w.now = w.now.Add(w.receiver.o.Bounds.VouchedFor)
		if s := w.receiver.source("src_1"); s.meter.vouched(w.now, w.receiver.o.Bounds.VouchedFor) {
			t.Error("a source is vouched for that has verified nothing for an hour")
		}
	})
}
