package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
)

// served is a world behind the hardened server, on a network in memory and with the bubble's clock.
func served(t *testing.T, f func(t *testing.T, w *world, dial func() net.Conn), change ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, change...)
		end := w.serving()
		defer end()
		network := pipenet.New()
		defer network.Close()
		server := Server(w.handler, w.options.Bounds)
		done := make(chan error, 1)
		listener := network.Listen("grapnel:80")
		go func() { done <- server.Serve(listener) }()
		defer func() {
			_ = server.Close()
			<-done
		}()
		f(t, w, func() net.Conn {
			conn, err := network.Dial(t.Context(), "tcp", "grapnel:80")
			if err != nil {
				t.Fatal(err)
			}
			return conn
		})
	})
}

func get(conn net.Conn, target string) error {
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: grapnel\r\nAuthorization: Bearer %s\r\n\r\n", target, admin)
	return err
}

// A poll may be longer than the server waits for slow callers.
func TestLongPollIsNotCutOff(t *testing.T) {
	served(t, func(t *testing.T, w *world, dial func() net.Conn) {
		w.must(201, "POST", "/v1/queues", `{"name":"orders"}`)
		conn := dial()
		defer func() { _ = conn.Close() }()
		in := bufio.NewReader(conn)
		began := time.Now()
		for range 2 { // on one connection
			if err := get(conn, "/v1/queues/orders/next?wait=60s"); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != 204 {
				t.Errorf("answered %d", resp.StatusCode)
			}
		}
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("two polls of a minute took %s", took)
		}
	})
}

// A caller without a key that does not finish its body is answered soon all the same, and its
// connection ends, so that it holds up no stop for longer.
func TestTheRestOfABodyIsNotAwaited(t *testing.T) {
	served(t, func(t *testing.T, w *world, dial func() net.Conn) {
		for line, status := range map[string]int{"GET /livez": 200, "POST /v1/events": 401, "POST /v1/keys": 401, "POST /nothing": 404} {
			conn := dial()
			began := time.Now()
			if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: grapnel\r\nContent-Length: 100\r\n\r\nthe beginning", line); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(line, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if n, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s: %d bytes follow the answer", line, n)
			}
			if took := time.Since(began); resp.StatusCode != status || took > w.options.Bounds.DiscardTime+time.Second {
				t.Errorf("%s: answered %d, the connection ended after %s", line, resp.StatusCode, took)
			}
		}
	})
}

// A caller that reads nothing is cut off, and unsent messages go at once to the next caller.
func TestStreamOfWhoDoesNotRead(t *testing.T) {
	served(t, func(t *testing.T, w *world, dial func() net.Conn) {
		w.must(201, "POST", "/v1/queues", `{"name":"orders","ordering":"none","lease":"1h"}`)
		for range 5 {
			w.must(202, "POST", "/v1/events", `{"type":"order.made","data":"`+strings.Repeat("x", 10_000)+`"}`)
		}
		conn := dial()
		defer func() { _ = conn.Close() }()
		if err := get(conn, "/v1/queues/orders/stream"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(w.options.Bounds.StreamSlow + time.Second) //nolint:forbidigo // the bubble's time
		synctest.Wait()
		if q := w.must(200, "GET", "/v1/queues/orders", ""); q["ready"].(float64) < 4 {
			t.Errorf("of five messages that nobody has read, the queue has %v ready and %v leased", q["ready"], q["leased"])
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "closed") {
			t.Errorf("the connection ended with %v", err)
		}
	})
}

// While nothing comes a stream says so now and then, and it goes on for longer than any answer may
// take.
func TestStreamThatIsQuiet(t *testing.T) {
	served(t, func(t *testing.T, w *world, dial func() net.Conn) {
		w.must(201, "POST", "/v1/queues", `{"name":"orders"}`)
		conn := dial()
		if err := get(conn, "/v1/queues/orders/stream"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = conn.Close() // or closing the body would read the rest of an endless stream
			_ = resp.Body.Close()
		}()
		lines := bufio.NewScanner(resp.Body)
		began, quiet := time.Now(), 0
		for quiet < 20 && lines.Scan() {
			if strings.HasPrefix(lines.Text(), ": nothing") {
				quiet++
			}
		}
		if took := time.Since(began); quiet != 20 || took != 20*w.options.Bounds.Heartbeat {
			t.Errorf("%d heartbeats in %s: %v", quiet, took, lines.Err())
		}
	})
}

// serving lets a world hand out by the clock that runs; the function ends that.
func (w *world) serving() (end func()) {
	w.t.Helper()
	room := w.room(time.Now)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		room.Run(ctx)
	}()
	w.options.Clock = time.Now
	w.engine.now = time.Now
	w.options.Queues = room
	w.handler = New(w.options)
	return func() { cancel(); <-done }
}

// What follows a request in chunks, with or without a length, is not answered as the next one.
func TestNothingIsSmuggledBehindChunks(t *testing.T) {
	served(t, func(t *testing.T, w *world, dial func() net.Conn) {
		next := "GET /livez HTTP/1.1\r\nHost: g\r\n\r\n"
		body := `{"type":"a.b","data":{}}`
		chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		for _, c := range []struct {
			name, proto, header, body string
			answers                   int
		}{
			{"a length", "1.1", fmt.Sprintf("Content-Length: %d\r\n", len(body)), body, 2},
			{"chunks", "1.1", "Transfer-Encoding: chunked\r\n", chunks, 1},
			{"a length and chunks", "1.1", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunks, 1},
			{"chunks and a length", "1.1", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", chunks, 1},
			{"HTTP/1.0, chunks and a length", "1.0",
				fmt.Sprintf("Connection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: %d\r\n", len(body)), body, 1},
		} {
			conn := dial()
			_, err := fmt.Fprintf(conn, "POST /v1/events HTTP/%s\r\nHost: g\r\nAuthorization: Bearer %s\r\n%s\r\n%s%s", c.proto,
				admin, c.header, c.body, next)
			if err != nil {
				t.Fatal(err)
			}
			in, answers := bufio.NewReader(conn), 0
			for ; answers < 2; answers++ {
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					break
				}
				if answers == 0 && resp.StatusCode != 202 {
					t.Errorf("%s: answered %d", c.name, resp.StatusCode)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if answers != c.answers {
				t.Errorf("%s: %d answers, want %d", c.name, answers, c.answers)
			}
			_ = conn.Close()
		}
	})
}
