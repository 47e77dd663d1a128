//go:build prove

package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/e2e/process"
)

// freePort is a port of loopback that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// pebble runs an ACME server that proves domains at two ports, with a name server that says
// 127.0.0.1 for each name. It returns its directory, and the authority of its certificates, which
// live for a time.
func pebble(t *testing.T, clear, secure int, life time.Duration) (directory string, roots *x509.CertPool) {
	t.Helper()
	dir, a := t.TempDir(), newAuthority(t)
	tools, err := filepath.Abs("../../tools/acme")
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		path := filepath.Join(dir, filepath.Base(name))
		if err := process.Link(path, tools, "github.com/letsencrypt/pebble/v2/cmd/"+name); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), path, args...)
		c.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
	}
	dns, at, manage := fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	cert, key := a.pair(t, 2, time.Hour)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{"listenAddress": at, "managementListenAddress": manage,
		"certificate": a.write(t, "cert.pem", cert), "privateKey": a.write(t, "key.pem", key), "httpPort": clear, "tlsPort": secure,
		"profiles": map[string]any{"default": map[string]any{"description": "for tests", "validityPeriod": int(life / time.Second)}}}})
	if err != nil {
		t.Fatal(err)
	}
	run("pebble-challtestsrv", "-dnsserver", dns, "-management", "", "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "",
		"-defaultIPv4", "127.0.0.1", "-defaultIPv6", "")
	run("pebble", "-config", a.write(t, "pebble.json", config), "-dnsserver", dns)
	poll(t, "Pebble answers", func() bool { return a.text(t, "https://"+at+"/dir") != nil })
	// Requests to the authority go by the machine's certificates; in the tests' process, by these.
	before := httpDefault.TLSClientConfig
	httpDefault.TLSClientConfig = &tls.Config{RootCAs: a.roots}
	t.Cleanup(func() { httpDefault.CloseIdleConnections(); httpDefault.TLSClientConfig = before })
	roots = x509.NewCertPool()
	if !roots.AppendCertsFromPEM(a.text(t, "https://"+manage+"/roots/0")) {
		t.Fatal("Pebble has no root")
	}
	return "https://" + at + "/dir", roots
}

var httpDefault = http.DefaultTransport.(*http.Transport)

// text is what a URL answers to who trusts the authority; nil: nothing.
func (a *authority) text(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := a.http(t, false, false).Get(url)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil
	}
	return text
}

// TestCertificatesByACME: a server gets certificates for two domains from an ACME server, by
// TLS-ALPN-01 and by HTTP-01, serves them, refuses other names, and starts again without asking.
func TestCertificatesByACME(t *testing.T) {
	for name, closed := range map[string]bool{"TLS-ALPN-01": false, "HTTP-01": true} {
		t.Run(name, func(t *testing.T) {
			clear, secure := freePort(t), freePort(t)
			proved := secure
			if closed { // nothing answers where the authority looks for TLS
				proved = freePort(t)
			}
			directory, roots := pebble(t, clear, proved, 90*24*time.Hour)
			dir, logged := t.TempDir(), new(logLines)
			o := options(dir)
			o.AdminKey, o.Log = testKey, slog.New(slog.NewTextHandler(logged, nil))
			o.Listen, o.Redirect = fmt.Sprintf("127.0.0.1:%d", secure), fmt.Sprintf("127.0.0.1:%d", clear)
			o.TLS = TLS{Domains: []string{"a.example.test", "b.example.test"}, Directory: directory, Email: "ops@example.com"}
			s := start(t, o)
			poll(t, "both certificates are ready", func() bool { return logged.count("certificate ready") == 2 })
			for _, domain := range o.TLS.Domains {
				transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: domain}, ForceAttemptHTTP2: true}
				c, err := client.New(client.Options{Server: s.URL(), Key: testKey, HTTP: &http.Client{Transport: transport}})
				if err != nil {
					t.Fatal(err)
				}
				if _, err = c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("{}")}); err != nil {
					t.Errorf("%s: %v", domain, err)
				}
				transport.CloseIdleConnections()
			}
			other := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: "c.example.test"}}
			if c, err := other.DialContext(t.Context(), "tcp", o.Listen); err == nil {
				_ = c.Close()
				t.Error("a certificate for another name was shown")
			}
			files, err := os.ReadDir(filepath.Join(dir, "data", acmeDirectory))
			if err != nil || len(files) < 3 {
				t.Fatal(files, err)
			}
			for _, f := range files {
				if is, err := f.Info(); err != nil || is.Mode().Perm() != 0o600 {
					t.Error(f.Name(), is.Mode(), err)
				}
			}
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}
			o.TLS.Directory = "https://127.0.0.1:1/none"
			start(t, o)
			poll(t, "the certificates of before are ready", func() bool { return logged.count("certificate ready") == 4 })
		})
	}
}
