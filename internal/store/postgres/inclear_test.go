package postgres

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// far is a connection with a remote address.
type far struct{ net.Conn }

func (far) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5432} }

// TestConnectionsInClearAreTold: one message per store, and only if the connection leads to another
// machine without TLS.
func TestConnectionsInClearAreTold(t *testing.T) {
	t.Parallel()
	url := blank(t)
	here, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	socket := func(ctx context.Context, _, _ string) (net.Conn, error) {
		network, addr := pgconn.NetworkAddress(here.Host, here.Port)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	away := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := socket(ctx, network, addr)
		return far{conn}, err
	}
	encrypted := behindTLS(t, socket)
	there := "postgres://postgres@192.0.2.1:5432/" + here.Database
	for _, c := range []struct {
		name, url string
		dial      pgconn.DialFunc
		lines     int
	}{
		{"unix socket", url, nil, 0},
		{"TLS preferred, and the server has none", there, away, 1},
		{"TLS disabled", there + "?sslmode=disable", away, 1},
		{"TLS", there + "?sslmode=require", encrypted, 0},
		{"TLS preferred", there, encrypted, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			s := open(t, c.url, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), dial: c.dial})
			for range 3 { // over connections of every pool
				if _, err := s.Config(t.Context()); err != nil {
					t.Error(err)
				}
				if err := bringIn(t.Context(), s, "e"); err != nil {
					t.Error(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if n := strings.Count(log.String(), "without TLS"); n != c.lines {
				t.Errorf("%d lines, want %d:\n%s", n, c.lines, log.String())
			}
			if c.lines > 0 && (!strings.Contains(log.String(), "host=192.0.2.1") || !strings.Contains(log.String(), "sslmode=verify-full")) {
				t.Errorf("neither the host nor the remedy: %s", log.String())
			}
		})
	}
}

// behindTLS puts TLS before a database, as a server with a certificate does.
func behindTLS(t *testing.T, to pgconn.DialFunc) pgconn.DialFunc {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	serve := func(raw net.Conn) error {
		defer raw.Close()
		var asked [8]byte // SSLRequest
		if _, err := io.ReadFull(raw, asked[:]); err != nil {
			return err
		}
		if _, err := raw.Write([]byte{'S'}); err != nil {
			return err
		}
		conn := tls.Server(raw, config)
		db, err := to(context.Background(), "", "")
		if err != nil {
			return err
		}
		defer db.Close()
		all.Go(func() { _, _ = io.Copy(conn, db); _ = raw.Close() })
		_, err = io.Copy(db, conn)
		return err
	}
	all.Go(func() {
		for {
			raw, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				all.Go(func() { _ = serve(raw) }) // errors of cancelled or cut connections are expected
			}
		}
	})
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		return far{conn}, err
	}
}
