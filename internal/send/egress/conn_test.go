package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/policy"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		_ = os.Setenv(name, "http://127.0.0.1:1")
	}
	_ = os.Setenv("NO_PROXY", "")
	goleak.VerifyTestMain(m)
}

// TestKeepAliveUnderLoad: there are as many connections as concurrent requests, however many
// requests there are in total.
func TestKeepAliveUnderLoad(t *testing.T) {
	const workers, each = 64, 25
	srv := server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "thanks")
	})
	s := sender(t, Options{Allow: loopback()})
	d := delivery(endpoint(srv.URL))
	d.Endpoint.MaxConcurrency = workers
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				if r := send(s, d); r.Outcome.Class != policy.ClassNone || string(r.Body) != "thanks" {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	all.Wait()
	stats := s.Stats()
	if stats.Attempts != workers*each || stats.Written != workers*each || stats.Reused+stats.Fresh != stats.Attempts || stats.InFlight != 0 {
		t.Errorf("%+v", stats)
	}
	if stats.Dialed > 2*workers || stats.Open > 2*workers {
		t.Errorf("%d connections for %d at once", stats.Dialed, workers)
	}
}

// TestConnectionsEnd: in fake time, idle connections end after 4 s, and all of them after 5 min,
// however busy.
func TestConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := pipenet.New()
		defer n.Close()
		n.Handle("hooks.example", http.HandlerFunc(ok))
		s := piped(t, n, Options{})
		defer s.Close()
		d := delivery(endpoint("http://hooks.example/"))
		dials := func() int {
			if r := send(s, d); r.Outcome.Status != 200 {
				t.Errorf("%+v", r)
			}
			return n.Dials("hooks.example")
		}
		dials()
		if dials() != 1 {
			t.Error("the connection is not kept alive")
		}
		time.Sleep(3 * time.Second)
		if dials() != 1 {
			t.Error("the connection ended before 4 s")
		}
		time.Sleep(5 * time.Second)
		if open := s.Stats().Open; open != 0 {
			t.Errorf("%d connections are open after 5 s", open)
		}
		if dials() != 2 {
			t.Error("an idle connection outlived 4 s")
		}
		for range 20 * 60 {
			time.Sleep(time.Second)
			dials()
		}
		if got := n.Dials("hooks.example"); got != 2+4 {
			t.Errorf("20 min of a busy connection took %d more dials", got-2)
		}
	})
}

// TestAChangedEndpointGetsNewConnections: only the changed endpoint gets new connections.
func TestAChangedEndpointGetsNewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := pipenet.New()
		defer n.Close()
		var paths []string
		n.Handle("hooks.example", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths = append(paths, r.URL.Path) }))
		s := piped(t, n, Options{})
		defer s.Close()
		first := endpoint("http://hooks.example/1")
		other := clone(first, func(e *grapnel.Endpoint) { e.ID, e.URL = "ep_2", "http://hooks.example/other" })
		second := clone(first, func(e *grapnel.Endpoint) { e.Revision, e.URL = 2, "http://hooks.example/2" })
		for _, e := range []*grapnel.Endpoint{first, other, clone(first, func(*grapnel.Endpoint) {}), second, other, second} {
			send(s, delivery(e))
		}
		synctest.Wait()
		if got := strings.Join(paths, " "); got != "/1 /other /1 /2 /other /2" {
			t.Error(got)
		}
		if stats := s.Stats(); stats.Dialed != 3 || stats.Open != 2 {
			t.Errorf("%+v", stats)
		}
	})
}

// TestARevisionOfARestoredDatabase: after a database went back, a revision's number is given again,
// to another state of the endpoint.
func TestARevisionOfARestoredDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := pipenet.New()
		defer n.Close()
		var paths []string
		n.Handle("hooks.example", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths = append(paths, r.URL.Path) }))
		s := piped(t, n, Options{})
		defer s.Close()
		lost := endpoint("http://hooks.example/lost")
		lost.UpdatedAt = time.Now()
		send(s, delivery(lost))
		send(s, delivery(clone(lost, func(e *grapnel.Endpoint) {
			e.URL, e.UpdatedAt = "http://hooks.example/now", time.Now().Add(time.Minute)
		})))
		synctest.Wait()
		if got := strings.Join(paths, " "); got != "/lost /now" {
			t.Error(got)
		}
	})
}

// TestRoutesAreForgotten: memory follows the active endpoints.
func TestRoutesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := pipenet.New()
		defer n.Close()
		n.Handle("hooks.example", http.HandlerFunc(ok))
		s := piped(t, n, Options{})
		defer s.Close()
		for i := range 100 {
			e := endpoint("http://hooks.example/")
			e.ID = fmt.Sprint("ep_", i)
			send(s, delivery(e))
		}
		time.Sleep(11 * time.Minute)
		for range 2 {
			send(s, delivery(endpoint("http://hooks.example/")))
			time.Sleep(6 * time.Minute)
		}
		if n := len(s.routes); n > 2 {
			t.Errorf("%d routes are remembered", n)
		}
	})
}

// TestNothingIsSentTwice: on a reused connection a receiver takes a request and closes without an
// answer. net/http would repeat such a request if it considered it idempotent.
func TestNothingIsSentTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := pipenet.New()
		defer n.Close()
		var seen atomic.Int32
		stop := peer(n, "hooks.example", func(c net.Conn) {
			readRequest(c)
			seen.Add(1)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			readRequest(c)
			seen.Add(1)
		})
		s := piped(t, n, Options{})
		d := delivery(endpoint("http://hooks.example/"))
		first, second := send(s, d), send(s, d)
		if first.Outcome.Class != policy.ClassNone || second.Outcome.Class != policy.ClassReset || !second.Phases.Reused {
			t.Errorf("%+v\n%+v", first, second)
		}
		synctest.Wait()
		if seen.Load() != 2 || s.Stats().Written != 2 {
			t.Errorf("the receiver saw %d requests for 2 attempts; %d were written", seen.Load(), s.Stats().Written)
		}
		s.Close()
		stop()
	})
}

// TestAnIdleConnectionThatCloses: a connection that closes unnoticed just before its use costs no
// attempt. No byte of the request was written, so the request goes over another one.
func TestAnIdleConnectionThatCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := pipenet.New()
		defer n.Close()
		hangUp := make(chan bool)
		stop := peer(n, "hooks.example", func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			<-hangUp
		})
		s := piped(t, n, Options{})
		for i := range 5 {
			if i > 0 {
				hangUp <- true // a pipe does not report that it is closed
				synctest.Wait()
			}
			if r := s.Send(t.Context(), delivery(endpoint("http://hooks.example/"))); r.Outcome.Class != policy.ClassNone || r.Phases.Reused {
				t.Errorf("%+v", r)
			}
		}
		if stats := s.Stats(); stats.Attempts != 5 || stats.Written != 5 || stats.Dialed != 5 {
			t.Errorf("%+v", stats)
		}
		close(hangUp)
		s.Close()
		stop()
	})
}

func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := pipenet.New()
		defer n.Close()
		n.Handle("hooks.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(3 * time.Second)
			_, _ = io.WriteString(w, "a")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(2 * time.Second)
			_, _ = io.WriteString(w, "b")
		}))
		s := New(Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(time.Second)
			return n.Dial(ctx, network, addr)
		}})
		defer s.Close()
		d := delivery(endpoint("http://hooks.example/"))
		want := grapnel.Phases{Connect: time.Second, FirstByte: 3 * time.Second, Body: 2 * time.Second}
		if r := send(s, d); r.Phases != want || r.Duration != 6*time.Second || string(r.Body) != "ab" {
			t.Errorf("%+v", r)
		}
		want = grapnel.Phases{FirstByte: 3 * time.Second, Body: 2 * time.Second, Reused: true}
		if r := send(s, d); r.Phases != want || r.Duration != 5*time.Second {
			t.Errorf("%+v", r)
		}
	})
}

type failing struct {
	wait time.Duration
	err  error
}

func (f failing) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	select {
	case <-time.After(f.wait):
		return nil, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestConnectionsThatCannotBeMade: the class is right and the text reveals nothing about our own
// network.
func TestConnectionsThatCannotBeMade(t *testing.T) {
	refused := &net.OpError{
		Op:   "dial",
		Net:  "tcp",
		Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 80},
		Err:  os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}
	for name, c := range map[string]struct {
		resolver Resolver
		dial     error
		class    policy.Class
		error    string
		took     time.Duration
	}{
		"no such name": {failing{0, &net.DNSError{Err: "no such host", Name: "hooks.example", Server: "10.0.0.53:53", IsNotFound: true}}, nil,
			policy.ClassDNS, "the name does not exist", 0},
		"server failure": {failing{0, &net.DNSError{Err: "server misbehaving", Name: "hooks.example", Server: "10.0.0.53:53"}}, nil,
			policy.ClassDNS, "the name could not be resolved", 0},
		"slow resolver": {failing{time.Hour, nil}, nil, policy.ClassDNS, "the name could not be resolved in time", 2 * time.Second},
		"no address":    {&answers{lists: [][]netip.Addr{{}}}, nil, policy.ClassDNS, "the name has no address", 0},
		"refused":       {nil, refused, policy.ClassConnect, "no connection could be made: connection refused", 0},
		"out of files": {nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}, policy.ClassInternal,
			"the server has too many open connections", 0},
		"out of files for a lookup": {failing{0, &net.DNSError{Err: "dial udp 10.0.0.53:53: socket: too many open files", Name: "hooks.example"}},
			nil,
			policy.ClassInternal, "the server has too many open connections", 0},
		"unknown": {nil, errors.New("10.1.2.3 is strange"), policy.ClassConnect, "no connection could be made", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Options{Resolver: c.resolver}
				if c.dial != nil {
					n := pipenet.New()
					defer n.Close()
					n.Fail("hooks.example", func() error { return c.dial })
					o.Dial = n.Dial
				}
				s := New(o)
				defer s.Close()
				r := send(s, delivery(endpoint("http://hooks.example/")))
				if r.Outcome.Class != c.class || r.Error != c.error || r.Duration != c.took || r.Outcome.Status != 0 {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// TestRealSockets: kernels behave in ways that pipes do not.
func TestRealSockets(t *testing.T) {
	s := sender(t, Options{Allow: loopback()})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()
	if r := send(
		s,
		delivery(endpoint("http://"+closed+"/")),
	); r.Outcome.Class != policy.ClassConnect ||
		r.Error != "no connection could be made: connection refused" {
		t.Errorf("a closed port: %+v", r)
	}

	abort := func(answer string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(serveConns(l, func(c net.Conn) {
			if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
			}
			_, _ = io.WriteString(c, answer)
			_ = c.(*net.TCPConn).SetLinger(0) // RST instead of FIN
		}))
		return "http://" + l.Addr().String() + "/"
	}
	for i, answer := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"} {
		e := endpoint(abort(answer))
		e.ID = fmt.Sprint("ep_abort", i)
		r := send(s, delivery(e))
		if r.Outcome.Class != policy.ClassReset || strings.Contains(r.Error, "127.0.0.1") {
			t.Errorf("reset after %q: %+v", answer, r)
		}
	}

	untrusted := endpoint(httptestTLS(t))
	untrusted.ID = "ep_untrusted"
	if r := send(s, delivery(untrusted)); r.Outcome.Class != policy.ClassTLS || strings.Contains(r.Error, "127.0.0.1") {
		t.Errorf("a certificate of nobody known: %+v", r)
	}
}

// TestEndpointsThatCannotBeUsed: a defect of our own configuration consumes no attempt, and no
// unsigned request is sent.
func TestEndpointsThatCannotBeUsed(t *testing.T) {
	srv := server(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a request arrived: %v", r.Header) })
	for name, change := range map[string]func(*grapnel.Endpoint){
		"no secret":      func(e *grapnel.Endpoint) { e.Secrets = nil },
		"expired secret": func(e *grapnel.Endpoint) { e.Secrets[0].ExpiresAt = time.Now().Add(-time.Second) },
		"broken secret":  func(e *grapnel.Endpoint) { e.Secrets[0].Text = "whsec_hunter2" },
		"header":         func(e *grapnel.Endpoint) { e.Headers = map[string]string{"Host": "internal"} },
	} {
		e := endpoint(srv.URL)
		change(e)
		s := sender(t, Options{Allow: loopback()})
		r := send(s, delivery(e))
		if r.Outcome.Class != policy.ClassInternal || r.Error == "" || strings.Contains(r.Error, "hunter2") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	s := sender(t, Options{Allow: loopback(), HTTPSOnly: true})
	if r := send(s, delivery(endpoint(srv.URL))); r.Outcome.Class != policy.ClassBlocked {
		t.Errorf("https only: %+v", r)
	}
}
