package relay

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// far is a connection with a remote address.
type far struct{ net.Conn }

func (far) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5432} }

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

// TestOutboxesInClearAreTold: a connection to another machine without TLS is logged once per
// source, however often it is opened again. A local one is not.
func TestOutboxesInClearAreTold(t *testing.T) {
	for name, away := range map[string]bool{"this machine": false, "another one": true} {
		t.Run(name, func(t *testing.T) {
			url := database(t, server)
			p, s := pool(t, url), newSink(t, url)
			log := &lines{}
			made := 0
			_, stop := relaying(t, Options{Engine: s, Store: s.Store, Log: slog.New(slog.NewTextHandler(log, nil)),
				Random: func() float64 { return 0.01 },
				open: func(ctx context.Context, dsn string) (box, error) {
					config, err := parse(dsn)
					if err != nil {
						return nil, err
					}
					network, addr := pgconn.NetworkAddress(config.Host, config.Port)
					if away {
						config.Host = "db.example"
						config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"192.0.2.1"}, nil }
					}
					config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
						conn, err := new(net.Dialer).DialContext(ctx, network, addr)
						if away && err == nil {
							conn = far{conn}
						}
						return conn, err
					}
					b, err := connect(ctx, config, bounds.Fill(Bounds{}))
					if made++; err == nil && made < 3 {
						_ = b.(*pgBox).conn.Close(ctx) // so that it is opened again
					}
					return b, err
				}})
			do(t, p, event("k", "1"))
			until(t, "all is relayed", func() bool { return left(t, p) == 0 })
			stop()
			want := 0
			if away {
				want = 1
			}
			if n := strings.Count(log.text(), "without TLS"); n != want || made < 3 {
				t.Errorf("%d lines for %d connections, want %d: %s", n, made, want, log.text())
			}
			if away && (!strings.Contains(log.text(), "host=db.example") || !strings.Contains(log.text(), "sslmode=verify-full")) {
				t.Errorf("neither the host nor the remedy: %s", log.text())
			}
		})
	}
}
