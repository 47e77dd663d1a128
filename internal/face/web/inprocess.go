package web

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/client"
)

// RoundTrip has the API answer, on behalf of the browser.
func (t *inProcess) RoundTrip(rq *http.Request) (*http.Response, error) {
	in := rq.Clone(rq.Context())
	forward(in, t.browser)
	narrow(in, t.tenant)
	resp, err := client.Local{Handler: t.api}.RoundTrip(in)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heard != nil {
		answer, _ := io.ReadAll(resp.Body) // which is in memory
		t.hear(answer)
		resp.Body = io.NopCloser(bytes.NewReader(answer))
	}
	return resp, nil
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
	t.heard = []string{}
}

// hear sums up one answer. A page asks for several at once, so they may come in another order when
// it is drawn again; each is summed up by itself.
func (t *inProcess) hear(answer []byte) {
	sum := sha256.Sum256(answer)
	t.heard = append(t.heard, string(sum[:]))
}

// add sums up what a page says besides the answers.
func (t *inProcess) add(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heard != nil {
		t.hear([]byte(text))
	}
}

// sum is of all answers since listen.
func (t *inProcess) sum() [32]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.heard)
	return sha256.Sum256([]byte(strings.Join(t.heard, "")))
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
