package egress

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// agree compares the reading of a simple reply with net/http's reading of the same bytes. It says
// whether the reply was simple.
func agree(t *testing.T, b []byte) bool {
	t.Helper()
	is, size, ok := simpleReply(b)
	if !ok {
		return false
	}
	rest := bufio.NewReader(bytes.NewReader(b))
	resp, err := http.ReadResponse(rest, nil)
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", b, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("net/http does not read the body of %q: %v", b, err)
	}
	after, _ := io.ReadAll(rest)
	switch {
	case resp.StatusCode != is.status, resp.Close:
		t.Fatalf("%q: net/http says status %d, close %t; read as %d", b, resp.StatusCode, resp.Close, is.status)
	case !maps.Equal(keptHeaders(resp.Header), is.headers):
		t.Fatalf("%q: net/http has %v; read as %v", b, keptHeaders(resp.Header), is.headers)
	case resp.Header.Get("Retry-After") != is.retryAfter || resp.Header.Get("Date") != is.date ||
		resp.Header.Get("Webhook-Delivery") != is.wish:
		t.Fatalf("%q: read as Retry-After %q, Date %q, webhook-delivery %q", b, is.retryAfter, is.date, is.wish)
	case !bytes.Equal(body, b[size-is.length:size]) || !bytes.Equal(after, b[size:]):
		t.Fatalf("%q: net/http has the body %q and leaves %q; read as %q, %q", b, body, after, b[size-is.length:size], b[size:])
	}
	return true
}

// TestSimpleReplies: answers that most servers give are read where they lie, and all that are
// unusual are left to net/http.
func TestSimpleReplies(t *testing.T) {
	const date = "Date: Tue, 24 Nov 2026 10:00:00 GMT\r\n"
	for _, b := range []string{
		"HTTP/1.1 200 OK\r\n" + date + "Content-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + date + "Content-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ok\":true}",
		"HTTP/1.1 204 No Content\r\n" + date + "\r\n",
		"HTTP/1.1 503 Service Unavailable\r\nServer: nginx\r\nRetry-After: 120\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nno",
		"HTTP/1.1 200\r\ncontent-length: 1\r\nx-request-id: 17\r\nset-cookie: a=b\r\n\r\n1",
		"HTTP/1.1 500 No\r\nwebhook-delivery: stop\r\nContent-Length: 2\r\n\r\nno",
	} {
		if !agree(t, []byte(b)) {
			t.Errorf("%q is left to net/http", b)
		}
	}
	for _, b := range []string{
		"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1",
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n1",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: a\r\n b\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX : a\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: \x80\r\n\r\n", "HTTP/1.1 101 Switching\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\n\r\n",
	} {
		if agree(t, []byte(b)) {
			t.Errorf("%q is taken as a simple answer", b)
		}
	}
}

// pieces are what answers are made of, for the histories below.
var pieces = []string{
	"HTTP/1.1 200 OK\r\n", "HTTP/1.1 204 No Content\r\n", "HTTP/1.1 500\r\n", "HTTP/1.1 429 Too Many\r\n", "HTTP/1.1 200  OK\r\n", "HTTP/1.1 2x0 OK\r\n",
	"Content-Length: 0\r\n", "Content-Length: 3\r\n", "content-length:3\r\n", "Content-Length: 03\r\n", "Content-Length: 3, 3\r\n", "Content-Length:\r\n",
	"Date: now\r\n", "Retry-After: 5\r\n", "Connection: close\r\n", "Connection: Keep-Alive\r\n", "Connection: keep-alive, close\r\n", "Pragma: no-cache\r\n",
	"Transfer-Encoding: identity\r\n", "Trailer: A\r\n", "Set-Cookie: a\r\n", "X-A: \t b \t\r\n", "x-a: c\r\n", ": empty\r\n", "A\r\n", "Ünï: c\r\n",
	"\r\n", "\r", "\n", "abc", "\x00", " ", "\t", ":",
}

// TestSimpleRepliesAreThoseOfNetHTTP puts pieces of answers together at random and damages some.
func TestSimpleRepliesAreThoseOfNetHTTP(t *testing.T) {
	random, simple := rand.New(rand.NewPCG(1, 2)), 0
	for range 60_000 {
		b := []byte(pieces[random.IntN(4)])
		for range random.IntN(5) {
			b = append(b, pieces[6+random.IntN(len(pieces)-6)]...)
		}
		b = append(b, "\r\nabcd"...)
		if random.IntN(4) == 0 {
			b[random.IntN(len(b))] = byte(random.IntN(256))
		}
		if agree(t, b) {
			simple++
		}
	}
	if simple < 1_500 {
		t.Errorf("only %d of the answers were simple: too few to compare", simple)
	}
}

func FuzzSimpleReplies(f *testing.F) {
	for _, first := range pieces[:6] {
		f.Add([]byte(first + pieces[7] + pieces[12] + "\r\nabc"))
	}
	f.Fuzz(func(t *testing.T, b []byte) { agree(t, b) })
}

// TestMessagesAreThoseOfNetHTTP: a message has the bytes that http.Request.Write makes of the same
// request.
func TestMessagesAreThoseOfNetHTTP(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	text := func(from string, most int) string {
		b := make([]byte, random.IntN(most+1))
		for i := range b {
			b[i] = from[random.IntN(len(from))]
		}
		return string(b)
	}
	s := sender(t, Options{})
	for range 20_000 {
		u := fmt.Sprintf("http://h%s.example:%d/%s?%s", text("abc-1", 3), 1+random.IntN(9999), text("aZ/~%20é ", 6), text("a=&+ü\"", 6))
		req, err := http.NewRequest([]string{"POST", "PUT"}[random.IntN(2)], u, nil)
		if err != nil {
			continue // net/http makes no such request
		}
		m := s.message()
		m.fields.set(headerUserAgent, "Grapnel/"+text("a1", 3))
		for range random.IntN(12) {
			m.fields.set(http.CanonicalHeaderKey("x"+text("aBc-", 4)), text("a Z:;\t\r\n\x80\"", 12))
		}
		body := []byte(text("x", 40))
		if m.lines, err = firstLines(req.Method, req.URL); err != nil {
			t.Fatal(u, err)
		}
		req.Header, req.ContentLength, req.Body = m.fields.header(), int64(len(body)), io.NopCloser(bytes.NewReader(body))
		if len(body) == 0 {
			req.Body = http.NoBody
		}
		var want strings.Builder
		if err := req.Write(&want); err != nil {
			t.Fatal(u, err)
		}
		m.render(body, int64(random.IntN(60)))
		if got := string(m.bytes) + string(m.body); got != want.String() {
			t.Fatalf("got\n%q\nwant\n%q", got, want.String())
		}
		s.forget(m)
	}
}
