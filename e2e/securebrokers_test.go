//go:build linux && prove

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// Real brokers that take connections over TLS alone, with a certificate of a private authority, and
// a login.

// security is the certificate of a broker.
type security struct {
	ca, cert, key string // files in PEM
	trusted       string // the text of ca
	pool          *x509.CertPool
}

// newSecurity makes an authority and has it sign a certificate for 127.0.0.1.
func newSecurity(t *testing.T, dir string) *security {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	issue := func(is, by *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		if signer == nil {
			by, signer = is, key
		}
		is.SerialNumber, is.NotBefore, is.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		raw, err := x509.CreateCertificate(rand.Reader, is, by, key.Public(), signer)
		must(err)
		cert, err := x509.ParseCertificate(raw)
		must(err)
		return cert, key
	}
	authority, signer := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "a private authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}, nil, nil)
	cert, key := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, authority, signer)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	s := &security{ca: filepath.Join(dir, "ca.pem"), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"),
		pool: x509.NewCertPool()}
	s.pool.AddCert(authority)
	s.trusted = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}))
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	for name, text := range map[string][]byte{s.ca: []byte(s.trusted), s.cert: chain, s.key: secret, s.both(): append(secret, chain...)} {
		must(os.WriteFile(name, text, 0o600))
	}
	return s
}

// both is the file with key and certificate, as Kafka wants them.
func (s *security) both() string { return s.key + ".both" }

// url is the address for a target.
func (p *brokerProcess) url(plain, secure string) string {
	if p.secure != nil {
		plain = secure
	}
	return plain + "://" + p.address
}

// trust is what the test's own clients need; nil: no TLS.
func (p *brokerProcess) trust() *tls.Config {
	if p.secure == nil {
		return nil
	}
	return &tls.Config{RootCAs: p.secure.pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// flags are those of a command line that a broker over TLS has instead of others.
func (p *brokerProcess) flags(kind string, plain ...string) []string {
	s := p.secure
	switch {
	case s == nil:
		return plain
	case kind == "nats":
		return []string{"--tls", "--tlscert", s.cert, "--tlskey", s.key}
	}
	return []string{"--port", "0", "--tls-port", p.port(), "--tls-cert-file", s.cert, "--tls-key-file", s.key, "--tls-ca-cert-file", s.ca,
		"--tls-auth-clients", "no"}
}

// setting is the lines of a file that a broker over TLS has instead of another one.
func (p *brokerProcess) setting(kind, plain string) string {
	s := p.secure
	switch {
	case s == nil:
		return plain
	case kind == "rabbitmq":
		return fmt.Sprintf("listeners.tcp = none\nlisteners.ssl.1 = %s\nssl_options.cacertfile = %s\nssl_options.certfile = %s\n"+
			"ssl_options.keyfile = %s\nssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false", p.address, s.ca, s.cert, s.key)
	}
	return fmt.Sprintf(`SASL_SSL://%s
listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
inter.broker.listener.name=SASL_SSL
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  username="me" password="hush" user_me="hush";
ssl.keystore.type=PEM
ssl.keystore.location=%s
ssl.truststore.type=PEM
ssl.truststore.location=%s`, p.address, s.both(), s.ca)
}

func (b *natsBroker) connect() (*nats.Conn, error) {
	options := []nats.Option{nats.NoReconnect(), nats.UserInfo("me", "hush")}
	if b.secure != nil {
		options = append(options, nats.Secure(b.trust()))
	}
	return nats.Connect(b.url("nats", "tls"), options...)
}

func (b *rabbitBroker) connect() (*amqp.Connection, error) {
	return amqp.DialConfig(b.url("amqp", "amqps"), amqp.Config{TLSClientConfig: b.trust(),
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "me", Password: "hush"}}})
}

func (b *kafkaBroker) connect(options ...kgo.Opt) (*kgo.Client, error) {
	if b.secure != nil {
		options = append(options, kgo.DialTLSConfig(b.trust()), kgo.SASL(plain.Auth{User: "me", Pass: "hush"}.AsMechanism()))
	}
	return kgo.NewClient(append(options, kgo.SeedBrokers(b.address))...)
}

// TestSecureBrokers: a source and an endpoint reach a broker that wants TLS and a login. Without the
// broker's authority, and with a wrong password, each says why it does not, and never a password.
// Nothing is lost meanwhile: once both are right the message is read and the event is delivered.
func TestSecureBrokers(t *testing.T) {
	for kind, refused := range map[string]int{"redis": 401, "nats": 401, "rabbitmq": 403, "kafka": 401} {
		t.Run(kind, func(t *testing.T) {
			beside(t, busy)
			p := brokerProcess{t: t, dir: t.TempDir(), address: unusedAddress(t)}
			p.secure = newSecurity(t, p.dir)
			b := brokerOf(kind, p).(supply)
			b.start()
			c := startFull(t)
			c.must(http.StatusCreated, http.MethodPost, "/v1/queues", map[string]any{"name": "all"}, nil)
			x := &secured{t, c, b, p.secure.trusted, newSecurity(t, t.TempDir()).trusted, refused, ""}
			x.reads()
			x.writes()
			x.hear("/v1/issues")
			for _, password := range []string{wrongPassword, rightPassword} {
				if strings.Contains(x.answers, password) || strings.Contains(c.words(1<<30), password) {
					t.Errorf("%q is in the server's answers or its log", password)
				}
			}
		})
	}
}

const (
	rightPassword = "hush" // of all brokers here
	wrongPassword = "canary-of-a-wrong-password"
)

// secured is a server with a broker over TLS.
type secured struct {
	t         *testing.T
	c         *child
	b         supply
	ca, other string // the broker's authority, and another one
	refused   int    // status of the broker's answer to a wrong password
	answers   string // all that the server has said
}

// mistaken are settings of a target, and what the server says about them.
type mistaken struct {
	target, tls map[string]any
	class       string
	cause       string // empty: they are right
}

// steps are the settings that a target has one after the other. Each has another cause than the one
// before, so what the server says is of these settings.
func (x *secured) steps(target map[string]any) []mistaken {
	wrong := maps.Clone(target)
	wrong["password"] = wrongPassword
	const unknown = "the TLS handshake failed: x509: certificate signed by unknown authority"
	return []mistaken{
		{target, nil, "tls", unknown},
		{wrong, map[string]any{"ca": x.ca}, "status_4xx", fmt.Sprintf("the broker answered %d: ", x.refused)},
		{target, map[string]any{"ca": x.other}, "tls", unknown},
		{target, map[string]any{"ca": x.ca}, "none", ""},
	}
}

// reads has a source read a message.
func (x *secured) reads() {
	x.t.Helper()
	write, end := x.b.producer(x.t.Context())
	defer end()
	if err := write([]byte(`{"n":1}`), map[string]string{"webhook-id": "read-1", "key": "read"}); err != nil {
		x.t.Fatal(err)
	}
	method, path, want := http.MethodPost, "/v1/sources", http.StatusCreated
	for _, step := range x.steps(x.b.source()) {
		var made struct{ ID string }
		x.c.must(want, method, path, map[string]any{"name": "broker", "broker": step.target, "tls": step.tls, "type": `"order.placed"`,
			"key": `event.headers["key"]`}, &made)
		method, path, want = http.MethodPatch, "/v1/sources/"+made.ID, http.StatusOK
		var is struct {
			Consumer struct{ State, Detail string }
		}
		eventually(x.t, 30*time.Second, "the source says: "+step.cause, func() bool {
			x.c.must(http.StatusOK, http.MethodGet, path, nil, &is)
			if step.cause == "" {
				status, _, err := x.c.call(x.t.Context(), http.MethodGet, "/v1/events/read-1", nil)
				return err == nil && status == http.StatusOK
			}
			return is.Consumer.State == "away" && strings.Contains(is.Consumer.Detail, step.cause)
		})
		x.t.Logf("the source is %s: %s", is.Consumer.State, is.Consumer.Detail)
		x.hear(path)
	}
	x.c.must(http.StatusNoContent, http.MethodDelete, path, nil, nil)
}

// attempted is an attempt as the API shows it.
type attempted struct {
	Class string `json:"error_class"`
	Error string
}

// writes has an endpoint deliver an event.
func (x *secured) writes() {
	x.t.Helper()
	policy, _ := inline(5*time.Second, 1000, 100*time.Millisecond, 300*time.Millisecond)
	method, path, want, sent := http.MethodPost, "/v1/endpoints", http.StatusCreated, ""
	for _, step := range x.steps(x.b.target()) {
		var made struct{ ID string }
		x.c.must(want, method, path, map[string]any{"target": step.target, "tls": step.tls, "policy": policy,
			"event_types": []string{"note.added"}}, &made)
		if method == http.MethodPost {
			method, path, want = http.MethodPatch, "/v1/endpoints/"+made.ID, http.StatusOK
			event := newEvent{ID: "k-1", Type: "note.added", Key: "k", Data: []byte(`{"n":1}`)}
			x.c.must(http.StatusAccepted, http.MethodPost, "/v1/events", event.encode(), nil)
			sent = "/v1/deliveries/" + pages[row](x.c, "/v1/deliveries", url.Values{"endpoint": {made.ID}}, 1)[0].ID
		}
		var is struct{ Attempts []attempted }
		eventually(x.t, 30*time.Second, "an attempt says: "+step.cause, func() bool {
			x.c.must(http.StatusOK, http.MethodGet, sent, nil, &is)
			return slices.ContainsFunc(is.Attempts[max(0, len(is.Attempts)-1):], func(a attempted) bool {
				return a.Class == step.class && strings.Contains(a.Error, step.cause)
			})
		})
		x.t.Logf("attempt %d: %+v", len(is.Attempts), is.Attempts[len(is.Attempts)-1])
		x.hear(path)
		x.hear(sent)
	}
	arrived := 0
	for _, m := range x.b.read() {
		if m.headers["webhook-id"] == "k-1" {
			arrived++
		}
	}
	if arrived != 1 {
		x.t.Errorf("the broker has the event %d times", arrived)
	}
}

// hear keeps what the server answers.
func (x *secured) hear(path string) {
	x.t.Helper()
	status, body, err := x.c.call(x.t.Context(), http.MethodGet, path, nil)
	x.c.check(status, body, err, http.StatusOK, http.MethodGet, path, nil)
	x.answers += string(body)
}
