package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
)

// from asks with a key from an address.
func (w *world) from(addr, key, method, target string) reply {
	w.t.Helper()
	r := httptest.NewRequest(method, target, http.NoBody)
	r.RemoteAddr = addr
	r.Header.Set("Authorization", "Bearer "+key)
	return w.send(r)
}

// Requests whose keys are refused are counted, and logged by address: at once, and then together.
// However many addresses they come from, few are remembered.
func TestRefusedKeysAreCounted(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.Strangers = 10; o.Gate = NewGate(o.Bounds) })
	for range 5 {
		w.from("192.0.2.1:1000", "grp_wrong", "GET", "/v1/endpoints")
	}
	w.from("[2001:db8::1]:1", scoped(grapnel.ScopePublish), "GET", "/v1/keys")
	w.from("[2001:db8::2]:1", "", "GET", "/v1/keys")
	w.clock = w.clock.Add(w.options.Bounds.StrangerLog)
	w.from("192.0.2.1:1001", "grp_wrong", "GET", "/v1/endpoints")
	if is := w.options.Gate.Stats(); is.Unauthenticated != 7 || is.Forbidden != 1 {
		t.Errorf("counted were %+v", is)
	}
	var lines []string
	for line := range strings.Lines(w.logged.String()) {
		if _, rest, found := strings.Cut(line, "API keys refused\" "); found {
			lines = append(lines, strings.Join(strings.Fields(rest)[:2], " "))
		}
	}
	if want := []string{"address=192.0.2.1 requests=1", "address=2001:db8:: requests=1",
		"address=192.0.2.1 requests=5"}; !slices.Equal(lines, want) {
		t.Errorf("logged were %q", lines)
	}
	for i := range 1000 {
		w.from(fmt.Sprintf("198.51.%d.%d:1", i/250, i%250), "grp_wrong", "GET", "/v1/endpoints")
	}
	if n := len(w.options.Gate.strangers.from); n > 11 || w.options.Gate.Stats().Unauthenticated != 1007 {
		t.Errorf("%d addresses are remembered", n)
	}
	w.must(200, "GET", "/v1/endpoints", "")
}

// Who makes, changes and revokes keys and policies is on record, with what the key may do.
func TestKeysAndPoliciesAreOnRecord(t *testing.T) {
	w := newWorld(t)
	key := w.must(201, "POST", "/v1/keys", `{"name":"ci","scopes":["publish","read"],"tenant":"acme"}`, "Idempotency-Key", "k")["id"].(string)
	w.must(201, "POST", "/v1/keys", `{"name":"ci","scopes":["publish","read"],"tenant":"acme"}`, "Idempotency-Key", "k")
	w.as(acmeAdmin, 200, "PATCH", "/v1/keys/"+key, `{"scopes":["admin"]}`)
	w.must(409, "DELETE", "/v1/keys/key_admin", "") // itself
	w.must(204, "DELETE", "/v1/keys/"+key, "")
	pol := w.must(201, "POST", "/v1/policies", `{"name":"p","max_attempts":2}`)["id"].(string)
	w.must(200, "PATCH", "/v1/policies/"+pol, `{"max_attempts":3}`)
	w.must(204, "DELETE", "/v1/policies/"+pol, "")
	var got []string
	for _, e := range w.must(200, "GET", "/v1/audit", "")["data"].([]any) {
		m := e.(map[string]any)
		got = append(got, fmt.Sprint(m["actor"], " ", m["verb"], " ", m["endpoint_id"], " ", m["tenant"], " ", m["reason"]))
	}
	slices.Reverse(got)
	for _, e := range w.as(scoped(grapnel.ScopeRead), 200, "GET", "/v1/audit?endpoint="+key, "")["data"].([]any) {
		if reason := e.(map[string]any)["reason"]; reason != nil {
			t.Errorf("who may not see keys is shown %v", reason)
		}
	}
	want := []string{"key_admin create " + key + " acme ci: publish, read", "key_acme change " + key + " acme ci: admin",
		"key_admin delete " + key + " acme ci: admin",
		"key_admin create " + pol + " default p", "key_admin change " + pol + " default p", "key_admin delete " + pol + " default p"}
	if !slices.Equal(got, want) {
		t.Errorf("the audit has %q", got)
	}
}

// After a burst of wrong keys from one address each answer waits, and beyond some that wait the
// next are refused without a look. Keys that were valid there before, and all keys from elsewhere,
// are answered at once.
func TestWrongKeysAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) {
			o.Bounds.Wrong, o.Bounds.WrongLate, o.Clock = 5, 3, time.Now
			o.Gate = NewGate(o.Bounds)
		})
		const here, there = "192.0.2.1:1", "192.0.2.2:1"
		ask := func(from, key string) (status int, took time.Duration) {
			began := time.Now()
			status = w.from(from, key, "GET", "/v1/endpoints").StatusCode
			return status, time.Since(began)
		}
		check := func(from, key string, want int, wait time.Duration) {
			t.Helper()
			if status, took := ask(from, key); status != want || took != wait {
				t.Errorf("%q from %s was answered %d after %s, want %d after %s", key, from, status, took, want, wait)
			}
		}
		check(here, admin, 200, 0)
		for range 5 {
			check(here, "grp_wrong", 401, 0)
		}
		check(here, "", 401, 0) // is no key
		delay := w.options.Bounds.WrongDelay
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() { check(here, "grp_wrong", 401, delay) })
		}
		synctest.Wait()
		reader := scoped(grapnel.ScopeRead)
		check(here, "grp_wrong", 429, 0)
		check(here, reader, 429, 0) // it could be a guess
		check(here, admin, 200, 0)
		check(there, reader, 200, 0)
		waiting.Wait()
		check(here, reader, 200, 0)
		check(here, "grp_wrong", 401, delay)
		time.Sleep(10 * delay) //nolint:forbidigo // the bubble's time
		check(here, "grp_wrong", 401, 0)
		if is := w.options.Gate.Stats(); is.Slowed != 2 || is.Unauthenticated != 11 {
			t.Errorf("counted were %+v", is)
		}
	})
}

// A caller that hangs up during a delay tries no more keys than one that waits for the answers.
func TestHangingUpEndsNoDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) {
			o.Bounds.Wrong, o.Bounds.WrongLate, o.Clock = 1, 3, time.Now
			o.Gate = NewGate(o.Bounds)
		})
		var all sync.WaitGroup
		defer all.Wait()
		for range 100 {
			ctx, hangUp := context.WithCancel(t.Context())
			r := httptest.NewRequest("GET", "/v1/endpoints", http.NoBody).WithContext(ctx)
			r.Header.Set("Authorization", "Bearer grp_wrong")
			all.Go(func() { w.send(r) })
			synctest.Wait()
			hangUp()
			synctest.Wait()
		}
		if is := w.options.Gate.Stats(); is.Unauthenticated != 4 || is.Slowed != 96 {
			t.Errorf("%d keys were looked up at once, %d were not", is.Unauthenticated, is.Slowed)
		}
	})
}

// A delay ends in the entry where it began, whatever the table of addresses holds by then. So
// addresses that share an entry are not refused for delays that ended long ago.
func TestEndedDelaysDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) {
			o.Bounds.Strangers, o.Bounds.Wrong, o.Bounds.WrongLate, o.Clock = 3, 1, 1, time.Now
			o.Gate = NewGate(o.Bounds)
		})
		wrong := func(host int) { w.from(fmt.Sprintf("192.0.2.%d:1", host), "grp_wrong", "GET", "/v1/endpoints") }
		for host := range 4 {
			wrong(host) // the last one shares its entry with all that follow
		}
		time.Sleep(w.options.Bounds.StrangerLog - w.options.Bounds.WrongDelay/2) //nolint:forbidigo // the bubble's time
		wrong(4)
		late := make(chan struct{})
		go func() { wrong(5); close(late) }()
		time.Sleep(w.options.Bounds.WrongDelay / 2) //nolint:forbidigo // the bubble's time
		wrong(6)                                    // it has the first three addresses forgotten
		<-late
		for host := range 3 {
			wrong(10 + host) // and the table is full again
		}
		if got := w.from("192.0.2.100:1", admin, "GET", "/v1/endpoints"); got.StatusCode != http.StatusOK {
			t.Errorf("a valid key is answered %d %s", got.StatusCode, got.body)
		}
	})
}
