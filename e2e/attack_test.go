//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Tests named TestAttack… are callers that want to do harm: without a key, with one key of each
// scope, or as one tenant against another. Each asserts the figure that the attack must not move:
// the victim's latency (as a ratio to that without the attack), the server's memory, the bytes in
// its data directory, its processor time, or the status that it answers.

// The attacker's tenant and the victim's.
const (
	attacker = "ant"
	victim   = "bee"
)

// signingSecret is the secret of the sources under attack.
const signingSecret = "only-on-loopback"

var allScopes = []grapnel.Scope{grapnel.ScopePublish, grapnel.ScopeRead, grapnel.ScopeManage, grapnel.ScopeReplay, grapnel.ScopeConsume,
	grapnel.ScopeAdmin}

// attacked is a server with one key of each scope for each of the two tenants.
type attacked struct {
	*child
	keys map[string]map[grapnel.Scope]string
	told []string // texts that must not be in the log
}

func newAttacked(t *testing.T, p program) *attacked {
	t.Helper()
	a := startAttacked(t, p)
	a.makeKeys()
	return a
}

// startAttacked starts a server without the keys.
func startAttacked(t *testing.T, p program) *attacked {
	t.Helper()
	p.flag = append([]string{"--log-level", "debug"}, p.flag...)
	c := newChild(t, p, t.TempDir())
	a := &attacked{child: c, keys: map[string]map[grapnel.Scope]string{}, told: []string{adminKey}}
	c.start()
	c.ready(30 * time.Second)
	t.Cleanup(func() {
		text, err := os.ReadFile(c.log.Name())
		if err != nil {
			t.Error(err)
		}
		for _, secret := range a.told {
			if strings.Contains(string(text), secret) {
				t.Errorf("the log contains the secret %.9s…", secret)
			}
		}
	})
	return a
}

func (a *attacked) makeKeys() {
	a.t.Helper()
	for _, tenant := range []string{attacker, victim} {
		a.keys[tenant] = map[grapnel.Scope]string{}
		for _, scope := range allScopes {
			a.keys[tenant][scope], _ = a.key(tenant, scope)
		}
	}
}

// key creates a key.
func (a *attacked) key(tenant string, scopes ...grapnel.Scope) (secret, id string) {
	a.t.Helper()
	var made struct{ ID, Key string }
	a.must(http.StatusCreated, http.MethodPost, "/v1/keys", map[string]any{"name": "e2e", "scopes": scopes, "tenant": tenant}, &made)
	a.told = append(a.told, made.Key)
	return made.Key, made.ID
}

// by sends a request with a tenant's key of one scope, and decodes the answer.
func (a *attacked) by(tenant string, scope grapnel.Scope, want int, method, path string, in, out any) {
	a.t.Helper()
	status, body := a.ask(a.keys[tenant][scope], method, path, in)
	a.check(status, body, nil, want, method, path, out)
}

// ask sends a request with a key. Any answer will do.
func (a *attacked) ask(key, method, path string, in any) (int, []byte) {
	a.t.Helper()
	status, body, _, err := a.as(context.Background(), key, method, path, in)
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, body
}

// endpointOf creates an endpoint of a tenant.
func (a *attacked) endpointOf(tenant, address string, more map[string]any) string {
	a.t.Helper()
	body := map[string]any{"url": address}
	for name, value := range more {
		body[name] = value
	}
	var made struct{ ID, Secret string }
	a.by(tenant, grapnel.ScopeManage, http.StatusCreated, http.MethodPost, "/v1/endpoints", body, &made)
	a.told = append(a.told, made.Secret)
	return made.ID
}

// sourceOf creates a source of a tenant and returns its id and the path of its requests.
func (a *attacked) sourceOf(tenant string, body map[string]any) (id, path string) {
	a.t.Helper()
	var made struct{ ID string }
	a.by(tenant, grapnel.ScopeManage, http.StatusCreated, http.MethodPost, "/v1/sources", body, &made)
	return made.ID, "/in/" + made.ID
}

// in sends a request to a source over a connection of its own, as strangers do.
func (a *attacked) in(path string, body []byte, headers ...string) (int, []byte) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, "http://"+a.addr+path, bytes.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Close = true
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := a.http.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return answer.StatusCode, text
}

// metric reads one of the server's metrics.
func (a *attacked) metric(name string) float64 {
	a.t.Helper()
	status, body, err := a.call(context.Background(), http.MethodGet, "/metrics", nil)
	if err != nil || status != http.StatusOK {
		a.t.Fatalf("the metrics: %d, %v", status, err)
	}
	for line := range strings.Lines(string(body)) {
		if text, is := strings.CutPrefix(line, name+" "); is {
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				a.t.Fatal(err)
			}
			return n
		}
	}
	a.t.Fatalf("there is no metric %s", name)
	return 0
}

// cpu is the processor time that the process has used, in steps of 10 ms.
func (c *child) cpu() time.Duration {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.current().PID))
	if err != nil {
		c.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before may contain spaces
	fields, ticks := strings.Fields(rest), 0
	for _, field := range fields[11:13] { // user and system time
		n, err := strconv.Atoi(field)
		if err != nil {
			c.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// disk is the total size of the files in the data directory.
func (c *child) disk() (bytes int64) {
	c.t.Helper()
	err := filepath.WalkDir(c.dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return bytes
}

// crowdOf opens connections and holds them, as an attacker does. Each comes from an address of
// loopback of the caller's choice.
func (c *child) crowdOf(n int, from func(i int) string, first func(i int) string) (release func()) {
	c.t.Helper()
	conns := make([]net.Conn, n)
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for i := worker; i < n; i += 16 {
				conn, err := c.dial(from(i))
				if err != nil {
					c.t.Errorf("connection %d of %d: %v", i, n, err)
					return
				}
				conns[i] = conn
				// The server may have closed the connection at once, which is allowed.
				_, _ = conn.Write([]byte(first(i)))
			}
		})
	}
	all.Wait()
	release = sync.OnceFunc(func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
	})
	c.t.Cleanup(release)
	return release
}

func (c *child) dial(from string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}).Dial("tcp", c.addr)
}

func oneAddress(int) string      { return "127.0.0.9" }
func manyAddresses(i int) string { return fmt.Sprintf("127.0.9.%d", 1+i%250) }

// healthyVictim is an endpoint of a tenant whose receiver answers at once.
type healthyVictim struct {
	*attacked
	kind    string // of its events
	n       atomic.Int64
	mu      sync.Mutex
	waiting map[string]chan struct{} // by event
}

// victimAt creates the endpoint for a receiver that already listens at the address.
func (a *attacked) victimAt(kind, address string) *healthyVictim {
	a.t.Helper()
	v := &healthyVictim{attacked: a, kind: kind, waiting: map[string]chan struct{}{}}
	a.endpointOf(victim, address, map[string]any{"event_types": []string{kind + ".*"}})
	return v
}

// newVictim creates an endpoint and its receiver.
func (a *attacked) newVictim(kind string) *healthyVictim {
	a.t.Helper()
	var v *healthyVictim
	d := newDoor(a.t, "127.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { v.ServeHTTP(w, r) }))
	v = a.victimAt(kind, "http://"+d.addr+"/")
	v.once() // warms up
	return v
}

func (v *healthyVictim) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	id := r.Header.Get("webhook-id")
	if arrived, is := v.waiting[id]; is {
		close(arrived)
		delete(v.waiting, id)
	}
}

// once publishes an event and returns the times until the answer and until the arrival.
func (v *healthyVictim) once() (answered, arrived time.Duration) {
	v.t.Helper()
	id := fmt.Sprintf("%s-%d", v.kind, v.n.Add(1))
	at := make(chan struct{})
	v.mu.Lock()
	v.waiting[id] = at
	v.mu.Unlock()
	began := time.Now()
	eventually(v.t, 20*time.Second, "an event is accepted", func() bool {
		status, body := v.publishAs(victim, newEvent{ID: id, Type: v.kind + ".made", Data: json.RawMessage(`{}`)})
		if status != http.StatusAccepted && !machineIsBusy(body) {
			v.t.Fatalf("event %s was answered %d %s", id, status, body)
		}
		return status == http.StatusAccepted
	})
	answered = time.Since(began)
	select {
	case <-at:
	case <-time.After(20 * time.Second):
		v.t.Fatalf("event %s has not arrived", id)
	}
	return answered, time.Since(began)
}

// machineIsBusy says whether a request was refused because commits take half a second, which is so
// for all tenants, with and without an attack.
func machineIsBusy(answer []byte) bool { return bytes.Contains(answer, []byte("commits are slow")) }

// medians publishes one event after another and returns the medians of both times.
func (v *healthyVictim) medians(events int) (answered, arrived time.Duration) {
	v.t.Helper()
	var a, z []time.Duration
	for range events {
		answer, arrival := v.once()
		a, z = append(a, answer), append(z, arrival)
	}
	return median(a), median(z)
}

// publishAs publishes an event with a tenant's key.
func (a *attacked) publishAs(tenant string, e newEvent) (int, []byte) {
	a.t.Helper()
	return a.ask(a.keys[tenant][grapnel.ScopePublish], http.MethodPost, "/v1/events", e.encode())
}
