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

// BenchmarkIngress compares receiving a webhook with a handler that only reads the body and
// answers, over loopback with kept-alive connections. The request is verified and deduplicated, and
// its event is synced to disk before the answer. Both take turns, because the machine's speed
// varies. ratio is the requests per second of the first divided by those of the second. work-ratio
// is the same for processor time, including the clients', which other load and a slow disk do not
// change. The clients use net/http, like most senders, or write bytes to a socket, so that mostly
// the server's cost remains.
func BenchmarkIngress(b *testing.B) {
	for _, clients := range []int{64, 256} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) { benchmarkIngress(b, clients, ordinary) })
		b.Run(fmt.Sprint(clients, " clients that cost nothing"), func(b *testing.B) { benchmarkIngress(b, clients, lean) })
	}
}

const (
	benchSecret = "a-secret-of-a-benchmark"
	benchTurn   = 10_000 // requests
	benchSize   = 1 << 10
)

func benchmarkIngress(b *testing.B, clients int, client func(b *testing.B, address string) (post func(n int64), done func())) {
	receiver := benchReceiver(b)
	full := listen(b, func(w http.ResponseWriter, r *http.Request) {
		receiver.Take(w, r, strings.TrimPrefix(r.URL.Path, "/in/"))
	})
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
				post, done := client(b, address)
				defer done()
				for left.Add(-1) >= 0 {
					post(sent.Add(1))
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

// worked is the processor time that this process has used.
func worked() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchReceiver is a receiver on an engine with a database on disk.
func benchReceiver(b *testing.B) *Receiver {
	b.Helper()
	s := openStation(b, openSQLite(b, filepath.Join(b.TempDir(), "grapnel.db")))
	s.put(b, grapnel.Source{ID: benchSource, Tenant: "default", Name: "bench",
		Verify: grapnel.Verify{Scheme: "stripe", Secrets: secrets(benchSecret)}, Dedupe: grapnel.Dedupe{By: everyKind}})
	return s.receiver
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

// signedEvent is a new event with its signature.
func signedEvent(n int64) (body []byte, signature string) {
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	body = fmt.Appendf(nil, `{"id":"evt_%d","object":"event","type":"invoice.paid","data":{"object":{"id":"in_%d","text":"`, n, n)
	body = append(body, bytes.Repeat([]byte{'x'}, benchSize-len(body)-4)...)
	body = append(body, `"}}}`...)
	mac := hmac.New(sha256.New, []byte(benchSecret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return body, "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// ordinary is a client of net/http with one connection.
func ordinary(b *testing.B, address string) (post func(n int64), done func()) {
	transport := &http.Transport{MaxConnsPerHost: 1}
	client := &http.Client{Transport: transport}
	return func(n int64) {
		body, signature := signedEvent(n)
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+address+"/in/"+benchSource, bytes.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		r.Header.Set("Stripe-Signature", signature)
		answer, err := client.Do(r)
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusAccepted {
			b.Errorf("answered %d", answer.StatusCode)
		}
	}, transport.CloseIdleConnections
}

// lean is a client that costs next to nothing.
func lean(b *testing.B, address string) (post func(n int64), done func()) {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		b.Error(err)
		return func(int64) {}, func() {}
	}
	in, out := make([]byte, 4<<10), []byte(nil)
	return func(n int64) {
		body, signature := signedEvent(n)
		out = fmt.Appendf(out[:0], "POST /in/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Stripe/1.0\r\nAccept: */*\r\n"+
			"Content-Type: application/json; charset=utf-8\r\nStripe-Signature: %s\r\nContent-Length: %d\r\n\r\n", benchSource, signature, len(body))
		if _, err := conn.Write(append(out, body...)); err != nil {
			b.Error(err)
			return
		}
		for read := 0; !bytes.HasSuffix(in[:read], []byte("}\n")); {
			n, err := conn.Read(in[read:])
			if err != nil {
				b.Error(err)
				return
			}
			read += n
		}
		if !bytes.HasPrefix(in, []byte("HTTP/1.1 202")) {
			b.Errorf("answered %.100s", in)
		}
	}, func() { _ = conn.Close() }
}
