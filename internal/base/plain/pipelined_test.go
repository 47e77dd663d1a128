package plain

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestPipelinedRequestsHaveAShare: of forty connections that send all their requests at once, and
// of which half read no answer, at most Pipelined requests are handled at a time besides the first
// of each. Callers that wait for their answers are served meanwhile, and in the end all are.
func TestPipelinedRequestsHaveAShare(t *testing.T) {
	const conns, each, share = 40, 6, 3
	var at, most atomic.Int32
	begun, handled, gate := make(chan struct{}, conns), make(chan struct{}, conns*each), make(chan struct{})
	w := newWorld(t, Bounds{Pipelined: share, Rest: time.Nanosecond}, map[string]http.HandlerFunc{
		"/in/first": func(http.ResponseWriter, *http.Request) { begun <- struct{}{} },
		"/in/wait": func(rw http.ResponseWriter, _ *http.Request) {
			for now, before := at.Add(1), most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
			}
			<-gate
			at.Add(-1)
			handled <- struct{}{}
			_, _ = io.WriteString(rw, strings.Repeat("x", 16<<10)) // more than sockets take unread
		},
	})
	request := func(path string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}"
	}
	var all []net.Conn
	var reading sync.WaitGroup
	for i := range conns {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		all = append(all, c)
		if _, err := io.WriteString(c, request("/in/first")+strings.Repeat(request("/in/wait"), each)); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			reading.Go(func() { _, _ = io.Copy(io.Discard, c) })
		}
	}
	for range conns {
		<-begun // each connection has its first request handled, so the others are behind it
	}
	victim, err := new(net.Dialer).DialContext(t.Context(), "tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Close() }()
	for i := range 10 {
		body := fmt.Sprint(i)
		_ = victim.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(victim, fmt.Sprintf(
			"POST /in/echo HTTP/1.1\r\nHost: g\r\nContent-Length: %d\r\n\r\n%s", len(body), body)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		if n, err := victim.Read(buf); err != nil || !strings.HasSuffix(string(buf[:n]), "\r\n\r\n"+body) {
			t.Fatalf("request %d beside the others: %q, %v", i, buf[:n], err)
		}
	}
	if n := most.Load(); n > share {
		t.Errorf("%d pipelined requests are handled at once, want at most %d", n, share)
	}
	close(gate)
	for range conns / 2 * each { // as many as are read; answers that are not read hold no share
		<-handled
	}
	if n := most.Load(); n > share {
		t.Errorf("%d were handled at once", n)
	}
	for _, c := range all {
		_ = c.Close()
	}
	reading.Wait()
}

// TestAnAnswerThatRestsHoldsNoShare: answers that the handler delays are sent after their time, and
// other pipelined requests are handled meanwhile although the share is one.
func TestAnAnswerThatRestsHoldsNoShare(t *testing.T) {
	const resting = 4
	at := make(chan struct{}, resting)
	w := newWorld(t, Bounds{Pipelined: 1}, map[string]http.HandlerFunc{
		"/in/rest": func(rw http.ResponseWriter, _ *http.Request) {
			rw.(interface{ Rest(time.Duration) }).Rest(time.Hour)
			at <- struct{}{}
		},
		"/in/short": func(rw http.ResponseWriter, _ *http.Request) {
			rw.(interface{ Rest(time.Duration) }).Rest(time.Millisecond)
			_, _ = io.WriteString(rw, "rested")
		},
	})
	send := func(paths ...string) net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		for i, path := range paths {
			paths[i] = "POST " + path + " HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}"
		}
		if _, err := io.WriteString(c, strings.Join(paths, "")); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for range resting {
		send("/in/echo", "/in/rest")
		select {
		case <-at: // it was handled, so it had the share and gave it back: the next one gets it
		case <-time.After(10 * time.Second):
			t.Fatal("an answer that rests holds the share")
		}
	}
	in := bufio.NewReader(send("/in/echo", "/in/short"))
	for _, want := range []string{"{}", "rested"} {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(body) != want {
			t.Errorf("answered %q, %v, want %q", body, err, want)
		}
	}
}
