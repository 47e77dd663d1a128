package redisstore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

// TestRedisForgetsInTime: a key lives for its window and never shorter than its lease; a dead one
// stays.
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
}

// TestWindowsOfTheKits: claims at the edges of lease and window, as all kits make them. Times are a
// thousand times longer, so that none of Redis's own passes in the test.
func TestWindowsOfTheKits(t *testing.T) {
	raw, err := os.ReadFile("../../sdk/conformance/windows.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Cases []struct {
			Name  string
			Given struct {
				Window int64 `json:"window_ms"`
				Lease  int64 `json:"lease_ms"`
				Steps  []struct {
					Op, By string
					At     int64 `json:"at_ms"`
				}
			}
			Want struct{ Results []any }
		}
	}
	if err := json.Unmarshal(raw, &all); err != nil || len(all.Cases) < 20 {
		t.Fatalf("%d cases, %v", len(all.Cases), err)
	}
	const scale = 1000
	for _, c := range all.Cases {
		s, ctx := empty(t), t.Context()
		owned := map[string]receive.Claim{}
		for i, step := range c.Given.Steps {
			now := time.UnixMilli(step.At * scale)
			ended := func(err error) any {
				if errors.Is(err, receive.ErrLostClaim) {
					return "lost"
				} else if err != nil {
					return err
				}
				return "ok"
			}
			var got any
			switch step.Op {
			case "claim", "replay":
				got = claimed(ctx, s, owned, receive.Bid{Key: receive.Key{Source: "acme", ID: "evt"}, Owner: step.By, Now: now,
					LeaseUntil: now.Add(time.Duration(c.Given.Lease*scale) * time.Millisecond),
					KeepUntil:  now.Add(time.Duration(c.Given.Window*scale) * time.Millisecond), Replay: step.Op == "replay"})
			case "renew":
				got = ended(s.Renew(ctx, owned[step.By], now, now.Add(time.Duration(c.Given.Lease*scale)*time.Millisecond)))
			case "clean":
				n, err := s.Clean(ctx, "acme", now, 10)
				got = float64(n)
				if err != nil {
					got = err
				}
			default:
				to := map[string]receive.State{"complete": receive.Done, "release": receive.Free, "dead": receive.Dead}[step.Op]
				got = ended(s.Settle(ctx, owned[step.By], to, receive.Processed, now))
			}
			if got != c.Want.Results[i] {
				t.Errorf("%s: step %d, %s by %s: %v, want %v", c.Name, i+1, step.Op, step.By, got, c.Want.Results[i])
			}
		}
	}
}

func claimed(ctx context.Context, s *Store, owned map[string]receive.Claim, b receive.Bid) any {
	c, err := s.Claim(ctx, b)
	switch {
	case err != nil:
		return err
	case c.Owner == b.Owner:
		owned[b.Owner] = c
		return "claimed"
	case b.Replay:
		return "refused"
	default:
		return map[receive.State]any{receive.Done: "duplicate", receive.Busy: "in_progress", receive.Dead: "dead_lettered"}[c.State]
	}
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
