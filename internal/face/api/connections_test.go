package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// crowd is a server on loopback with few connections, whose handler waits at /held.
type crowd struct {
	t       *testing.T
	all     *connections
	addr    string
	began   chan struct{}
	release chan struct{}
}

func newCrowd(t *testing.T, most int) *crowd {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, addr: l.Addr().String(), began: make(chan struct{}), release: make(chan struct{})}
	s := Server(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			c.began <- struct{}{}
			<-c.release
		}
	}), Bounds{})
	c.all = Limit(l, s, most).(*connections)
	done := make(chan error, 1)
	go func() { done <- s.Serve(c.all) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return c
}

// dial connects. A client that gets no answer within a minute fails.
func (c *crowd) dial() net.Conn {
	c.t.Helper()
	conn, err := new(net.Dialer).DialContext(c.t.Context(), "tcp", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

func (c *crowd) ask(conn net.Conn, path string) error {
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: g\r\n\r\n", path)
	return err
}

func got(t *testing.T, conn net.Conn) error {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// However many connections are idle, or say nothing at all, new requests are answered, and those
// that are being handled are not disturbed.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	const most = 8
	c := newCrowd(t, most)
	held := c.dial()
	if err := c.ask(held, "/held"); err != nil {
		t.Fatal(err)
	}
	<-c.began
	for i := range 10 * most {
		conn := c.dial()
		if i%2 == 0 {
			continue // silent
		}
		if err := c.ask(conn, "/"); err != nil {
			t.Fatal(err)
		}
		if err := got(t, conn); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	c.all.mu.Lock()
	open, waiting := c.all.open, c.all.waiting.Len()
	c.all.mu.Unlock()
	if open > most || waiting != open-1 {
		t.Errorf("%d connections are open, %d of them idle", open, waiting)
	}
	close(c.release)
	if err := got(t, held); err != nil {
		t.Errorf("the request that was being handled: %v", err)
	}
}

// While requests are handled on all connections, a new one is closed; when one has been answered,
// there is room again.
func TestNoRoomForAnotherConnection(t *testing.T) {
	const most = 3
	c := newCrowd(t, most)
	answers := make(chan error, most)
	for range most {
		conn := c.dial()
		if err := c.ask(conn, "/held"); err != nil {
			t.Fatal(err)
		}
		<-c.began
		go func() { answers <- got(t, conn) }()
	}
	late := c.dial()
	_ = c.ask(late, "/")
	if text, _ := io.ReadAll(late); len(text) != 0 {
		t.Errorf("one more was answered %q", text)
	}
	c.release <- struct{}{}
	if err := <-answers; err != nil {
		t.Error(err)
	}
	next := c.dial()
	if err := c.ask(next, "/"); err != nil {
		t.Fatal(err)
	}
	if err := got(t, next); err != nil {
		t.Errorf("after one was answered: %v", err)
	}
	close(c.release)
	for range most - 1 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}
