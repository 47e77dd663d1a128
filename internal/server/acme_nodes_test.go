//go:build prove

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
)

const acmeDomain = "hooks.example.test"

// serialOf is the serial number of the certificate at an address; empty: none that the roots know.
func serialOf(t *testing.T, address string, roots *x509.CertPool) string {
	t.Helper()
	c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: acmeDomain}}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return ""
	}
	defer c.Close()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// TestAnyNodeAnswersTheAuthority: of three nodes on one database the authority reaches only the
// first, and only the second can ask it. The first answers for the second, and the third has the
// certificate from the database.
func TestAnyNodeAnswersTheAuthority(t *testing.T) {
	reached := freePort(t)
	directory, roots := pebble(t, freePort(t), reached, 90*24*time.Hour)
	addresses := []string{fmt.Sprintf("127.0.0.1:%d", reached)}
	start := func(asks bool, address string) func(*Options) {
		return func(o *Options) {
			o.Listen, o.SessionKey = address, strings.Repeat("s", MinSessionKeyLen)
			if o.TLS = (TLS{Domains: []string{acmeDomain}, Directory: "https://127.0.0.1:1/none"}); asks {
				o.TLS.Directory = directory
			}
		}
	}
	n := 0
	members(t, 3, patient, func(o *Options) {
		if n > 0 {
			addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", freePort(t)))
		}
		if n == 2 {
			poll(t, "the second has a certificate", func() bool { return serialOf(t, addresses[1], roots) != "" })
		}
		start(n == 1, addresses[n])(o)
		n++
	})
	second := serialOf(t, addresses[1], roots)
	poll(t, "the third has it too", func() bool { return serialOf(t, addresses[2], roots) == second })
}

// TestSecretsChangeTogetherUnderLoad: a certificate is renewed by ACME, the master key is rotated,
// and other settings are taken over, all under load. No publish fails, and each event arrives once.
func TestSecretsChangeTogetherUnderLoad(t *testing.T) {
	port := freePort(t)
	directory, roots := pebble(t, freePort(t), port, time.Minute) // it is renewed a third of its life before its end
	o := options(t.TempDir())
	var path string
	o.MasterKey, path = masterFile(t, "a")
	o.Listen, o.AdminKey, o.TLS = fmt.Sprintf("127.0.0.1:%d", port), testKey, TLS{Domains: []string{acmeDomain}, Directory: directory}
	s := start(t, o)
	var first string
	poll(t, "there is a certificate", func() bool { first = serialOf(t, o.Listen, roots); return first != "" })

	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: acmeDomain}, DisableKeepAlives: true}
	c, err := client.New(client.Options{Server: s.URL(), Key: testKey, HTTP: &http.Client{Transport: transport}, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	var arrived sync.Map // how often, by event
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := arrived.LoadOrStore(r.Header.Get("Webhook-Id"), new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}))
	defer receiver.Close()
	for i := range 4 {
		if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{Tenant: fmt.Sprint("t", i), URL: receiver.URL}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var sent []string
	load.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			p, err := c.Publish(t.Context(), client.NewEvent{Tenant: fmt.Sprint("t", i%4), Type: "a.b", Data: []byte("{}")})
			if err != nil {
				t.Errorf("publish %d: %v", i, err)
				return
			}
			sent = append(sent, p.ID)
		}
	})
	for _, letters := range [][]string{{"b", "a"}, {"c", "b"}} {
		lines(t, path, letters...)
		if k, err := c.RotateMasterKey(t.Context()); err != nil || k.Wrapped == 0 {
			t.Errorf("rotation: %+v, %v", k, err)
		}
		o.MaxTypes++
		s.Change(o)
	}
	poll(t, "the certificate is renewed", func() bool { now := serialOf(t, o.Listen, roots); return now != "" && now != first })
	stop()
	load.Wait()
	for _, id := range sent {
		var n any
		poll(t, "each event arrives", func() (there bool) { n, there = arrived.Load(id); return there })
		if got := n.(*atomic.Int64).Load(); got != 1 {
			t.Errorf("%s arrived %d times", id, got)
		}
	}
	t.Logf("%d events published, none failed", len(sent))
}
