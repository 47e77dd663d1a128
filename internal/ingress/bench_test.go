//go:build unix

package ingress

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// BenchmarkIngress is what taking a request in costs beside a handler that only reads the body and answers, over loopback with connections
// that are kept: verified, deduplicated, and with its event on disk, synced, before the answer. The two take turns, because the machine is
// not the same from one second to the next; ratio is the requests per second of the first as a part of those of the second; work-ratio is the same for processor time, the clients' included,
// which others on the machine and a slow disk do not change.
func BenchmarkIngress(b *testing.B) {
	for _, clients := range []int{64, 256, 512} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) { benchmarkIngress(b, clients, 1<<10) })
	}
}

const (
	benchSecret = "a-secret-of-a-benchmark"
	benchTurn   = 10_000 // requests
)

func benchmarkIngress(b *testing.B, clients, size int) {
	room := benchRoom(b)
	full := listen(b, func(w http.ResponseWriter, r *http.Request) { room.Take(w, r, strings.TrimPrefix(r.URL.Path, "/in/")) })
	plain := listen(b, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			b.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"id":"evt_00000000000000000000000000","duplicate":false}`+"\n")
	})
	var sent atomic.Int64
	turn := func(address string) time.Duration {
		began := time.Now()
		var wg sync.WaitGroup
		var left atomic.Int64
		left.Store(benchTurn)
		for range clients {
			wg.Go(func() {
				c := dial(b, address)
				defer func() { _ = c.Close() }()
				for left.Add(-1) >= 0 {
					c.post(b, size, sent.Add(1))
				}
			})
		}
		wg.Wait()
		return time.Since(began)
	}
	turn(plain)
	turn(full)
	var ours, theirs, work, plainWork time.Duration
	for b.Loop() {
		before := worked()
		theirs += turn(plain)
		between := worked()
		ours += turn(full)
		plainWork, work = plainWork+between-before, work+worked()-between
	}
	b.ReportMetric(float64(theirs)/float64(ours), "ratio")
	b.ReportMetric(float64(plainWork)/float64(work), "work-ratio")
	b.ReportMetric(float64(b.N*benchTurn)/ours.Seconds(), "requests/s")
	b.ReportMetric(float64(b.N*benchTurn)/theirs.Seconds(), "plain/s")
}

// worked is how much processor time this process has used.
func worked() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchRoom is a room on an engine on a database on disk.
func benchRoom(b *testing.B) *Room {
	b.Helper()
	s := openStreet(b, openSQLite(b, filepath.Join(b.TempDir(), "grapnel.db")))
	s.put(b, grapnel.Source{ID: benchSource, Tenant: "default", Name: "bench",
		Verify: grapnel.Verify{Scheme: "stripe", Secrets: secrets(benchSecret)}, Dedupe: grapnel.Dedupe{By: everyKind}})
	return s.room
}

const benchSource = "src_00000000000000000000000000"

func listen(b *testing.B, handler http.HandlerFunc) string {
	b.Helper()
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(listener) })
	b.Cleanup(func() {
		_ = server.Close()
		done.Wait()
	})
	return listener.Addr().String()
}

// wire is a client that costs next to nothing, so that what is measured is the server.
type wire struct {
	net.Conn
	in  []byte
	out []byte
}

func dial(b *testing.B, address string) *wire {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		b.Error(err)
	}
	return &wire{Conn: conn, in: make([]byte, 4<<10)}
}

// post sends one signed event and waits for the answer.
func (c *wire) post(b *testing.B, size int, n int64) {
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	body := fmt.Appendf(nil, `{"id":"evt_%d","object":"event","type":"invoice.paid","data":{"object":{"id":"in_%d","text":"`, n, n)
	body = append(body, bytes.Repeat([]byte{'x'}, size-len(body)-4)...)
	body = append(body, `"}}}`...)
	mac := hmac.New(sha256.New, []byte(benchSecret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	c.out = fmt.Appendf(c.out[:0], "POST /in/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Stripe/1.0\r\nContent-Type: application/json; charset=utf-8\r\n"+
		"Accept: */*\r\nStripe-Signature: t=%s,v1=%s\r\nContent-Length: %d\r\n\r\n", benchSource, stamp, hex.EncodeToString(mac.Sum(nil)), len(body))
	c.out = append(c.out, body...)
	if _, err := c.Write(c.out); err != nil {
		b.Error(err)
		return
	}
	for read := 0; ; {
		n, err := c.Read(c.in[read:])
		if err != nil {
			b.Error(err)
			return
		}
		read += n
		if bytes.HasSuffix(c.in[:read], []byte("}\n")) {
			if !bytes.HasPrefix(c.in, []byte("HTTP/1.1 202")) {
				b.Errorf("answered %s", c.in[:read])
			}
			return
		}
	}
}
