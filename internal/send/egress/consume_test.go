package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
	"github.com/grapnelhq/grapnel/policy"
)

func sourceAt(address string) *grapnel.Source {
	return &grapnel.Source{ID: "src_1", Tenant: "acme", Broker: &grapnel.Target{Kind: "nats", Address: address, Name: "S",
		Password: grapnel.Secret{Text: "wrong-password"}}}
}

// TestConsumersAreGuarded: the broker of a source is reached as that of an endpoint, its failures
// are said without secrets, and a consumer that did not connect leaves no link.
func TestConsumersAreGuarded(t *testing.T) {
	f := newNATSFake(t, stored)
	_, port, err := net.SplitHostPort(f.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	strict := sender(t, Options{Resolver: &answers{lists: [][]netip.Addr{answer("127.0.0.1")}}})
	for _, address := range []string{"nats://127.0.0.1:" + port, "nats://broker.example:" + port, "nats://broker.example:22"} {
		if _, err := Consume(t.Context(), strict, sourceAt(address), "", 1, 1<<20); err == nil || len(strict.links.open) > 0 || len(strict.links.of) > 0 {
			t.Errorf("%s: %v, %d links", address, err, len(strict.links.open))
		}
	}
	open := sender(t, Options{Allow: loopback()})
	_, err = Consume(t.Context(), open, sourceAt("nats://127.0.0.1:"+port), "", 1, 1<<20)
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "wrong-password") || len(open.links.open) > 0 {
		t.Errorf("a wrong password: %v", err)
	}
}

// TestBrokersThatSendTooMuch: a consumer's connection ends when it has received more bytes than may
// be in memory.
func TestBrokersThatSendTooMuch(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for err == nil {
				_, err = conn.Write(bytes.Repeat([]byte("x"), 1<<10))
			}
			_ = conn.Close()
		}
	}()
	s := sender(t, Options{Allow: loopback()})
	if _, err := Consume(t.Context(), s, sourceAt("nats://"+l.Addr().String()), "", 1, 64<<10); !errors.Is(err, brokers.ErrTooMuch) || len(s.links.open) > 0 {
		t.Errorf("%v, %d links", err, len(s.links.open))
	}
}

// TestConsumersCountAsLinks: the consumers of a tenant use the links that the tenant's endpoints
// have, and no endpoint evicts them.
func TestConsumersCountAsLinks(t *testing.T) {
	s := sender(t, Options{Allow: loopback(), Bounds: Bounds{BrokerTenant: 2}})
	r := &route{endpoint: &grapnel.Endpoint{Tenant: "acme"}}
	var lent []*link
	for range 2 {
		l, err := s.links.lend(s, r, 1)
		if err != nil {
			t.Fatal(err)
		}
		lent = append(lent, l)
	}
	if _, err := s.links.lend(s, r, 1); err == nil {
		t.Error("a tenant got a further link")
	}
	if _, err := s.links.lend(s, &route{endpoint: &grapnel.Endpoint{Tenant: "bolt"}}, 1); err != nil {
		t.Errorf("another tenant got none: %v", err)
	}
	s.links.release(lent[0])
	if _, err := s.links.lend(s, r, 1); err != nil {
		t.Errorf("after a release: %v", err)
	}
}

// TestCausesOfLinks: a library that gives up cancels its other dials. What is reported is the failure
// that made it give up; a handshake that it made itself is a failure of TLS.
func TestCausesOfLinks(t *testing.T) {
	l := &link{}
	l.dialled(&attempt{}, &dialError{class: policy.ClassTLS, text: "unknown authority"})
	for _, cancelled := range []error{context.Canceled, &dialError{class: policy.ClassTLS, text: "context canceled", err: context.Canceled}} {
		l.dialled(&attempt{}, cancelled)
	}
	if class, text := l.classify(errors.New("gave up")); class != policy.ClassTLS || text != "unknown authority" {
		t.Errorf("%s: %s", class, text)
	}
	l.dialled(&attempt{}, nil)
	if class, text := l.classify(errors.New("gave up")); class != policy.ClassProtocol || text != "the broker failed: gave up" {
		t.Errorf("after a dial that succeeded %s: %s", class, text)
	}
	verify := fmt.Errorf("nats: tls error: %w", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}})
	if class, text := l.classify(verify); class != policy.ClassTLS || text != "the TLS handshake failed: x509: certificate signed by unknown authority" {
		t.Errorf("a handshake that the library made, %s: %s", class, text)
	}
}
