package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	roots *x509.CertPool
	dir   string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{roots: x509.NewCertPool(), dir: t.TempDir()}
	a.cert, a.key = a.sign(t, 1, time.Hour)
	a.roots.AddCert(a.cert)
	return a
}

func (a *authority) sign(t *testing.T, serial int64, life time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: a.cert == nil}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = is, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, is, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// pair returns the two files of a certificate; write puts them in place, one after the other.
func (a *authority) pair(t *testing.T, serial int64, life time.Duration) (cert, key []byte) {
	t.Helper()
	c, k := a.sign(t, serial, life)
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func (a *authority) write(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	return path
}

// secured are the options of a server with a certificate of the authority, and a log.
func (a *authority) secured(t *testing.T) (Options, *logLines) {
	t.Helper()
	o, logged := options(t.TempDir()), new(logLines)
	o.AdminKey, o.Log = testKey, slog.New(slog.NewTextHandler(logged, nil))
	cert, key := a.pair(t, 2, time.Hour)
	o.TLS = TLS{Cert: a.write(t, "cert.pem", cert), Key: a.write(t, "key.pem", key)}
	o.Bounds.Certificates.Every = 10 * time.Millisecond
	return o, logged
}

// logLines is a log that can be read while it is written.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func (a *authority) http(t *testing.T, keep, two bool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.roots}, DisableKeepAlives: !keep, ForceAttemptHTTP2: two}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// TestCertificatesChangeUnderLoad: callers publish by new connections, kept ones and HTTP/2 while
// the files change ten times, the certificate first and its key later. No request fails, new
// connections get the last pair, and each pair that does not fit is logged once.
func TestCertificatesChangeUnderLoad(t *testing.T) {
	a := newAuthority(t)
	o, logged := a.secured(t)
	s := start(t, o)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var published atomic.Int64
	for _, h := range []*http.Client{a.http(t, false, false), a.http(t, true, false), a.http(t, true, true)} {
		c, err := client.New(client.Options{Server: s.URL(), Key: testKey, HTTP: h, Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		load.Go(func() {
			for ctx.Err() == nil {
				if _, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("{}")}); err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
				published.Add(1)
			}
		})
	}
	shown := func() int64 {
		c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: a.roots}}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	for serial := int64(3); serial < 13; serial++ {
		cert, key := a.pair(t, serial, time.Hour)
		a.write(t, "cert.pem", cert)
		poll(t, "a pair that does not fit is told", func() bool { return logged.count("certificate not usable") == int(serial-2) })
		if is := shown(); is != serial-1 {
			t.Errorf("with a key that does not fit, certificate %d is shown, want %d", is, serial-1)
		}
		a.write(t, "key.pem", key)
		poll(t, "the new certificate is shown", func() bool { return shown() == serial })
	}
	expired, key := a.pair(t, 20, -time.Minute)
	a.write(t, "key.pem", key)
	a.write(t, "cert.pem", expired)
	poll(t, "an expired pair is told", func() bool { return logged.count("ended at") == 1 })
	before := published.Load()
	poll(t, "load goes on", func() bool { return published.Load() > before+10 })
	stop()
	load.Wait()
	if is := shown(); is != 12 {
		t.Errorf("%d is shown, want 12", is)
	}
	t.Logf("%d events published, none failed", published.Load())
}

// TestAServerStartsWithACertificateThatHasEnded: it says so, and new files mend it. If it did not
// start, its deliveries would stop as well.
func TestAServerStartsWithACertificateThatHasEnded(t *testing.T) {
	a := newAuthority(t)
	o, logged := a.secured(t)
	cert, key := a.pair(t, 3, -time.Minute)
	a.write(t, "key.pem", key)
	a.write(t, "cert.pem", cert)
	s := start(t, o)
	h := a.http(t, false, false)
	live := func() error {
		rq, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := h.Do(rq)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	if err := live(); err == nil || logged.count("the certificate has ended") != 1 {
		t.Errorf("a caller sees %v, the log says it %d times", err, logged.count("the certificate has ended"))
	}
	cert, key = a.pair(t, 4, time.Hour)
	a.write(t, "key.pem", key)
	a.write(t, "cert.pem", cert)
	poll(t, "callers accept the new one", func() bool { return live() == nil })
}

// TestCallersByTLS: versions, protocols, the header for browsers, and the answers to requests in
// the clear: a way to https if the request has no key, else a refusal. Probes are answered.
func TestCallersByTLS(t *testing.T) {
	a := newAuthority(t)
	o, _ := a.secured(t)
	o.Redirect = "127.0.0.1:0"
	s := start(t, o)
	if !strings.HasPrefix(s.URL(), "https://") {
		t.Error(s.URL())
	}
	ask := func(c *http.Client, method, url, key string) (*http.Response, string) {
		t.Helper()
		rq, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			rq.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := c.Do(rq)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	for _, two := range []bool{false, true} {
		resp, _ := ask(a.http(t, true, two), http.MethodGet, s.URL()+"/login", "")
		if (resp.ProtoMajor == 2) != two || resp.Header.Get("Strict-Transport-Security") != hsts || resp.StatusCode != http.StatusOK {
			t.Errorf("HTTP/2 %v: %+v", two, resp)
		}
	}
	old := &tls.Dialer{Config: &tls.Config{RootCAs: a.roots, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}}
	if c, err := old.DialContext(t.Context(), "tcp", s.listener.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("TLS 1.1 is spoken")
	}
	main, other := s.listener.Addr().String(), s.listener.(*doors).all[1].Addr().String()
	for _, at := range []string{main, other} {
		c := a.http(t, true, false)
		if resp, _ := ask(c, http.MethodGet, "http://"+at+"/login?a=b", ""); resp.StatusCode != http.StatusPermanentRedirect ||
			resp.Header.Get("Location") != s.URL()+"/login?a=b" {
			t.Errorf("%s: %s to %s", at, resp.Status, resp.Header.Get("Location"))
		}
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			resp, text := ask(c, method, "http://"+at+"/v1/events", testKey)
			if resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, "speaks HTTPS") {
				t.Errorf("%s %s with a key: %s %s", method, at, resp.Status, text)
			}
		}
		if resp, _ := ask(c, http.MethodGet, "http://"+at+"/readyz", ""); resp.StatusCode != http.StatusOK {
			t.Errorf("a probe at %s: %s", at, resp.Status)
		}
	}
	o, _ = a.secured(t)
	o.TLS.Key = filepath.Join(a.dir, "none")
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--tls-key") {
		t.Error(err)
	}
}

// TestDoors: an address for sources or the status page serves nothing else, and the main one serves
// all.
func TestDoors(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey, o.ListenIngest, o.ListenStatus = testKey, "127.0.0.1:0", "127.0.0.1:0"
	s := start(t, o)
	all := s.listener.(*doors).all
	closed := "This address does not serve that path."
	for i, want := range []map[string]bool{
		{"/in/src_1": true, "/status": true, "/livez": true, "/v1/endpoints": true, "/login": true},
		{"/in/src_1": true, "/status": false, "/readyz": true, "/v1/endpoints": false, "/login": false, "/": false, "/in": false},
		{"/in/src_1": false, "/status": true, "/readyz": true, "/v1/events": false, "/": false, "/statuses": false, "/peer": false},
	} {
		for path, open := range want {
			resp, err := post(t, fmt.Sprintf("http://%s%s", all[i].Addr(), path))
			if err != nil || strings.Contains(resp, closed) == open {
				t.Errorf("door %d, %s: %s, %v", i, path, resp, err)
			}
		}
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Listen = "127.0.0.1:0"; o.ListenIngest = all[1].Addr().String() },
		func(o *Options) { o.Listen = all[0].Addr().String(); o.ListenIngest = "" },
	} {
		o := options(t.TempDir())
		change(&o)
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "cannot listen on 127.0.0.1:") {
			t.Error(err)
		}
	}
}

// post posts to a URL, with a key, and returns the answer's text.
func post(t *testing.T, url string) (string, error) {
	t.Helper()
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	rq.Header.Set("Authorization", "Bearer "+testKey)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(rq)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}
