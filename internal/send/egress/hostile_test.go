package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/policy"
)

// exchange sends one delivery to a receiver that runs serve on the connection, in fake time. taken
// is the number of bytes read from the receiver's answer.
func exchange(t *testing.T, d Delivery, serve func(w io.Writer, c net.Conn)) (r Result, taken int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := pipenet.New()
		defer n.Close()
		var count counting
		stop := peer(n, "hooks.example", func(c net.Conn) {
			count.Writer = c
			serve(&count, c)
		})
		s := piped(t, n, Options{})
		r = send(s, d)
		time.Sleep(defaultIdleTimeout) // a connection still open then would stay
		synctest.Wait()
		if open := s.Stats().Open; r.Outcome.Class != policy.ClassNone && open != 0 {
			t.Errorf("%d connections stay open after %s", open, r.Outcome.Class)
		}
		s.Close()
		stop()
		taken = count.n.Load()
	})
	return r, taken
}

type counting struct {
	io.Writer
	n atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// after reads the request and then runs then.
func after(then func(w io.Writer)) func(io.Writer, net.Conn) {
	return func(w io.Writer, c net.Conn) {
		readRequest(c)
		then(w)
	}
}

// readRequest reads a request whose head and body arrive in one piece.
func readRequest(c net.Conn) {
	var request []byte
	buffer := make([]byte, 4096)
	for {
		n, err := c.Read(buffer)
		request = append(request, buffer[:n]...)
		if err != nil || bytes.Contains(request, []byte("\r\n\r\n")) {
			return
		}
	}
}

func text(s string) func(io.Writer, net.Conn) {
	return after(func(w io.Writer) { _, _ = io.WriteString(w, s) })
}

// drip writes a piece every second until the connection fails.
func drip(w io.Writer, piece string) {
	for {
		if _, err := io.WriteString(w, piece); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// flood writes a piece until the connection fails, or 10 GiB are written.
func flood(w io.Writer, piece string) {
	block := []byte(strings.Repeat(piece, 1+32<<10/len(piece)))
	for written := 0; written < 10<<30; written += len(block) {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func hold(c net.Conn) { _, _ = io.Copy(io.Discard, c) } // until the other side closes

func TestHostileReceivers(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	flooded := bytes.Repeat([]byte{0}, 1<<20)
	for range 16 {
		_, _ = z.Write(flooded)
	}
	_ = z.Close()

	for name, c := range map[string]struct {
		serve  func(io.Writer, net.Conn)
		class  policy.Class
		status int
		error  string
		taken  int64 // upper limit; 0: a few bytes, not checked
	}{
		"says nothing":  {func(_ io.Writer, c net.Conn) { hold(c) }, policy.ClassTimeout, 0, "while waiting for the answer", 0},
		"reads nothing": {func(_ io.Writer, c net.Conn) { time.Sleep(time.Hour) }, policy.ClassTimeout, 0, "while the request was sent", 0},
		"drips its headers": {after(func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nX-A: ")
			drip(w, "a")
		}), policy.ClassTimeout, 0, "while the answer was read", 0},
		"drips its body": {after(func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			drip(w, "a")
		}), policy.ClassTimeout, 200, "within 10s", 0},
		"never ends its body": {func(w io.Writer, c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\n\r\nthanks")
			hold(c)
		}, policy.ClassTimeout, 200, "while the answer was read", 0},
		"drips the body of a failure": {after(func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 503 Busy\r\nContent-Length: 1000\r\n\r\n")
			drip(w, "a")
		}), policy.ClassStatus5xx, 503, "503 Service Unavailable", 0},
		"10 GiB of body": {after(func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n")
			flood(w, "a")
		}), policy.ClassNone, 200, "", 128 << 10},
		"10 GiB of chunks": {after(func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			flood(w, "1\r\na\r\n")
		}), policy.ClassNone, 200, "", 512 << 10},
		"a gzip bomb": {after(func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", bomb.Len())
			_, _ = w.Write(bomb.Bytes())
		}), policy.ClassNone, 200, "", 128 << 10},
		"100,000 headers": {after(func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\n")
			for i := range 100_000 {
				if _, err := fmt.Fprintf(w, "X-%d: a\r\n", i); err != nil {
					return
				}
			}
		}), policy.ClassProtocol, 0, "headers exceeded", 128 << 10},
		"a header of 9 MiB": {after(func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nX-A: ")
			flood(w, "a")
		}), policy.ClassProtocol, 0, "headers exceeded", 128 << 10},
		"endless 1xx": {after(func(w io.Writer) { flood(w, "HTTP/1.1 103 Early Hints\r\n\r\n") }), policy.ClassProtocol, 0, "headers exceeded",
			128 << 10},
		"endless 100": {after(func(w io.Writer) { drip(w, "HTTP/1.1 100 Continue\r\n\r\n") }), policy.ClassTimeout, 0, "within 10s", 0},
		"endless reason": {after(func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 ")
			flood(w, "a")
		}), policy.ClassProtocol, 0, "", 128 << 10},
		"endless trailers": {after(func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n0\r\nX-A: ")
			flood(w, "a")
		}), policy.ClassProtocol, 200, "", 128 << 10},
		"endless chunk size": {after(func(w io.Writer) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			flood(w, "0")
		}), policy.ClassProtocol, 200, "", 128 << 10},
		"closes at once":           {func(io.Writer, net.Conn) {}, policy.ClassReset, 0, "closed the connection", 0},
		"closes without an answer": {text(""), policy.ClassReset, 0, "closed the connection", 0},
		"closes in its headers":    {text("HTTP/1.1 200 OK\r\nX-A: b"), policy.ClassReset, 0, "closed the connection", 0},
		"closes in its body": {text("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), policy.ClassReset, 200, "closed the connection",
			0},
		// A failure is one, whether its body ends or not.
		"refuses and closes in its body": {text("HTTP/1.1 410 Gone\r\nContent-Length: 10\r\n\r\nhalf"),
			policy.ClassStatus4xx, 410, "410 Gone", 0},
		"closes in a chunk": {text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf"), policy.ClassReset, 200,
			"closed the connection", 0},
		"is no HTTP server": {text("SSH-2.0-OpenSSH_9.9\r\n"), policy.ClassProtocol, 0, `malformed HTTP response "SSH-2.0-OpenSSH_9.9"`,
			0},
		"sends binary":            {text("\x00\xff\x16\x03\x01\r\n\r\n"), policy.ClassProtocol, 0, "not valid HTTP", 0},
		"a header without a name": {text("HTTP/1.1 200 OK\r\n: x\r\n\r\n"), policy.ClassProtocol, 0, "not valid HTTP", 0},
		"two lengths": {text("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), policy.ClassProtocol, 0,
			"not valid HTTP", 0},
		"bad chunks": {text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), policy.ClassProtocol, 200,
			"not valid HTTP", 0},
		"switches protocols": {text("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), policy.ClassProtocol,
			101, "another protocol", 0},
		"a version of the future": {text("HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n"), policy.ClassProtocol, 0, `malformed HTTP version "HTTP/9.9"`,
			0},
		"a version of the past": {text("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), policy.ClassNone, 200, "", 0},
		"the preface of HTTP/2": {text("HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"), policy.ClassProtocol, 0, `malformed HTTP version "HTTP/2.0"`, 0},
		"status 99":             {text("HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n"), policy.ClassProtocol, 99, "", 0},
		"status 600":            {text("HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n"), policy.ClassProtocol, 600, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := delivery(endpoint("http://hooks.example/"))
			before := allocated()
			r, taken := exchange(t, d, c.serve)
			memory := allocated() - before
			if r.Outcome.Class != c.class || r.Outcome.Status != c.status || !strings.Contains(r.Error, c.error) ||
				(r.Error == "") != (c.class == policy.ClassNone) {
				t.Errorf("class %s, status %d, error %q", r.Outcome.Class, r.Outcome.Status, r.Error)
			}
			if limit := d.Endpoint.Policy.Timeout.Std(); r.Duration > limit || c.class == policy.ClassTimeout && r.Duration < limit {
				t.Errorf("took %v of %v", r.Duration, limit)
			}
			if c.taken > 0 && taken > c.taken {
				t.Errorf("%d bytes of the answer were taken", taken)
			}
			if len(r.Body) > 16<<10 || len(r.Headers) > 50 {
				t.Errorf("%d bytes and %d headers were kept", len(r.Body), len(r.Headers))
			}
			// The figure includes the test's own allocations. Collecting or inflating an answer would be far
			// above it.
			if memory > 4<<20 {
				t.Errorf("%d bytes of memory were allocated", memory)
			}
			if strings.ContainsFunc(r.Error, func(c rune) bool { return c < ' ' }) {
				t.Errorf("control characters in %q", r.Error)
			}
		})
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestAnswersThatAreFine(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	for name, c := range map[string]struct {
		answer string
		body   string
	}{
		"204":                    {"HTTP/1.1 204 No Content\r\n\r\n", ""},
		"204 with a body":        {"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", ""},
		"200 without a body":     {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""},
		"200 with a body":        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"},
		"200, body till the end": {"HTTP/1.1 200 OK\r\n\r\nok", "ok"},
		"201 in chunks":          {"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", "ok"},
		"HTTP/1.0":               {"HTTP/1.0 200 OK\r\n\r\nok", "ok"},
		"early hints first":      {"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", ""},
		"299":                    {"HTTP/1.1 299 Whatever\r\nContent-Length: 0\r\n\r\n", ""},
		"64 KiB":                 {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long), long), long[:16<<10]},
		"not inflated":           {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00", "\x1f\x8b\x08\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := exchange(t, delivery(endpoint("http://hooks.example/")), text(c.answer))
			if r.Outcome.Class != policy.ClassNone || r.Error != "" || string(r.Body) != c.body {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestStatusClasses(t *testing.T) {
	for status, class := range map[int]policy.Class{
		200: policy.ClassNone, 226: policy.ClassNone, 300: policy.ClassRedirect, 301: policy.ClassRedirect, 302: policy.ClassRedirect,
		303: policy.ClassRedirect,
		304: policy.ClassRedirect, 307: policy.ClassRedirect, 308: policy.ClassRedirect, 399: policy.ClassRedirect, 400: policy.ClassStatus4xx,
		404: policy.ClassStatus4xx,
		408: policy.ClassStatus4xx, 410: policy.ClassStatus4xx, 425: policy.ClassStatus4xx, 429: policy.ClassStatus429,
		499: policy.ClassStatus4xx,
		500: policy.ClassStatus5xx, 503: policy.ClassStatus5xx, 599: policy.ClassStatus5xx,
	} {
		r, _ := exchange(
			t,
			delivery(endpoint("http://hooks.example/")),
			text(fmt.Sprintf("HTTP/1.1 %d X\r\nLocation: http://trap.example/\r\nContent-Length: 0\r\n\r\n", status)),
		)
		if r.Outcome.Class != class || r.Outcome.Status != status || (r.Error == "") != (class == policy.ClassNone) {
			t.Errorf("%d: %+v", status, r)
		}
	}
}

// TestRedirectsAreNotFollowed: following a 307 would send body and signature to its target.
func TestRedirectsAreNotFollowed(t *testing.T) {
	trap := newTrap(t)
	srv := server(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:"+trap.port+"/", 300+len(r.URL.Query().Get("n")))
	})
	s := sender(t, Options{Allow: loopback()})
	for _, status := range []int{301, 302, 303, 307, 308} {
		e := endpoint(srv.URL + "/?n=" + strings.Repeat("x", status-300))
		e.ID = fmt.Sprint("ep_", status)
		r := send(s, delivery(e))
		if r.Outcome.Class != policy.ClassRedirect || r.Outcome.Status != status || r.Headers["Location"] == "" {
			t.Errorf("%d: %+v", status, r)
		}
	}
	if trap.hits.Load() != 0 || s.Stats().Written != 5 {
		t.Errorf("%d connections to the target, %d requests", trap.hits.Load(), s.Stats().Written)
	}
}

func TestRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		headers string
		want    time.Duration
		has     bool
	}{
		"seconds":          {"Retry-After: 120", 2 * time.Minute, true},
		"against the Date": {"Date: Tue, 01 Jan 2030 00:00:00 GMT\r\nRetry-After: Tue, 01 Jan 2030 00:01:30 GMT", 90 * time.Second, true},
		// fake time starts in 2000
		"without a Date":        {"Retry-After: Sat, 01 Jan 2000 00:01:00 GMT", time.Minute, true},
		"garbage":               {"Retry-After: soon", 0, false},
		"absent":                {"X-A: b", 0, false},
		"garbage as the Date":   {"Date: now\r\nRetry-After: Sat, 01 Jan 2000 00:01:00 GMT", time.Minute, true},
		"a long time in future": {"Retry-After: 99999999999", 0, false},
	} {
		for _, status := range []int{429, 503} {
			r, _ := exchange(
				t,
				delivery(endpoint("http://hooks.example/")),
				text(fmt.Sprintf("HTTP/1.1 %d X\r\n%s\r\nContent-Length: 0\r\n\r\n", status, c.headers)),
			)
			if r.Outcome.RetryAfter != c.want || r.Outcome.HasRetryAfter != c.has {
				t.Errorf("%s: %+v", name, r.Outcome)
			}
		}
	}
}

// TestWishes: the header webhook-delivery is read from every whole answer, by both readers of
// answers, and stays among the attempt's headers whatever its value.
func TestWishes(t *testing.T) {
	for value, want := range map[string]policy.Wish{"stop": policy.WishStop, " Disable\t": policy.WishDisable, "": policy.WishNone,
		"stop, disable": policy.WishNone, "pause": policy.WishNone} {
		for _, status := range []int{200, 301, 410, 429, 500} {
			for _, shape := range []string{"Content-Length: 0", "Transfer-Encoding: chunked"} {
				body := ""
				if shape != "Content-Length: 0" {
					body = "0\r\n\r\n"
				}
				r, _ := exchange(t, delivery(endpoint("http://hooks.example/")),
					text(fmt.Sprintf("HTTP/1.1 %d X\r\n%s\r\nwebhook-delivery: %s\r\n\r\n%s", status, shape, value, body)))
				if r.Outcome.Status != status || r.Outcome.Wish != want || r.Headers["Webhook-Delivery"] != strings.TrimSpace(value) {
					t.Errorf("%d with %q and %s: %+v, %v", status, value, shape, r.Outcome, r.Headers)
				}
			}
		}
	}
}

func TestKeptHeaders(t *testing.T) {
	var answer strings.Builder
	answer.WriteString(
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Request-Id: r1\r\nVia: a\r\nVia: b\r\nX-Bytes: \xff\r\nX-Long: " + strings.Repeat(
			"l",
			5000,
		) + "\r\n",
	)
	for _, name := range []string{"Set-Cookie", "Set-Cookie2", "Authorization", "WWW-Authenticate", "Proxy-Authenticate",
		"Authentication-Info",
		"X-Auth-Token", "X-CSRF-Token", "X-Api-Key", "X-Secret", "X-Session-Id"} {
		answer.WriteString(name + ": hidden\r\n")
	}
	for i := range 100 {
		fmt.Fprintf(&answer, "Z-%03d: z\r\n", i)
	}
	r, _ := exchange(t, delivery(endpoint("http://hooks.example/")), text(answer.String()+"\r\n"))
	if len(r.Headers) != 50 || r.Headers["X-Request-Id"] != "r1" || r.Headers["Via"] != "a, b" || r.Headers["X-Bytes"] != "\uFFFD" ||
		len(r.Headers["X-Long"]) != maxKeptValue || r.Headers["Z-000"] != "z" {
		t.Errorf("%d headers: %v", len(r.Headers), r.Headers)
	}
	for name, value := range r.Headers {
		if value == "hidden" {
			t.Errorf("%s is kept", name)
		}
	}
}

// TestShutdownIsNotTheReceiversFault: an attempt that the sender ends itself consumes none.
func TestShutdownIsNotTheReceiversFault(t *testing.T) {
	for name, end := range map[string]func(*Sender, context.CancelFunc){
		"its context ends":  func(_ *Sender, cancel context.CancelFunc) { cancel() },
		"its sender closes": func(s *Sender, _ context.CancelFunc) { s.Close() },
	} {
		for stage, serve := range map[string]func(net.Conn){
			"waiting": hold,
			"reading": func(c net.Conn) {
				readRequest(c)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nx")
				hold(c)
			},
			"connecting": nil,
		} {
			synctest.Test(t, func(t *testing.T) {
				n := pipenet.New()
				defer n.Close()
				stop := func() {}
				o := Options{Dial: n.Dial}
				if serve != nil {
					stop = peer(n, "hooks.example", serve)
				} else {
					o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					}
				}
				s := New(o)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan Result)
				go func() { done <- s.Send(ctx, delivery(endpoint("http://hooks.example/"))) }()
				time.Sleep(time.Second)
				end(s, cancel)
				r := <-done
				if r.Outcome.Class != policy.ClassInternal || r.Duration != time.Second {
					t.Errorf("%s while %s: %+v", name, stage, r)
				}
				s.Close()
				stop()
				if r := send(s, delivery(endpoint("http://hooks.example/"))); r.Outcome.Class != policy.ClassInternal {
					t.Errorf("after Close: %+v", r)
				}
				synctest.Wait()
				if open := s.Stats().Open; open != 0 {
					t.Errorf("%d connections are open after Close", open)
				}
			})
		}
	}
}
