package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

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

// Requests whose keys are refused are counted, and logged by address: at once, and then together. However many addresses they come from,
// few are remembered.
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
	if want := []string{"address=192.0.2.1 requests=1", "address=2001:db8:: requests=1", "address=192.0.2.1 requests=5"}; !slices.Equal(lines, want) {
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
	want := []string{"key_admin create " + key + " acme ci: publish, read", "key_acme change " + key + " acme ci: admin", "key_admin delete " + key + " acme ci: admin",
		"key_admin create " + pol + " default p", "key_admin change " + pol + " default p", "key_admin delete " + pol + " default p"}
	if !slices.Equal(got, want) {
		t.Errorf("the audit has %q", got)
	}
}
