package egress

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// socket serves raw connections on loopback, one after another.
func socket(t *testing.T, serve func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return "http://" + l.Addr().String() + "/"
}

// TestAnswerBeforeTheBodyIsRead: a receiver may refuse a long request after its headers. Its answer
// counts, although it does not read the rest.
func TestAnswerBeforeTheBodyIsRead(t *testing.T) {
	url := socket(t, func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
		// closing must not reset its answer
		_, _ = io.CopyN(io.Discard, req.Body, 1<<20)
	})
	s := sender(t, Options{Allow: loopback()})
	d := delivery(endpoint(url))
	d.Event.Data = []byte(`"` + strings.Repeat("a", 32<<20) + `"`)
	for range 3 {
		r := send(s, d)
		if r.Outcome.Status != 413 || r.Outcome.Class != policy.ClassStatus4xx || string(r.Body) != "big" || r.Phases.Reused {
			t.Errorf("%+v", r.Outcome)
		}
	}
}

// TestLongBodiesReuseConnections: a receiver that reads a long body keeps its connection.
func TestLongBodiesReuseConnections(t *testing.T) {
	srv := server(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	s := sender(t, Options{Allow: loopback()})
	d := delivery(endpoint(srv.URL))
	d.Event.Data = []byte(`"` + strings.Repeat("a", 1<<20) + `"`)
	for i := range 5 {
		if r := send(s, d); r.Outcome.Class != policy.ClassNone || r.Phases.Reused != (i > 0) {
			t.Errorf("%d: %+v, reused %v", i, r.Outcome, r.Phases.Reused)
		}
	}
}

// TestCancelledWhileWaiting: our own shutdown ends a request at once, in every phase.
func TestCancelledWhileWaiting(t *testing.T) {
	arrived := make(chan struct{}, 1)
	url := socket(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		arrived <- struct{}{}
		_, _ = io.Copy(io.Discard, c) // until the sender disconnects
	})
	s := sender(t, Options{Allow: loopback()})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-arrived
		cancel()
	}()
	began := time.Now()
	if r := s.Send(ctx, delivery(endpoint(url))); r.Outcome.Class != policy.ClassInternal {
		t.Errorf("%+v", r)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if open := s.Stats().Open; open != 0 {
		t.Errorf("%d connections are open", open)
	}
}

// TestAnIdleConnectionThatSpeaks: such a connection is not used again, because its bytes are no
// answer to a request.
func TestAnIdleConnectionThatSpeaks(t *testing.T) {
	spoke := make(chan struct{}, 8)
	url := socket(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		_, _ = io.WriteString(c, "HTTP/1.1 500 Poison\r\nContent-Length: 0\r\n\r\n")
		spoke <- struct{}{}
	})
	s := sender(t, Options{Allow: loopback()})
	for range 5 {
		if r := send(s, delivery(endpoint(url))); r.Outcome.Status != 200 || r.Phases.Reused {
			t.Errorf("%+v", r.Outcome)
		}
		<-spoke
	}
}
