package api

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/tell/lastuse"
)

// TestKeysEnd: a key ends a year after its creation unless the request says otherwise. From then on
// its holder reads that and when, the portal links that it made are closed, and others learn
// nothing.
func TestKeysEnd(t *testing.T) {
	w := newWorld(t)
	for given, want := range map[string]string{
		``: "2027-01-02T03:04:05Z", `,"expires_at":null`: "2027-01-02T03:04:05Z", `,"expires_at":"never"`: "",
		`,"expires_at":"90d"`: "2026-04-02T03:04:05Z", `,"expires_at":"2026-02-01"`: "2026-02-01T00:00:00Z",
		`,"expires_at":"2026-02-01T12:00:00+02:00"`: "2026-02-01T10:00:00Z",
	} {
		k := w.must(201, "POST", "/v1/keys", `{"name":"a","scopes":["read"]`+given+`}`)
		at, _ := k["expires_at"].(string)
		if ends, err := time.Parse(time.RFC3339, at); at != "" && (err != nil || ends.UTC().Format(time.RFC3339) != want) || at == "" && want != "" {
			t.Errorf("%q ends at %q, want %q", given, at, want)
		}
	}
	if _, has := w.must(200, "GET", "/v1/keys/key_admin", "")["expires_at"]; has {
		t.Error("the admin key ends")
	}
	k := w.as(acmeAdmin, 201, "POST", "/v1/keys", `{"name":"a","scopes":["manage","read"],"expires_at":"1h"}`)
	text, id := k["key"].(string), k["id"].(string)
	url := w.as(text, 201, "POST", "/v1/tenants/acme/portal-links", `{"scopes":["read"],"expires_in":"12h","session":"12h"}`)["url"].(string)
	_, code, _ := strings.Cut(url, "#")
	session := w.as(code, 201, "POST", "/v1/portal-sessions", "")["pass"].(string)
	w.as(session, 200, "GET", "/v1/endpoints", "")
	w.clock = w.clock.Add(time.Hour)
	r := w.ask(text, "GET", "/v1/endpoints", "")
	if r.StatusCode != 401 || !strings.Contains(string(r.body), "ended at 2026-01-02T04:04:05Z") {
		t.Errorf("an ended key is answered %d %s", r.StatusCode, r.body)
	}
	w.as(session, 401, "GET", "/v1/endpoints", "")
	if r := w.ask(text+"x", "GET", "/v1/endpoints", ""); strings.Contains(string(r.body), "ended") {
		t.Errorf("an unknown key is answered %s", r.body)
	}
	w.as(acmeAdmin, 422, "PATCH", "/v1/keys/"+id, `{"expires_at":"2026-01-01"}`)
	w.as(acmeAdmin, 200, "PATCH", "/v1/keys/"+id, `{"name":"b"}`) // an ended key may be renamed
	w.as(acmeAdmin, 200, "PATCH", "/v1/keys/"+id, `{"expires_at":"1d"}`)
	w.as(text, 200, "GET", "/v1/endpoints", "")
	w.as(session, 200, "GET", "/v1/endpoints", "")
}

// TestKeysAreBoundToAddresses: a key with ranges is refused from other addresses, and the answer
// names the field. Only a trusted proxy is believed about its caller.
func TestKeysAreBoundToAddresses(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Proxies = func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")} }
	})
	k := w.must(201, "POST", "/v1/keys", `{"name":"a","scopes":["read"],"from":["192.0.2.0/24","2001:db8::7"]}`)["key"].(string)
	for _, test := range []struct {
		remote, forwarded string
		status            int
	}{
		{"192.0.2.9:1", "", 200},
		{"[::ffff:192.0.2.9]:1", "", 200},
		{"[2001:db8::7]:1", "", 200},
		{"[2001:db8::8]:1", "", 403},
		{"203.0.113.1:1", "", 403},
		{"203.0.113.1:1", "192.0.2.9", 403},
		{"10.0.0.1:1", "", 403},
		{"10.0.0.1:1", "192.0.2.9", 200},
		{"10.0.0.1:1", "192.0.2.9, 203.0.113.1", 403},
		{"10.0.0.1:1", "203.0.113.1, 192.0.2.9, 10.0.0.2", 200},
		{"10.0.0.1:1", "192.0.2.9, nonsense", 403},
		{"nowhere", "", 403},
	} {
		r := httptest.NewRequest("GET", "/v1/endpoints", nil)
		r.RemoteAddr = test.remote
		r.Header.Set("Authorization", "Bearer "+k)
		if test.forwarded != "" {
			r.Header.Set("X-Forwarded-For", test.forwarded)
		}
		got := w.send(r)
		if got.StatusCode != test.status || test.status == 403 && !strings.Contains(string(got.body), `"pointer":"/from"`) {
			t.Errorf("%+v: answered %d %s", test, got.StatusCode, got.body)
		}
	}
}

// TestKeysShowTheirLastUse, which a refused request is not.
func TestKeysShowTheirLastUse(t *testing.T) {
	used := lastuse.New(lastuse.Options{Store: memory.New(), Exists: func(string) bool { return true }})
	w := newWorld(t, func(o *Options) { o.Used = used })
	made := w.must(201, "POST", "/v1/keys", `{"name":"a","scopes":["read"],"from":["198.51.100.1"]}`)
	k, at := made["key"].(string), "/v1/keys/"+made["id"].(string)
	w.as(k, 403, "GET", "/v1/endpoints", "")
	if is := w.must(200, "GET", at, ""); is["last_used_at"] != nil {
		t.Errorf("a refused request is a use: %v", is)
	}
	w.from("198.51.100.1:5", k, "GET", "/v1/endpoints")
	if is := w.must(200, "GET", at, ""); is["last_used_at"] != "2026-01-02T03:04:05.000000Z" {
		t.Errorf("it shows %v", is)
	}
}
