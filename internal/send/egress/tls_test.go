package egress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/policy"
)

// authority signs the certificates of test receivers.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t), pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: day(-400), NotAfter: day(400), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

func day(n int) time.Time { return time.Now().AddDate(0, 0, n) }

// text is the authority's certificate in PEM.
func (a *authority) text() string { return inPEM("CERTIFICATE", a.cert.Raw) }

// pem issues a certificate and its key in PEM.
func (a *authority) pem(t *testing.T, name string, from, to time.Time) (cert, key string) {
	t.Helper()
	pair := a.issue(t, name, from, to)
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return inPEM("CERTIFICATE", pair.Certificate[0]), inPEM("PRIVATE KEY", der)
}

func inPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func (a *authority) issue(t *testing.T, host string, from, to time.Time) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{host}, NotBefore: from, NotAfter: to,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		Subject:     pkix.Name{CommonName: host},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// secure answers 200 on a TLS connection; a handshake that fails ends the connection.
func secure(config *tls.Config) func(net.Conn) {
	return func(raw net.Conn) {
		c := tls.Server(raw, config)
		if c.Handshake() != nil {
			return
		}
		readRequest(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		hold(c)
	}
}

func TestTLS(t *testing.T) {
	trusted, stranger := newAuthority(t), newAuthority(t)
	good := trusted.issue(t, "hooks.example", day(-10), day(10))
	with := func(c tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{c}} }

	for name, c := range map[string]struct {
		serve func(net.Conn)
		class policy.Class
		error string
	}{
		"a good certificate": {secure(with(good)), policy.ClassNone, ""},
		"expired":            {secure(with(trusted.issue(t, "hooks.example", day(-10), day(-1)))), policy.ClassTLS, "expired"},
		"not yet valid":      {secure(with(trusted.issue(t, "hooks.example", day(1), day(10)))), policy.ClassTLS, "not yet valid"},
		"another host":       {secure(with(trusted.issue(t, "other.example", day(-10), day(10)))), policy.ClassTLS, "not valid for this host"},
		"a parent domain":    {secure(with(trusted.issue(t, "example", day(-10), day(10)))), policy.ClassTLS, "not valid for this host"},
		"unknown authority":  {secure(with(stranger.issue(t, "hooks.example", day(-10), day(10)))), policy.ClassTLS, "unknown authority"},
		"self-signed": {secure(with(tls.Certificate{Certificate: [][]byte{stranger.cert.Raw}, PrivateKey: stranger.key})),
			policy.ClassTLS, "certificate"},
		"TLS 1.1": {secure(&tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}),
			policy.ClassTLS, "remote error: tls: protocol version not supported"},
		"wants a client certificate": {secure(&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert,
			MaxVersion: tls.VersionTLS12}),
			policy.ClassTLS, "remote error"},
		"wants one after the handshake": {secure(&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert}),
			policy.ClassTLS, "remote error"},
		"plain HTTP": {func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}, policy.ClassTLS, "does not speak TLS"},
		"closes in the handshake": {func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }, policy.ClassTLS, "closed the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			// a pipe would let both sides wait for each other in the handshake
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			stop := serveConns(l, c.serve)
			s := New(Options{RootCAs: trusted.pool, Allow: loopback(), Resolver: &answers{lists: [][]netip.Addr{answer("127.0.0.1")}}})
			_, port, _ := net.SplitHostPort(l.Addr().String())
			r := send(s, delivery(endpoint("https://hooks.example:"+port+"/")))
			if r.Outcome.Class != c.class || !strings.Contains(r.Error, c.error) || (r.Error == "") != (c.class == policy.ClassNone) {
				t.Errorf("class %s, error %q", r.Outcome.Class, r.Error)
			}
			if strings.Contains(r.Error, "127.0.0.1") {
				t.Errorf("the error tells an address: %s", r.Error)
			}
			s.Close()
			stop()
		})
	}
}

func TestAStallInTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := pipenet.New()
		defer n.Close()
		stop := peer(n, "hooks.example", hold)
		s := piped(t, n, Options{})
		r := send(s, delivery(endpoint("https://hooks.example/")))
		if r.Outcome.Class != policy.ClassTimeout || r.Error != "no complete answer within 10s, during the TLS handshake" ||
			r.Duration != 10*time.Second {
			t.Errorf("%+v", r)
		}
		s.Close()
		stop()
	})
}

// TestTLSIsNeverSkipped: no option of a sender and no field of an endpoint turns the check off.
func TestTLSIsNeverSkipped(t *testing.T) {
	s := sender(t, Options{Allow: loopback()})
	e := endpoint("https://hooks.example/")
	if r := s.prepare(
		e, "",
		time.Now(),
	); r.class != "" || s.tls.InsecureSkipVerify || s.tls.MinVersion < tls.VersionTLS12 ||
		s.tls.VerifyConnection != nil {
		t.Errorf("%+v", s.tls)
	}
}

// TestBytesHeldBackByTLSAreNoAnswer: a receiver sends more than its answer in one record. The bytes
// that TLS has read ahead belong to no request, so the connection is not used again.
func TestBytesHeldBackByTLSAreNoAnswer(t *testing.T) {
	a := newAuthority(t)
	cert := a.issue(t, "hooks.example", day(-10), day(10))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := serveConns(l, func(raw net.Conn) {
		c := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{cert}, DynamicRecordSizingDisabled: true})
		in := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(
				c,
				"HTTP/1.1 500 Oops\r\nContent-Length: 9000\r\n\r\n"+strings.Repeat("y", 9000)+"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			)
		}
	})
	defer stop()
	s := sender(t, Options{RootCAs: a.pool, Allow: loopback(), Resolver: here{}})
	defer s.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for range 3 {
		if r := send(s, delivery(endpoint("https://hooks.example:"+port+"/"))); r.Outcome.Status != 500 || r.Phases.Reused {
			t.Errorf("%+v, reused %v: %s", r.Outcome, r.Phases.Reused, r.Error)
		}
	}
}

// here resolves every name to this machine.
type here struct{}

func (here) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}
