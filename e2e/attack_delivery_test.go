//go:build linux && prove

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// TestAttackByReceiversThatHang: a tenant creates 40 new endpoints again and again, which never
// answer or answer only once. They are at the host of another tenant's endpoints: at another port,
// or at the same one. The other tenant's events arrive as soon as without the attack.
func TestAttackByReceiversThatHang(t *testing.T) {
	least, most, quantile, events := 3, 15, 75, 10
	if soak() {
		least, most, quantile, events = 15, 25, 50, 40
	}
	a := newAttacked(t, program{})
	slow := newSite()
	var same *healthyVictim
	d := newDoor(t, "127.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bee" {
			same.ServeHTTP(w, r)
		} else {
			slow.ServeHTTP(w, r)
		}
	}))
	same = a.victimAt("same", "http://"+d.addr+"/bee")
	other := a.newVictim("other")
	same.once()
	measure := func() time.Duration {
		_, x := same.medians(events)
		_, y := other.medians(events)
		return max(x, y)
	}
	round, held := 0, 0
	ratio, without, with := inTurn(least, most, quantile, 1.2, func() (before, during time.Duration) {
		before = measure()
		round++
		kind := fmt.Sprintf("flood%d", round)
		for i := range 40 {
			a.endpointOf(attacker, fmt.Sprintf("http://%s/%d/%d", d.addr, round, i),
				map[string]any{"event_types": []string{kind}, "policy": map[string]any{"timeout": "10m"}})
		}
		flood := func(from, to int) {
			for i := from; i < to; i++ {
				a.by(attacker, grapnel.ScopePublish, http.StatusAccepted, http.MethodPost, "/v1/events",
					newEvent{ID: fmt.Sprintf("%s-%d", kind, i), Type: kind, Data: json.RawMessage(`{}`)}.encode(), nil)
			}
		}
		least, start := 40, slow.now()
		if round%2 == 0 { // they answer once, so they get more slots
			flood(8, 9)
			eventually(t, 20*time.Second, "each has answered once", func() bool { return len(slow.seen(start)) == 40 })
			least = 200
		}
		freed := make(chan struct{})
		slow.turn(way{after: time.Hour, freed: freed})
		from := slow.now()
		flood(0, 8)
		now := 0
		if !poll(t.Context(), 20*time.Second, 50*time.Millisecond, func() bool {
			before := now
			now = len(slow.seen(from))
			return now >= least && now == before
		}) {
			t.Fatalf("the new endpoints hold only %d requests", now)
		}
		held = max(held, now)
		during = measure()
		slow.turn(way{})
		close(freed)
		eventually(t, 30*time.Second, "the attack is over", func() bool { return !a.waiting() })
		return before, during
	})
	t.Logf("%d pairs: an event arrives after %v without and %v with %d requests that hang, ratio %.2f (to the %d. percentile %.2f)", len(with),
		median(without), median(with), held, float64(median(with))/float64(median(without)), quantile, ratio)
	if ratio > 1.2 {
		t.Errorf("events of another tenant take %.2f times as long", ratio)
	}
}

// TestAttackByALoop: a source that verifies nothing and recognises no repetition, and two endpoints
// that send to it. One event becomes 2⁹ − 1 and no more.
func TestAttackByALoop(t *testing.T) {
	beside(t, light)
	a := newAttacked(t, program{})
	_, path := a.sourceOf(attacker, map[string]any{"name": "round", "verify": map[string]any{"scheme": "none"},
		"dedupe": map[string]any{"by": []string{}}})
	for range 2 {
		a.endpointOf(attacker, "http://"+a.addr+path, nil)
	}
	a.by(attacker, grapnel.ScopePublish, http.StatusAccepted, http.MethodPost, "/v1/events",
		newEvent{ID: "seed", Type: "a", Data: json.RawMessage(`{}`)}.encode(), nil)
	var all []row
	eventually(t, 60*time.Second, "the last generation is refused", func() bool {
		all = a.rows(url.Values{})
		tried := 0
		for _, r := range all {
			if r.Attempts > 0 {
				tried++
			}
		}
		return len(all) >= 1022 && tried == len(all)
	})
	delivered := 0
	for _, r := range all {
		if r.Status == grapnel.Delivered {
			delivered++
		}
	}
	if len(all) != 1022 || delivered != 510 {
		t.Errorf("one event has become %d deliveries, %d of which were taken; want 1022 and 510", len(all), delivered)
	}
}

// TestAttackByRates: a rate too small for a clock is refused. The smallest rate that is accepted
// limits.
func TestAttackByRates(t *testing.T) {
	beside(t, light)
	a := newAttacked(t, program{})
	s := newSite()
	d := newDoor(t, "127.0.0.1", s)
	open := map[string]any{"scheme": "none"}
	for _, rate := range []float64{1e-12, 1e-10, 0, -1, 1e-300} {
		limit := map[string]any{"per_second": rate}
		for path, body := range map[string]map[string]any{
			"/v1/endpoints": {"url": "http://" + d.addr + "/", "rate_limit": limit},
			"/v1/sources":   {"name": "x", "verify": open, "rate_limit": limit},
		} {
			var fault struct{ Errors []struct{ Pointer string } }
			a.by(attacker, grapnel.ScopeManage, http.StatusUnprocessableEntity, http.MethodPost, path, body, &fault)
			if len(fault.Errors) != 1 || fault.Errors[0].Pointer != "/rate_limit/per_second" {
				t.Errorf("%s with %v: refused for %+v", path, rate, fault)
			}
		}
	}
	least := map[string]any{"per_second": grapnel.MinPerSecond, "burst": 1}
	a.endpointOf(attacker, "http://"+d.addr+"/", map[string]any{"rate_limit": least, "event_types": []string{"tick"}})
	_, path := a.sourceOf(attacker, map[string]any{"name": "least", "verify": open, "rate_limit": least})
	for i := range 20 {
		a.by(attacker, grapnel.ScopePublish, http.StatusAccepted, http.MethodPost, "/v1/events",
			newEvent{ID: fmt.Sprint("tick-", i), Type: "tick", Data: json.RawMessage(`{}`)}.encode(), nil)
		want := http.StatusTooManyRequests
		if i == 0 {
			want = http.StatusAccepted
		}
		if got, body := a.ask("", http.MethodPost, path, fmt.Appendf(nil, `{"n":%d}`, i)); got != want {
			t.Fatalf("request %d to a source: answered %d %s", i, got, body)
		}
	}
	eventually(t, 20*time.Second, "the first of 20 events arrives", func() bool { return s.taken() > 0 })
	a.newVictim("after").medians(20) // the number of events published before
	if n := len(s.seen(0)); n != 1 {
		t.Errorf("the endpoint was sent %d requests at one in three hours", n)
	}
}

// trap is an address that no connection may reach.
func trap(t *testing.T, network string) (addr string, reached *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", network)
	if err != nil {
		t.Fatal(err)
	}
	reached = new(atomic.Int64)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = listener.Close(); served.Wait() })
	return listener.Addr().String(), reached
}

// TestAttackOnTheInnerNetwork: no request reaches an address that is not allowed, by any spelling,
// by a redirect, or by a proxy of the environment. No URL and no header changes the request that is
// sent.
func TestAttackOnTheInnerNetwork(t *testing.T) {
	beside(t, light)
	forbidden, reached := trap(t, "[::1]:0")
	_, port, _ := net.SplitHostPort(forbidden)
	proxy := "http://" + forbidden
	a := newAttacked(t, program{env: []string{"HTTP_PROXY=" + proxy, "http_proxy=" + proxy, "HTTPS_PROXY=" + proxy, "ALL_PROXY=" + proxy}})

	var mu sync.Mutex
	var lines []string
	d := newDoor(t, "127.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, r.RequestURI)
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Injected") {
				t.Errorf("the receiver got a header %s", name)
			}
		}
		w.Header().Set("Location", "http://"+forbidden+"/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	once := map[string]any{"max_attempts": 1}
	refused, sent := 0, 1 // the redirect
	hosts := []string{"[::1]", "[0:0:0:0:0:0:0:1]", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0x7f000001", "2130706433",
		"0177.0.0.1", "127.1",
		"0", "0.0.0.0", "[::]", "[::1%25lo]", "10.0.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "[fe80::1]", "[fc00::1]",
		"[64:ff9b::7f00:1]",
		"[2002:7f00:1::]", "①②⑦.0.0.1", "user:pass@[::1]", "224.0.0.1", "255.255.255.255"}
	for i, host := range hosts {
		body := map[string]any{"url": "http://" + host + ":" + port + "/", "policy": once, "event_types": []string{"ssrf"}}
		status, answer := a.ask(a.keys[attacker][grapnel.ScopeManage], http.MethodPost, "/v1/endpoints", body)
		switch {
		case status == http.StatusUnprocessableEntity:
			refused++
		case status == http.StatusCreated:
			sent++
		default:
			t.Errorf("%d %s: answered %d %s", i, host, status, answer)
		}
	}
	for _, path := range []string{"/?a b HTTP/1.1", "/?ü", "/?a\tb", "/?a=b HTTP/1.1&X-Injected: 1"} {
		body := map[string]any{"url": "http://" + d.addr + path, "policy": once, "event_types": []string{"ssrf"}}
		switch status, answer := a.ask(a.keys[attacker][grapnel.ScopeManage], http.MethodPost, "/v1/endpoints", body); status {
		case http.StatusCreated:
			sent++
		case http.StatusUnprocessableEntity:
		default:
			t.Errorf("%s: answered %d %s", path, status, answer)
		}
	}
	for _, value := range []map[string]string{
		{"X-A": "a\r\nX-Injected: 1"}, {"X-A\r\nX-Injected": "1"}, {"X-A: 1\nX-Injected": "1"}, {"Webhook-Signature": "v1,x"}, {"Host": "x"},
		{"Content-Length": "0"},
	} {
		a.by(attacker, grapnel.ScopeManage, http.StatusUnprocessableEntity, http.MethodPost, "/v1/endpoints",
			map[string]any{"url": "http://" + d.addr + "/", "headers": value}, nil)
	}
	a.endpointOf(attacker, "http://"+d.addr+"/redirect", map[string]any{"policy": once, "event_types": []string{"ssrf"}})
	a.by(attacker, grapnel.ScopePublish, http.StatusAccepted, http.MethodPost, "/v1/events",
		newEvent{ID: "ssrf", Type: "ssrf", Data: json.RawMessage(`{}`)}.encode(), nil)
	var all []row
	eventually(t, 30*time.Second, "every delivery is finished", func() bool {
		all = slices.DeleteFunc(a.rows(url.Values{}), func(r row) bool { return r.Status != grapnel.Failed })
		return len(all) == sent
	})
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections reached an address that is not allowed", n)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(lines) < 2 {
		t.Errorf("the receiver got %q", lines)
	}
	for _, line := range lines {
		if strings.ContainsAny(line, " \t") || strings.ContainsFunc(line, func(r rune) bool { return r > 126 }) {
			t.Errorf("a request line had %q", line)
		}
	}
	t.Logf("%d of %d hosts were refused when saved, the others when sent; request lines %q", refused, len(hosts), lines)
}

// endless are answers that do not end, or whose end a client may misread.
var endless = map[string]struct {
	head string
	more string // sent again and again
}{
	"header":       {"HTTP/1.1 200 OK\r\n", "X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"},
	"line":         {"HTTP/1.1 200 ", strings.Repeat("a", 1024)},
	"body":         {"HTTP/1.1 500 No\r\nContent-Length: 9000000000000\r\n\r\n", strings.Repeat("a", 4096)},
	"informative":  {"", "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"},
	"chunks":       {"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", "400\r\n" + strings.Repeat("a", 1024) + "\r\n"},
	"extension":    {"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n1;", strings.Repeat("a", 1024)},
	"trailers":     {"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X-A: aaaaaaaaaaaaaaaaaaaaaaaaa\r\n"},
	"two lengths":  {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", ""},
	"protocol":     {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "x"},
	"small status": {"HTTP/1.1 099 No\r\n\r\n", ""},
	"next answer":  {"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""},
	"no HTTP":      {"SSH-2.0-OpenSSH_9.2\r\n", "\x00\x00"},
}

// TestAttackByAnswers: receivers answer without end. The server's memory and processor time stay
// small, no such answer counts as a success, and another tenant's events arrive.
func TestAttackByAnswers(t *testing.T) {
	beside(t, light)
	a := newAttacked(t, program{})
	v := a.newVictim("beside")
	var served sync.WaitGroup
	for name, way := range endless {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		served.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				served.Go(func() {
					defer func() { _ = conn.Close() }()
					if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
						return
					}
					_, err := conn.Write([]byte(way.head))
					for err == nil && way.more != "" {
						_, err = conn.Write([]byte(way.more))
					}
				})
			}
		})
		a.endpointOf(attacker, "http://"+listener.Addr().String()+"/"+strings.ReplaceAll(name, " ", "-"),
			map[string]any{"event_types": []string{"hostile"}, "policy": map[string]any{"timeout": "1s", "max_attempts": 2, "breaker": false,
				"schedule": map[string]any{"delays": []string{"0s", "0s"}}}})
	}
	_, before := a.memory()
	cpu := a.cpu()
	for i := range 2 {
		if status, body := a.publishAs(attacker,
			newEvent{ID: fmt.Sprint("hostile-", i), Type: "hostile", Data: json.RawMessage(`{}`)}); status != http.StatusAccepted {
			t.Fatalf("answered %d %s", status, body)
		}
	}
	v.medians(10)
	var all []row
	if !poll(t.Context(), time.Minute, 250*time.Millisecond, func() bool {
		all = slices.DeleteFunc(a.rows(url.Values{"tenant": {attacker}}), func(r row) bool { return r.Attempts < 2 })
		return len(all) == 2*len(endless)
	}) {
		t.Fatalf("after a minute only %d of %d deliveries have had their attempts", len(all), 2*len(endless))
	}
	used := a.cpu() - cpu
	_, after := a.memory()
	delivered := 0
	for _, r := range all {
		if r.Status == grapnel.Delivered {
			delivered++
		}
	}
	t.Logf("%d receivers, 4 attempts each: %v of processor time, peak memory %.0f → %.0f MiB", len(endless), used, before, after)
	if delivered != 0 || used > 3*time.Second || after-before > 64 {
		t.Errorf("%d taken for a success, %v of processor time, %.0f MiB more memory", delivered, used, after-before)
	}
}
