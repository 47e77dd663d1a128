//go:build prove

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

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

// TestAnyNodeAnswersTheAuthority: three nodes on one database start together with a new domain. The
// authority reaches only nodes that do not lead: they answer for the one that asked. One
// certificate is issued, and all show it. The authority's directory answers once all nodes are
// there: it would reach none before, and autocert repeats a failed order after a minute at least.
func TestAnyNodeAnswersTheAuthority(t *testing.T) {
	var nodes atomic.Pointer[[]member]
	reached := followers(t, &nodes)
	directory, roots := pebble(t, freePort(t), reached, 90*24*time.Hour)
	there := make(chan struct{})
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-there:
			http.Redirect(w, r, directory, http.StatusFound)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(door.Close)
	logged := new(logLines)
	all, _ := members(t, 3, patient, func(o *Options) {
		o.SessionKey, o.TLS = strings.Repeat("s", MinSessionKeyLen), TLS{Domains: []string{acmeDomain}, Directory: door.URL}
		o.Bounds.Certificates.Again = 50 * time.Millisecond // a node whose order fails looks for another's
		o.Log = slog.New(slog.NewTextHandler(logged, nil))
	})
	nodes.Store(&all)
	close(there)
	poll(t, "all nodes have the certificate", func() bool { return logged.count("certificate ready") == len(all) })
	first := serialOf(t, all[0].listener.Addr().String(), roots)
	for i := range all {
		if is := serialOf(t, all[i].listener.Addr().String(), roots); is == "" || is != first {
			t.Errorf("node %d shows certificate %q, the first %q", i, is, first)
		}
	}
}

// TestOneCertificateThoughTheLeadMoves: the lead moves to another node while the order of the first
// one is at its last request. Until that ends, the new leader orders none; if it fails, one of its
// own. Both show the same.
func TestOneCertificateThoughTheLeadMoves(t *testing.T) {
	for name, fails := range map[string]error{"the order goes on": nil, "the order fails": errors.New("cut off")} {
		t.Run(name, func(t *testing.T) { leadMoves(t, fails) })
	}
}

func leadMoves(t *testing.T, fails error) {
	port := freePort(t)
	directory, _ := pebble(t, freePort(t), port, 90*24*time.Hour)
	db := memory.New()
	var leader atomic.Pointer[issued]
	var first, second *issued
	first = issuedOn(t, db, directory, func() bool { return leader.Load() == first })
	second = issuedOn(t, db, directory, func() bool { return leader.Load() == second })
	leader.Store(first)
	listener, err := tls.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port), callersTLS(second))
	if err != nil {
		t.Fatal(err)
	}
	proves := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = proves.Serve(listener) })
	t.Cleanup(func() { _ = proves.Close(); serving.Wait() })

	held, goOn := make(chan struct{}), make(chan struct{})
	first.manager.Client.HTTPClient.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Path, "/finalize-order/") { // as Pebble names it
			close(held)
			if <-goOn; fails != nil {
				return nil, fails
			}
		}
		return first.RoundTrip(r)
	})
	hello := &tls.ClientHelloInfo{ServerName: acmeDomain, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
	ordered := make(chan error, 1)
	go func() { _, err := first.get(hello); ordered <- err }()
	select {
	case <-held:
	case err := <-ordered:
		t.Fatalf("the order ended before its last request: %v", err)
	}
	leader.Store(second)
	if _, err := second.get(hello); !errors.Is(err, errAnotherAsks) {
		t.Errorf("the new leader, while the order is in progress: %v", err)
	}
	close(goOn)
	if err := <-ordered; !errors.Is(err, fails) {
		t.Fatal(err)
	}
	two, err := second.get(hello)
	if err != nil {
		t.Fatal(err)
	}
	if one, err := first.get(hello); err != nil || one.Leaf.SerialNumber.Cmp(two.Leaf.SerialNumber) != 0 {
		t.Errorf("the nodes do not show the same certificate: %v", err)
	}
}

// TestAnEndingNodeReleasesItsOrder: a node that ends while it orders a certificate leaves no claim,
// so its next start orders at once.
func TestAnEndingNodeReleasesItsOrder(t *testing.T) {
	asked := make(chan struct{}, 1)
	authority := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	defer authority.Close()
	nodes, db := members(t, 1, patient, func(o *Options) {
		o.SessionKey, o.TLS = strings.Repeat("s", MinSessionKeyLen), TLS{Domains: []string{acmeDomain}, Directory: authority.URL}
	})
	conn, err := pgx.Connect(t.Context(), db.URL("grapnel"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	claims := func() (n int) {
		query := "SELECT count(*) FROM document WHERE kind = $1 AND id LIKE '% claim'"
		if err := conn.QueryRow(t.Context(), query, cacheKind).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	<-asked
	if n := claims(); n != 1 {
		t.Errorf("%d claims during the order", n)
	}
	if err := nodes[0].stop(); err != nil {
		t.Fatal(err)
	}
	if n := claims(); n != 0 {
		t.Errorf("%d claims after the end", n)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// followers returns a port whose connections go to a node that does not lead.
func followers(t *testing.T, nodes *atomic.Pointer[[]member]) (port int) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	pass := func(from net.Conn) {
		defer from.Close()
		if nodes.Load() == nil {
			return
		}
		for _, n := range *nodes.Load() {
			if n.life.engine.Leads() {
				continue
			}
			to, err := new(net.Dialer).DialContext(t.Context(), "tcp", n.listener.Addr().String())
			if err != nil {
				return
			}
			defer to.Close()
			back := make(chan struct{})
			go func() { defer close(back); _, _ = io.Copy(from, to); _ = from.Close() }()
			_, _ = io.Copy(to, from)
			_ = to.Close()
			<-back
			return
		}
	}
	passing.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { pass(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); passing.Wait() })
	return l.Addr().(*net.TCPAddr).Port
}

// TestSecretsChangeTogetherUnderLoad: a certificate is renewed by ACME, the master key is rotated,
// and other settings are taken over, all under load. No publish fails, and each event arrives once.
func TestSecretsChangeTogetherUnderLoad(t *testing.T) {
	port := freePort(t)
	directory, roots := pebble(t, freePort(t), port, 30*time.Second) // it is renewed a third of its life before its end
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
	pace := time.NewTicker(10 * time.Millisecond) // each publish has a connection of its own, or they would take a whole processor
	defer pace.Stop()
	var load sync.WaitGroup
	var sent []string
	load.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			<-pace.C
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
