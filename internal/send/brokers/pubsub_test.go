//go:build full

package brokers

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/grapnelhq/grapnel"
)

// publisher answers publishes.
type publisher struct {
	pubsubpb.UnimplementedPublisherServer
	answer func(context.Context, *pubsubpb.PublishRequest) error
}

func (p *publisher) Publish(ctx context.Context, r *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	return &pubsubpb.PublishResponse{MessageIds: []string{"77"}}, p.answer(ctx, r)
}

// serveTopics starts a publisher over TLS, and is the target and the network of a client of it.
func serveTopics(t *testing.T, answer func(context.Context, *pubsubpb.PublishRequest) error) (*grapnel.Target, Network, *atomic.Int32) {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // for its certificate
	certified.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(certified.TLS)))
	pubsubpb.RegisterPublisherServer(s, &publisher{answer: answer})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	roots, dials := x509.NewCertPool(), new(atomic.Int32)
	roots.AddCert(certified.Certificate())
	n := Network{Conns: 4, Answer: 64 << 10, Dial: func(ctx context.Context, at string) (net.Conn, error) {
		dials.Add(1)
		return (&tls.Dialer{Config: &tls.Config{RootCAs: roots, NextProtos: linked["pubsub"].ALPN, MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", at)
	}}
	return &grapnel.Target{Kind: "pubsub", Address: "https://" + l.Addr().String(), Name: "projects/p/topics/t",
		Password: grapnel.Secret{Text: serviceAccount(t)}}, n, dials
}

// serviceAccount is the text of a key as Google gives it out.
func serviceAccount(t *testing.T) string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "me@p.example", "private_key_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": "http://127.0.0.1:1/never"})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPubSub: a message has the event's key as its ordering key and the headers as attributes, and
// the token is signed here.
func TestPubSub(t *testing.T) {
	var got *pubsubpb.PublishRequest
	var token []string
	target, n, dials := serveTopics(t, func(ctx context.Context, r *pubsubpb.PublishRequest) error {
		md, _ := metadata.FromIncomingContext(ctx)
		got, token = r, md.Get("authorization")
		return nil
	})
	m := cloudMessage(target)
	receipt, err := sendTo(t.Context(), t, target, n, m)
	if err != nil || receipt["message"] != "77" {
		t.Fatalf("the receipt is %v: %v", receipt, err)
	}
	if is := got.Messages[0]; got.Topic != target.Name || string(is.Data) != string(m.Body) || is.OrderingKey != m.Key || is.Attributes["webhook-id"] != "v-webhook-id" ||
		len(is.Attributes) != len(m.Headers) {
		t.Errorf("the request is %v", got)
	}
	if len(token) != 1 || strings.Count(token[0], ".") != 2 || dials.Load() != 1 {
		t.Errorf("the token is %v, after %d connections", token, dials.Load())
	}
}

// TestAnswersOfPubSub: each code is a refusal of one status, and no message is published twice.
func TestAnswersOfPubSub(t *testing.T) {
	var requests atomic.Int32
	code := codes.OK
	target, n, _ := serveTopics(t, func(context.Context, *pubsubpb.PublishRequest) error {
		requests.Add(1)
		return status.Error(code, "because")
	})
	sent := 0
	for is, want := range map[codes.Code]int{codes.NotFound: 404, codes.PermissionDenied: 403, codes.Unauthenticated: 401,
		codes.InvalidArgument:   400,
		codes.ResourceExhausted: 429, codes.Unavailable: 503, codes.DeadlineExceeded: 502, codes.Canceled: 502, codes.DataLoss: 502} {
		code = is
		sent++
		var refused *Refusal
		if _, err := sendTo(t.Context(), t, target, n, cloudMessage(target)); !errors.As(err, &refused) || refused.Status != want {
			t.Errorf("%v: %v, want %d", is, err, want)
		}
	}
	if int(requests.Load()) != sent {
		t.Errorf("%d messages were published %d times", sent, requests.Load())
	}
}

// TestBrokenPubSub: a server that ends, says nothing or speaks something else is no refusal.
func TestBrokenPubSub(t *testing.T) {
	behaves := func(do func(net.Conn)) *grapnel.Target {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go do(c)
			}
		}()
		return &grapnel.Target{Kind: "pubsub", Address: "http://" + l.Addr().String(), Name: "projects/p/topics/t"}
	}
	for name, target := range map[string]*grapnel.Target{
		"ends":   behaves(func(c net.Conn) { _ = c.Close() }),
		"other":  behaves(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); _ = c.Close() }),
		"silent": behaves(func(c net.Conn) { _, _ = io.Copy(io.Discard, c); _ = c.Close() }),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := sendTo(ctx, t, target, bare(new(atomic.Int32)), cloudMessage(target))
		var refused *Refusal
		if err == nil || errors.As(err, &refused) || (ctx.Err() != nil) != (name == "silent") {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
