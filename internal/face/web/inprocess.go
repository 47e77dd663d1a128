package web

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"

	"github.com/grapnelhq/grapnel/client"
)

// RoundTrip has the handler answer into memory.
func (t *inProcess) RoundTrip(rq *http.Request) (*http.Response, error) {
	in := rq.Clone(rq.Context())
	in.RemoteAddr, in.RequestURI = t.remoteAddr, rq.URL.RequestURI()
	forward(in, t.forwarded)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &recorder{header: http.Header{}}
	t.api.ServeHTTP(w, in)
	if err := rq.Context().Err(); err != nil {
		return nil, err
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	t.mu.Lock()
	if t.heard != nil {
		_, _ = t.heard.Write(w.body.Bytes())
	}
	t.mu.Unlock()
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: rq,
	}, nil
}

const forwardedFor = "X-Forwarded-For"

// forward says whom a proxy named as the browser's address: a key may be bound to addresses.
func forward(in *http.Request, forwarded []string) {
	if len(forwarded) > 0 {
		in.Header[forwardedFor] = forwarded
	}
}

// listen has the transport sum up the answers from now on.
func (t *inProcess) listen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = sha256.New()
}

// add sums up what a page says besides the answers.
func (t *inProcess) add(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heard != nil {
		_, _ = io.WriteString(t.heard, text)
	}
}

// sum is of all answers since listen.
func (t *inProcess) sum() (s [32]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	copy(s[:], t.heard.Sum(nil))
	return s
}

// recorder is a response in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is the response's.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader keeps the first final status.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// caller makes a client that calls the API with a key or pass on behalf of a browser. It never
// repeats a request: the API is in this process.
func (w *web) caller(key string, browser *http.Request) (*client.Client, *inProcess) {
	t := &inProcess{api: w.API, remoteAddr: browser.RemoteAddr, forwarded: browser.Header.Values(forwardedFor)}
	c, err := client.New(client.Options{Server: "http://grapnel.invalid", Key: key, HTTP: &http.Client{Transport: t},
		Retries: -1, Random: w.Random, UserAgent: "grapnel-dashboard"})
	if err != nil {
		panic("web: no client: " + err.Error()) // the address is a constant
	}
	return c, t
}
