package plain

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// secured makes a world speak TLS too, and returns a client that trusts it.
func secured(t *testing.T, w *world, protocols ...string) *http.Client {
	t.Helper()
	given := httptest.NewTLSServer(nil)
	defer given.Close()
	config := &tls.Config{Certificates: given.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	w.server.Handshake = func(ctx context.Context, c net.Conn) (*tls.Conn, error) {
		secure := tls.Server(c, config)
		return secure, secure.HandshakeContext(ctx)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(given.Certificate())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, NextProtos: protocols}, ForceAttemptHTTP2: len(protocols) == 0}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestTLS: one port serves requests in the clear and by TLS, plain ones, those for net/http, and
// HTTP/2. A handler sees by r.TLS which it is.
func TestTLS(t *testing.T) {
	says := func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(rw, "%s %s %v", r.Proto, body, r.TLS != nil && r.TLS.HandshakeComplete)
	}
	w := newWorld(t, Bounds{}, map[string]http.HandlerFunc{"/v1/events": says, "/other": says})
	for _, c := range []struct {
		client *http.Client
		scheme string
		says   string
	}{
		{secured(t, w, "http/1.1"), "https", "HTTP/1.1 x true"},
		{secured(t, w), "https", "HTTP/2.0 x true"},
		{&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http", "HTTP/1.1 x false"},
	} {
		for _, path := range []string{"/v1/events", "/other", "/v1/events"} {
			rq, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.scheme+"://"+w.addr+path, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.client.Do(rq)
			if err != nil {
				t.Fatal(c.says, path, err)
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || string(text) != c.says {
				t.Errorf("%s: %q, %v, want %q", path, text, err, c.says)
			}
		}
	}
	if n := w.plain.Load(); n != 1 { // the first by HTTP/1.1; the next one went to net/http, and HTTP/2 always does
		t.Errorf("%d requests were plain, want 1", n)
	}
}

// TestBrokenHandshakes: a connection that begins TLS and does not go on, or does it wrong, ends; it
// is logged once, and nothing else is disturbed.
func TestBrokenHandshakes(t *testing.T) {
	w := newWorld(t, Bounds{}, nil, func(std *http.Server) { std.ReadHeaderTimeout = time.Second })
	client := secured(t, w, "http/1.1")
	c := w.dial()
	c.send("\x16\x03\x01\x00\x05hello")
	_, _ = io.Copy(io.Discard, c.Reader) // an alert
	c.ended()
	if text := w.logged.String(); strings.Count(text, "TLS handshake") != 1 {
		t.Errorf("logged %q", text)
	}
	c = w.dial() // it ends after ReadHeaderTimeout
	c.send("\x16\x03\x01\x00\xff")
	_, _ = io.Copy(io.Discard, c.Reader)
	c.ended()
	resp, err := client.Post("https://"+w.addr+"/v1/events", "", strings.NewReader("y"))
	if err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	stopped := make(chan error, 1)
	go func() { stopped <- w.server.Shutdown(t.Context()) }() // the idle connection of TLS does not hold it
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
