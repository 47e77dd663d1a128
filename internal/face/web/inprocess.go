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
	in.RequestURI = rq.URL.RequestURI()
	forward(in, t.browser)
	narrow(in, t.tenant)
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

// forward says where the browser is, as a proxy named it, because a key may be bound to addresses;
// and where it has reached this server, because links to the portal lead there.
func forward(in, browser *http.Request) {
	in.RemoteAddr, in.Host, in.TLS = browser.RemoteAddr, browser.Host, browser.TLS
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Prefix"} {
		if values := browser.Header.Values(name); len(values) > 0 {
			in.Header[name] = values
		}
	}
}

// narrow has the API answer a request as if its caller were bound to a tenant.
func narrow(in *http.Request, tenant string) {
	if tenant != "" {
		in.Header.Set("Grapnel-Tenant", tenant)
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

// caller makes a client that calls the API with a key or pass on behalf of a browser, as one that is
// bound to the tenant; empty: to none. It never repeats a request: the API is in this process.
func (w *web) caller(key, tenant string, browser *http.Request) (*client.Client, *inProcess) {
	t := &inProcess{api: w.API, tenant: tenant, browser: browser}
	c, err := client.New(client.Options{Server: "http://grapnel.invalid", Key: key, HTTP: &http.Client{Transport: t},
		Retries: -1, Random: w.Random, UserAgent: "grapnel-dashboard"})
	if err != nil {
		panic("web: no client: " + err.Error()) // the address is a constant
	}
	return c, t
}
