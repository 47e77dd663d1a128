package plain

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func paths(path string) bool {
	return path == "/v1/events" || strings.HasPrefix(path, "/in/") && !strings.ContainsAny(path[4:], "/?%#") && len(path) > 4
}

// agree compares the reading of a plain request with net/http's reading of the same bytes. It says
// whether the request was plain.
func agree(t *testing.T, b []byte) bool {
	t.Helper()
	var h head
	size, ok := h.read(b, paths, 64)
	if !ok {
		return false
	}
	rest := bufio.NewReader(bytes.NewReader(b))
	r, err := http.ReadRequest(rest)
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", b, err)
	}
	if r.Method != http.MethodPost || r.URL.Path != h.path || r.RequestURI != h.path || r.URL.RawQuery != "" || r.Host != h.host || r.Close ||
		len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) || r.ContentLength != h.length || !reflect.DeepEqual(r.Header, h.header) {
		t.Fatalf("%q: net/http has %+v; read as %+v", b, r, h)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(len(b))))
	if want := b[size:min(int64(len(b)), int64(size)+h.length)]; !bytes.Equal(body, want) || (err == nil) != (int64(len(want)) == h.length) {
		t.Fatalf("%q: net/http has the body %q (%v), want %q", b, body, err, want)
	}
	return true
}

// TestHeads: heads that clients and providers send are plain, and all that are unusual are left to
// net/http.
func TestHeads(t *testing.T) {
	const first = "POST /v1/events HTTP/1.1\r\nHost: a.example:8420\r\n"
	for _, b := range []string{
		first + "User-Agent: Go-http-client/1.1\r\nContent-Length: 2\r\nAuthorization: Bearer grp_x\r\n" +
			"Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n{}",
		"POST /in/src_1 HTTP/1.1\r\nhost: [::1]:80\r\ncontent-length: 2\r\nX-A: 1\r\nx-a: 2\r\nconnection: Keep-Alive\r\nEmpty:\r\n\r\n{}POST",
	} {
		if !agree(t, []byte(b)) {
			t.Errorf("%q is left to net/http", b)
		}
	}
	for _, b := range []string{
		"", "POST", first, first + "\r\n", first + "Content-Length: 0\r\n\r\n", first + "Content-Length: 02\r\n\r\n{}", first + "Content-Length: +2\r\n\r\n{}",
		first + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", first + "Content-Length: 2, 2\r\n\r\n{}", first + "Content-Length: 1000000000\r\n\r\n",
		first + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", first + "Content-Length : 2\r\n\r\n{}",
		first + "Content-Length: 2\r\nHost: b\r\n\r\n{}", first + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
		first + "Content-Length: 2\r\nConnection: close\r\n\r\n{}", first + "Content-Length: 2\r\nX: a\r\n b\r\n\r\n{}", first + "Content-Length: 2\nX: a\n\n{}",
		first + "Content-Length: 2\r\nX: a\rb\r\n\r\n{}", first + "Content-Length: 2\r\nX: \xc3\xa9\r\n\r\n{}", first + "Content-Length: 2\r\nX_Y: a\r\n\r\n{}",
		"POST /v1/events HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", "POST /v1/events?a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
		"POST http://a/v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", "PUT /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
		"POST /v1/events HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "POST /v1/events HTTP/1.1\r\nHost: a b\r\nContent-Length: 2\r\n\r\n{}",
		"POST  /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
		"POST /in/a%2fb HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	} {
		if agree(t, []byte(b)) {
			t.Errorf("%q is taken as plain", b)
		}
	}
}

// pieces are what heads are made of, for the random ones below.
var pieces = []string{
	"POST /v1/events HTTP/1.1\r\n", "POST /in/src_1 HTTP/1.1\r\n", "POST /v1/events HTTP/1.1\r\nHost: a\r\n", "POST /v1/events  HTTP/1.1\r\n",
	"Host: a.example\r\n", "host:\r\n", "Host: a:80 \r\n", "Content-Length: 2\r\n", "content-length:2 \r\n", "Content-Length: 02\r\n", "Content-Length: 2, 2\r\n",
	"Content_Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "transfer-encoding: identity\r\n", "Connection: close\r\n", "Connection: keep-alive\r\n",
	"Connection: keep-alive, x-a\r\n", "Expect: 100-continue\r\n", "Pragma: no-cache\r\n", "Trailer: A\r\n", "X-A: \t b \t\r\n", "x-a: c\r\n", ": empty\r\n", "A\r\n",
	"Upgrade: h2c\r\n", "Cookie: a=b\r\n", "\r\n", "\r", "\n", "ab", "\x00", " ", "\t", ":", "Authorization: Bearer grp_a\r\n", "Te: trailers\r\n",
}

// TestHeadsAreThoseOfNetHTTP puts pieces of heads together at random and damages some.
func TestHeadsAreThoseOfNetHTTP(t *testing.T) {
	random, plain := rand.New(rand.NewPCG(1, 2)), 0
	for range 100_000 {
		b := []byte(pieces[random.IntN(4)])
		for range random.IntN(6) {
			b = append(b, pieces[4+random.IntN(len(pieces)-4)]...)
		}
		b = append(b, []string{"Content-Length: 2\r\n", "", "Host: a\r\n"}[random.IntN(3)]...)
		b = append(b, "\r\nabcd"...)
		if random.IntN(4) == 0 {
			b[random.IntN(len(b))] = byte(random.IntN(256))
		}
		if agree(t, b) {
			plain++
		}
	}
	if plain < 1_500 {
		t.Errorf("only %d of the heads were plain: too few to compare", plain)
	}
}

func FuzzHeads(f *testing.F) {
	for _, first := range pieces[:4] {
		f.Add([]byte(first + pieces[4] + pieces[7] + "\r\nab"))
	}
	f.Fuzz(func(t *testing.T, b []byte) { agree(t, b) })
}
