package plain

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a server on loopback. Its handler answers with the path and the body, unless the path is
// one of those in handlers.
type world struct {
	t        *testing.T
	server   *Server
	addr     string
	handlers map[string]http.HandlerFunc
	served   atomic.Int32 // requests
	plain    atomic.Int32 // those that this package read
	logged   *lines
	done     chan error
}

type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newWorld(t *testing.T, b Bounds, handlers map[string]http.HandlerFunc, change ...func(*http.Server)) *world {
	t.Helper()
	w := &world{t: t, handlers: handlers, logged: new(lines), done: make(chan error, 1)}
	std := &http.Server{ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 20 * time.Second, ErrorLog: log.New(w.logged, "", 0),
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.served.Add(1)
			if _, is := rw.(*writer); is {
				w.plain.Add(1)
			}
			if h := handlers[r.URL.Path]; h != nil {
				h(rw, r)
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			rw.Header().Set("X-Path", r.URL.Path)
			rw.WriteHeader(http.StatusAccepted)
			_, _ = rw.Write(body)
		})}
	for _, f := range change {
		f(std)
	}
	w.server = New(std, paths, b)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = l.Addr().String()
	go func() { w.done <- w.server.Serve(l) }()
	t.Cleanup(func() {
		_ = w.server.Close()
		if err := <-w.done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
		w.server.serving.Wait()
	})
	return w
}

type caller struct {
	net.Conn
	*bufio.Reader
	t *testing.T
}

func (c caller) Read(p []byte) (int, error) { return c.Reader.Read(p) }

func (w *world) dial() caller {
	w.t.Helper()
	c, err := new(net.Dialer).DialContext(w.t.Context(), "tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return caller{c, bufio.NewReader(c), w.t}
}

func (c caller) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads an answer; the connection may have ended instead.
func (c caller) answer() (status int, body string, h http.Header, err error) {
	resp, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		return 0, "", nil, err
	}
	b, err := io.ReadAll(resp.Body)
	if resp.Close {
		resp.Header.Set("Connection", "close")
	}
	return resp.StatusCode, string(b), resp.Header, err
}

func (c caller) want(status int, body string) http.Header {
	c.t.Helper()
	s, b, h, err := c.answer()
	if err != nil || s != status || b != body {
		c.t.Fatalf("answered %d %q (%v), want %d %q", s, b, err, status, body)
	}
	return h
}

func (c caller) ended() {
	c.t.Helper()
	if n, err := c.Reader.Read(make([]byte, 1)); n > 0 || err == nil {
		c.t.Fatal("the connection is open")
	}
}

func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// TestKeepAlive: one connection has many plain requests, whole, in pieces, and several at once.
func TestKeepAlive(t *testing.T) {
	w := newWorld(t, Bounds{}, nil)
	c := w.dial()
	for i := range 5 {
		c.send(post("/v1/events", fmt.Sprint(i)))
		h := c.want(http.StatusAccepted, fmt.Sprint(i))
		if h.Get("X-Path") != "/v1/events" || h.Get("Date") == "" || h.Get("Content-Type") == "" || h.Get("Connection") != "" {
			t.Fatal(h)
		}
	}
	long := strings.Repeat("0123456789", 2000) // longer than Bounds.Ahead
	text := post("/in/src_1", long)
	c.send(text[:100])
	c.send(text[100:])
	c.want(http.StatusAccepted, long)
	c.send(post("/v1/events", "a") + post("/in/b", "b") + post("/v1/events", "c"))
	c.want(http.StatusAccepted, "a")
	c.want(http.StatusAccepted, "b")
	c.want(http.StatusAccepted, "c")
	if n := w.plain.Load(); n != 9 {
		t.Errorf("%d of 9 requests were plain", n)
	}
}

// TestLineBreaksAfterABody: some clients send a line break behind the body of a POST. net/http
// skips it, and so does this package, whether the next request comes with it or later.
func TestLineBreaksAfterABody(t *testing.T) {
	w := newWorld(t, Bounds{}, nil)
	c := w.dial()
	c.send(post("/v1/events", "1") + "\r\n" + post("/v1/events", "2") + "\r\n")
	c.want(http.StatusAccepted, "1")
	c.want(http.StatusAccepted, "2")
	c.send("\n")
	c.send(post("/in/a", "3") + "\r\n")
	c.want(http.StatusAccepted, "3")
	if n := w.plain.Load(); n != 3 {
		t.Errorf("%d of 3 requests were plain", n)
	}
	c.send("GET /v1/events HTTP/1.1\r\nHost: h\r\n\r\n")
	c.want(http.StatusAccepted, "")
	c = w.dial()
	c.send("\r\n\r\n\r\n" + post("/v1/events", "no body came before"))
	if status, _, _, err := c.answer(); err != nil || status != http.StatusBadRequest {
		t.Error(status, err)
	}
}

// TestOthersGoToNetHTTP: a request that is not plain is answered by net/http, and so are all after
// it on its connection; none is lost where several were sent at once.
func TestOthersGoToNetHTTP(t *testing.T) {
	for name, text := range map[string]string{
		"another method":   "GET /v1/events HTTP/1.1\r\nHost: h\r\n\r\n",
		"another path":     post("/v1/endpoints", ""),
		"without a body":   "POST /v1/events HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 chunked": "POST /in/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Bounds{}, nil)
			c := w.dial()
			c.send(post("/v1/events", "1") + text + post("/v1/events", "3"))
			c.want(http.StatusAccepted, "1")
			c.want(http.StatusAccepted, "")
			c.want(http.StatusAccepted, "3")
			if all, plain := w.served.Load(), w.plain.Load(); all != 3 || plain != 1 {
				t.Errorf("%d requests, %d of them plain, want 3 and 1", all, plain)
			}
		})
	}
	t.Run("in two pieces", func(t *testing.T) {
		w := newWorld(t, Bounds{}, nil)
		c := w.dial()
		text := post("/v1/events", "1")
		for w.taken() != 0 {
			time.Sleep(time.Millisecond) // until the connection was accepted
		}
		c.send(text[:20])
		for w.taken() == 0 {
			time.Sleep(time.Millisecond) // until the first piece was read, alone
		}
		c.send(text[20:])
		c.want(http.StatusAccepted, "1")
		if w.plain.Load() != 0 {
			t.Error("a head in two pieces was taken as plain")
		}
	})
	t.Run("malformed", func(t *testing.T) {
		c := newWorld(t, Bounds{}, nil).dial()
		c.send("POST /v1/events HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc")
		if s, _, _, err := c.answer(); err != nil || s != http.StatusBadRequest {
			t.Error(s, err)
		}
		c.ended()
	})
}

// taken is the number of connections that went to net/http, if one was accepted.
func (w *world) taken() int {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	return 1 - len(w.server.conns)
}

// TestUnreadBodies: an answer arrives although the handler has read nothing of the body, and no
// byte of the body is taken for a request.
func TestUnreadBodies(t *testing.T) {
	w := newWorld(t, Bounds{}, map[string]http.HandlerFunc{
		"/in/refused": func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no", http.StatusForbidden) },
	})
	c := w.dial()
	smuggled := post("/v1/events", "smuggled")
	c.send(post("/in/refused", smuggled))
	c.want(http.StatusForbidden, "no\n")
	c.send(post("/v1/events", "after"))
	c.want(http.StatusAccepted, "after")

	large := strings.Repeat(smuggled, 1000)
	c = w.dial()
	c.send(fmt.Sprintf("POST /in/refused HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", len(large)))
	go func() { _, _ = io.WriteString(c.Conn, large) }()
	if h := c.want(http.StatusForbidden, "no\n"); h.Get("Connection") != "close" {
		t.Error("the connection of a body that was not read stays open")
	}
	c.ended()
	if n := w.served.Load(); n != 3 {
		t.Errorf("%d requests were handled, want 3", n)
	}
}

// TestFaults: a body that breaks off, a handler that panics, an answer that asks to close, and one
// that has line breaks in a header.
func TestFaults(t *testing.T) {
	var broke atomic.Value
	w := newWorld(t, Bounds{}, map[string]http.HandlerFunc{
		"/in/broken": func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			broke.Store(err)
		},
		"/in/panic":  func(http.ResponseWriter, *http.Request) { panic("secret of the handler") },
		"/in/abort":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"/in/close":  func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Connection", "close") },
		"/in/breaks": func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("X-A", "a\r\nX-B: b") },
		"/in/204":    func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNoContent) },
		"/in/slow": func(rw http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(rw).SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			if _, err := io.ReadAll(r.Body); err == nil {
				panic("the body did not come, and reading it succeeded")
			}
			rw.WriteHeader(http.StatusRequestTimeout)
		},
	})
	c := w.dial()
	c.send("POST /in/broken HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	_, _, _, _ = c.answer()
	if err, _ := broke.Load().(error); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a body that breaks off ends with %v", err)
	}
	for _, path := range []string{"/in/panic", "/in/abort"} {
		c = w.dial()
		c.send(post(path, "x"))
		if s, _, _, err := c.answer(); err == nil {
			t.Errorf("%s was answered %d", path, s)
		}
	}
	if text := w.logged.String(); strings.Count(text, "panic serving") != 1 {
		t.Errorf("logged %q", text)
	}
	c = w.dial()
	c.send(post("/in/breaks", "x"))
	if h := c.want(http.StatusOK, ""); h.Get("X-B") != "" {
		t.Error("a header ended within its value")
	}
	c.send(post("/in/204", "x"))
	c.want(http.StatusNoContent, "")
	c.send("POST /in/slow HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
	c.want(http.StatusRequestTimeout, "")
	c.ended()
	c = w.dial()
	c.send(post("/in/close", "x"))
	c.want(http.StatusOK, "")
	c.ended()
}

// TestShutdown: a request in progress is answered, an idle connection is closed, and a new request
// gets no answer.
func TestShutdown(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, Bounds{}, map[string]http.HandlerFunc{
		"/in/held": func(rw http.ResponseWriter, _ *http.Request) {
			close(began)
			<-release
			_, _ = io.WriteString(rw, "done")
		},
	})
	quiet, held := w.dial(), w.dial()
	quiet.send(post("/v1/events", "1"))
	quiet.want(http.StatusAccepted, "1")
	held.send(post("/in/held", "x") + post("/v1/events", "too late"))
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- w.server.Shutdown(t.Context()) }()
	quiet.ended()
	select {
	case err := <-stopped:
		t.Fatalf("it stopped before a request was answered: %v", err)
	default:
	}
	close(release)
	if h := held.want(http.StatusOK, "done"); h.Get("Connection") != "close" {
		t.Error("a server that stops keeps a connection open")
	}
	held.ended()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if n := w.served.Load(); n != 2 {
		t.Errorf("%d requests were handled, want 2", n)
	}
}

// TestShutdownGivesUp: a request that does not end holds Shutdown no longer than its context, and
// Close ends its connection.
func TestShutdownGivesUp(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, Bounds{}, map[string]http.HandlerFunc{"/in/held": func(http.ResponseWriter, *http.Request) { close(began); <-release }})
	c := w.dial()
	c.send(post("/in/held", "x"))
	<-began
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := w.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	_ = w.server.Close()
	c.ended()
	close(release)
}

// TestTinyBounds: with a small buffer heads go to net/http, and nothing else changes.
func TestTinyBounds(t *testing.T) {
	w := newWorld(t, Bounds{Ahead: 100, Kept: 1, Lines: 3, Discard: 1}, nil)
	c := w.dial()
	for _, body := range []string{"short", strings.Repeat("x", 300)} {
		c.send(post("/v1/events", body))
		c.want(http.StatusAccepted, body)
	}
	c.send(strings.Replace(post("/v1/events", "many"), "Host", "A: b\r\nC: d\r\nHost", 1))
	c.want(http.StatusAccepted, "many")
	if all, plain := w.served.Load(), w.plain.Load(); all != 3 || plain != 2 {
		t.Errorf("%d requests, %d of them plain, want 3 and 2", all, plain)
	}
}
