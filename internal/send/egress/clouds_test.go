//go:build full

package egress

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// TestCloudsAreGuarded: the APIs of clouds are reached by the rules of the guard and the deadline, as
// all else is, and nothing counts as sent before there is a connection.
func TestCloudsAreGuarded(t *testing.T) {
	var conns atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serveConns(l, func(c net.Conn) { // it reads, and says nothing
		conns.Add(1)
		b := make([]byte, 1<<10)
		for err := error(nil); err == nil; _, err = c.Read(b) {
		}
	}))
	for kind, is := range map[string]grapnel.Target{
		"sqs": {Name: "1/events"}, "sns": {Name: "arn:aws:sns:eu-west-1:1:events"}, "s3": {Name: "a/{event.id}"}, "pubsub": {Name: "projects/p/topics/t"},
	} {
		to := func(address string) Delivery {
			e := endpoint("http://x")
			e.ID, e.Policy.Timeout, e.Target = kind+address, policy.Duration(200*time.Millisecond), &is
			if is.Kind, is.Address = kind, "http://"+address; kind == "s3" {
				is.Address += "/bucket"
			}
			if kind != "pubsub" {
				is.Username, is.Password.Text = "AKID", "canary-of-a-cloud"
			}
			return delivery(e)
		}
		before := conns.Load()
		if r := send(sender(t, Options{}), to(l.Addr().String())); r.Outcome.Class != policy.ClassBlocked || conns.Load() != before {
			t.Errorf("%s at a private address: %+v", kind, r)
		}
		r := send(sender(t, Options{Allow: loopback()}), to(l.Addr().String()))
		if r.Outcome.Class != policy.ClassTimeout || strings.Contains(r.Error, "canary") || conns.Load() == before {
			t.Errorf("a silent %s: %+v", kind, r)
		}
		if r := send(sender(t, Options{Allow: loopback()}), to("127.0.0.1:1")); r.Outcome.Class != policy.ClassConnect || r.Sent != nil {
			t.Errorf("%s where nobody listens: %+v", kind, r)
		}
	}
}

// TestCloudSourcesAreGuarded: the same holds for sources. A consumer whose broker says nothing waits
// no longer than it was told, and leaves no link when it is closed.
func TestCloudSourcesAreGuarded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serveConns(l, func(c net.Conn) {
		b := make([]byte, 1<<10)
		for err := error(nil); err == nil; _, err = c.Read(b) {
		}
	}))
	src := sourceAt("http://" + l.Addr().String())
	src.Broker.Kind, src.Broker.Name, src.Broker.Username = "sqs", "1/events", "AKID"
	strict := sender(t, Options{})
	if _, err := Consume(t.Context(), strict, src, "", 1, 1<<20); err == nil || len(strict.links.open) > 0 {
		t.Errorf("a private address: %v, %d links", err, len(strict.links.open))
	}
	open := sender(t, Options{Allow: loopback()})
	c, err := Consume(t.Context(), open, src, "", 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if all, err := c.Receive(t.Context(), 20*time.Millisecond); len(all) > 0 || err != nil {
		t.Errorf("%d messages: %v", len(all), err)
	}
	c.Close()
	if took := time.Since(began); took > 5*time.Second || len(open.links.open) > 0 {
		t.Errorf("it took %v and left %d links", took, len(open.links.open))
	}
}

// TestSourcesOfferTheirProtocol: a server of Google's speaks gRPC only with a client that offers h2
// during the TLS handshake. A source offers it as an endpoint does.
func TestSourcesOfferTheirProtocol(t *testing.T) {
	a := newAuthority(t)
	offered := make(chan []string, 1)
	config := &tls.Config{Certificates: []tls.Certificate{a.issue(t, "pubsub.example", day(-1), day(1))}, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			offered <- hello.SupportedProtos
			return nil, nil
		}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serveConns(l, func(c net.Conn) { _ = tls.Server(c, config).Handshake() })) // and nothing more
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "me@p.example", "private_key_id": "1",
		"private_key": inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))})
	if err != nil {
		t.Fatal(err)
	}
	src := sourceAt("https://pubsub.example:" + port)
	src.Broker.Kind, src.Broker.Name, src.Broker.Password.Text = "pubsub", "projects/p/subscriptions/s", string(account)
	s := sender(t, Options{Allow: loopback(), RootCAs: a.pool, Resolver: here{}})
	if _, err := Consume(t.Context(), s, src, "", 1, 1<<20); err == nil || len(offered) == 0 {
		t.Fatalf("a server that ends after the handshake: %v, %d handshakes", err, len(offered))
	}
	if got := <-offered; !slices.Contains(got, "h2") {
		t.Errorf("the source offers %q", got)
	}
}
