package redisstore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/storetest"
	"github.com/grapnelhq/grapnel/sign"
)

// client is of a redis-server that the tests of this package share.
var client *redis.Client

func TestMain(m *testing.M) {
	code, err := served(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// served starts a redis-server on a socket in a directory of its own, and ends it after run.
func served(run func() int) (int, error) {
	dir, err := os.MkdirTemp("", "redisstore")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "s")
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no")
	out, err := server.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := server.Start(); err != nil {
		return 0, fmt.Errorf("the test needs redis-server: %w", err)
	}
	ready := false
	for lines := bufio.NewScanner(out); !ready && lines.Scan(); {
		ready = strings.Contains(lines.Text(), "accept connections")
	}
	code := 1
	if ready {
		client = redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
		code = run()
		err = client.Close()
	} else {
		err = errors.New("redis-server has not started")
	}
	return code, errors.Join(err, server.Process.Kill(), ignore(server.Wait()))
}

// ignore is the error of a process that was killed.
func ignore(error) error { return nil }

// empty is a store without keys.
func empty(t *testing.T) *Store {
	t.Helper()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return New(client)
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) receive.Store { return empty(t) })
}

// TestTheScriptsAreThoseOfAllKits compares the embedded scripts with the common ones.
func TestTheScriptsAreThoseOfAllKits(t *testing.T) {
	names, err := filepath.Glob("../../sdk/conformance/redis/*.lua")
	if err != nil || len(names) != 3 {
		t.Fatalf("%d scripts, %v", len(names), err)
	}
	for _, name := range names {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := files.ReadFile("lua/" + filepath.Base(name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("lua/%s is not %s (%v); copy it", filepath.Base(name), name, err)
		}
	}
}

// TestRedisForgetsInTime: a key lives for its window, never shorter than its lease, and for a
// minute after it is settled, so that what Clean returns does not depend on the server's speed; a
// dead one stays.
func TestRedisForgetsInTime(t *testing.T) {
	s, now, ctx := empty(t), time.UnixMilli(1_790_000_000_000), t.Context()
	lives := func(what string, atLeast, atMost time.Duration) {
		t.Helper()
		ttl, err := client.PTTL(ctx, "webhook:{acme}:evt_1").Result()
		if err != nil || ttl < atLeast || ttl > atMost {
			t.Errorf("%s: the key lives for %s, %v; want %s to %s", what, ttl, err, atLeast, atMost)
		}
	}
	bid := receive.Bid{Key: receive.Key{Source: "acme", ID: "evt_1"}, Owner: "a", Now: now,
		LeaseUntil: now.Add(2 * time.Hour), KeepUntil: now.Add(time.Hour)}
	c, err := s.Claim(ctx, bid)
	if err != nil {
		t.Fatal(err)
	}
	lives("a lease longer than the window", 119*time.Minute, 121*time.Minute)
	if err := s.Renew(ctx, c, now, now.Add(4*time.Hour)); err != nil {
		t.Fatal(err)
	}
	lives("a renewed lease", 239*time.Minute, 241*time.Minute)
	if err := s.Settle(ctx, c, receive.Free, receive.Failed, now); err != nil {
		t.Fatal(err)
	}
	lives("a free key", 59*time.Minute, 61*time.Minute)
	bid.Owner = "b"
	if c, err = s.Claim(ctx, bid); err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(ctx, c, receive.Dead, receive.Rejected, now); err != nil {
		t.Fatal(err)
	}
	lives("a dead key", -1, -1)
	late := receive.Bid{Key: bid.Key, Owner: "c", Now: now, LeaseUntil: now.Add(time.Hour), KeepUntil: now, Replay: true}
	if c, err = s.Claim(ctx, late); err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(ctx, c, receive.Done, receive.Processed, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	lives("a key that is done after its window", 59*time.Second, time.Minute)
}

func TestWindowsOfTheKits(t *testing.T) {
	text, err := os.ReadFile("../../sdk/conformance/windows.json")
	if err != nil {
		t.Fatal(err)
	}
	storetest.RunWindows(t, text, func(t *testing.T) receive.Store { return long{empty(t)} })
}

// long makes all times a thousand times longer, so that none of Redis's own passes in a test.
type long struct{ store *Store }

func longer(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli() * 1000) }

func (l long) Claim(ctx context.Context, b receive.Bid) (receive.Claim, error) {
	b.Now, b.LeaseUntil, b.KeepUntil = longer(b.Now), longer(b.LeaseUntil), longer(b.KeepUntil)
	return l.store.Claim(ctx, b)
}

func (l long) Look(ctx context.Context, k receive.Key) (receive.Claim, error) {
	return l.store.Look(ctx, k)
}

func (l long) Renew(ctx context.Context, c receive.Claim, now, until time.Time) error {
	return l.store.Renew(ctx, c, longer(now), longer(until))
}

func (l long) Settle(ctx context.Context, c receive.Claim, to receive.State, o receive.Outcome, now time.Time) error {
	return l.store.Settle(ctx, c, to, o, longer(now))
}

func (l long) Clean(ctx context.Context, source string, now time.Time, limit int) (int, error) {
	return l.store.Clean(ctx, source, longer(now), limit)
}

// TestCopiesThroughTheKit: a kit with this store runs the handler once for many copies at once.
func TestCopiesThroughTheKit(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	kit, err := receive.New(receive.Options{Source: "acme", Verifier: receive.StandardWebhooks(secret), Store: empty(t)})
	if err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int64
	server := httptest.NewServer(kit.Claim(func(context.Context, *receive.Delivery) error { runs.Add(1); return nil }))
	defer server.Close()
	now := time.Now()
	signature, err := sign.Sign("evt_1", now, []byte("{}"), secret)
	if err != nil {
		t.Fatal(err)
	}
	const copies = 12
	outcomes := make(chan string, copies)
	for range copies {
		go func() {
			r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, strings.NewReader("{}"))
			r.Header.Set("webhook-id", "evt_1")
			r.Header.Set("webhook-timestamp", fmt.Sprint(now.Unix()))
			r.Header.Set("webhook-signature", signature)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				outcomes <- err.Error()
				return
			}
			_ = answer.Body.Close()
			outcomes <- answer.Header.Get("Webhook-Outcome")
		}()
	}
	seen := map[string]int{}
	for range copies {
		seen[<-outcomes]++
	}
	if runs.Load() != 1 || seen["processed"]+seen["duplicate"] != copies || seen["processed"] < 1 {
		t.Errorf("the handler ran %d times: %v", runs.Load(), seen)
	}
}
