package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestContexts: login tries a key and keeps it for its user alone; a flag beats a variable, which
// beats the context; the key goes to the context's server alone, and is never printed.
func TestContexts(t *testing.T) {
	t.Chdir(t.TempDir())
	home := t.TempDir()
	answer := func(r *http.Request) (int, string) {
		switch r.Header.Get("Authorization") {
		case "Bearer grp_prod", "Bearer grp_test", "Bearer grp_env", "Bearer grp_flag":
			return 200, `{"id":"key_1","name":"ops","scopes":["read"],"data":[]}`
		}
		return 401, `{"code":"unauthenticated","detail":"unknown key"}`
	}
	prod, test := newFake(t, answer), newFake(t, answer)
	env := func(more ...string) map[string]string {
		all := map[string]string{"HOME": home}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	call := func(code int, env map[string]string, stdin string, args ...string) result {
		t.Helper()
		got := invoke(t, env, stdin, args...)
		if got.code != code {
			t.Fatalf("%v: %+v", args, got)
		}
		if said := got.out + got.errs; strings.Contains(said, "grp_") {
			t.Errorf("%v prints a key: %s", args, said)
		}
		return got
	}
	path := filepath.Join(home, ".config", "grapnel", "contexts.json")
	call(4, env(), "grp_wrong\n", "login", "--server", prod.URL, "--name", "prod")
	if _, err := os.Stat(path); err == nil {
		t.Error("a key that is refused was kept")
	}
	call(2, env(), "", "login", "--server", prod.URL)
	call(0, env(), "grp_prod\n", "login", "--server", prod.URL, "--name", "prod")
	call(0, env("GRAPNEL_KEY", "grp_test"), "", "login", "--server", test.URL, "--name", "test")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if got := call(0, env(), "", "context", "list"); got.out != "CONTEXT  CURRENT  SERVER\nprod     no       "+prod.URL+"\ntest     yes      "+test.URL+"\n" {
		t.Errorf("%s", got.out)
	}
	call(0, env(), "", "context", "use", "prod")
	for _, c := range []struct {
		env  map[string]string
		args string
		at   *fake
		key  string
	}{
		{env(), "keys list", prod, "grp_prod"},
		{env("GRAPNEL_CONTEXT", "test"), "keys list", test, "grp_test"},
		{env("GRAPNEL_CONTEXT", "prod"), "keys list --context test", test, "grp_test"},
		{env("GRAPNEL_KEY", "grp_env"), "keys list", prod, "grp_env"},
		{env("GRAPNEL_KEY", "grp_env"), "keys list --key grp_flag", prod, "grp_flag"},
		{env("GRAPNEL_SERVER", test.URL, "GRAPNEL_KEY", "grp_env"), "keys list", test, "grp_env"},
		{env("GRAPNEL_SERVER", prod.URL), "keys list", prod, "grp_prod"},
	} {
		c.at.seen = nil
		call(0, c.env, "", strings.Fields(c.args)...)
		if len(c.at.seen) != 1 || c.at.seen[0].Key != c.key {
			t.Errorf("%s: %v, want the key %s", c.args, c.at.seen, c.key)
		}
	}
	call(4, env("GRAPNEL_SERVER", test.URL), "", "keys", "list") // prod's key is not for test
	if got := test.seen[len(test.seen)-1].Key; got != "" {
		t.Errorf("the key %q went to another server", got)
	}
	if got := call(2, env(), "", "keys", "list", "--context", "prodd"); !strings.Contains(got.errs, "Did you mean prod?") {
		t.Errorf("%s", got.errs)
	}
	shown := call(0, env("GRAPNEL_TIMEOUT", "5s"), "", "config", "show", "--jq", `.client[] | "\(.name) \(.value) \(.origin)"`)
	for _, want := range []string{"server " + prod.URL + " context prod\n", "key (hidden) context prod\n", "timeout 5s GRAPNEL_TIMEOUT\n", "output table default\n"} {
		if !strings.Contains(shown.out, want) {
			t.Errorf("config show lacks %q: %s", want, shown.out)
		}
	}
	if got := call(0, env("GRAPNEL_SERVER", test.URL), "", "config", "show"); !strings.Contains(got.out, test.URL) || !strings.Contains(got.out, "GRAPNEL_SERVER") {
		t.Errorf("%s", got.out)
	}
	call(0, env(), "", "context", "remove", "prod")
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "grp_prod") {
		t.Errorf("%s %v", text, err)
	}
	call(2, env(), "", "context", "use", "prod")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := call(2, env(), "", "keys", "list"); !strings.Contains(got.errs, "chmod 600") {
		t.Errorf("%s", got.errs)
	}
}

// TestOpenPrintsThePage: of an id without a request, of a name by one.
func TestOpenPrintsThePage(t *testing.T) {
	f := naming(t, map[string]string{"/v1/sources stripe-live": `{"id":"src_1","name":"stripe-live"}`})
	at := map[string]string{"": "/", "ep_1": "/endpoints/ep_1", "dlv_1": "/deliveries/dlv_1", "evt_1": "/events/evt_1", "stripe-live": "/sources/src_1",
		"que_1": "/queues/que_1", "pol_1": "/policies/pol_1", "rpl_1": "/replays/rpl_1", "iss_1": "/issues/iss_1", "alr_1": "/alerts/alr_1", "req_1": "/inbox/req_1",
		"typ_1": "/event-types/typ_1", "chn_1": "/channels/chn_1/edit", "key_1": "/keys"}
	for word, want := range at {
		if got := invoke(t, f.env(), "", append([]string{"open"}, strings.Fields(word)...)...); got.code != 0 || got.out != f.URL+want+"\n" {
			t.Errorf("open %s: %+v", word, got)
		}
	}
	if len(f.seen) != 2 { // endpoints, then sources
		t.Errorf("asked %v", f.seen)
	}
	if got := invoke(t, f.env(), "", "open", "lse_1"); got.code != 2 {
		t.Errorf("%+v", got)
	}
}

// TestResend: each endpoint gets the event again, by the newest of its deliveries.
func TestResend(t *testing.T) {
	f := newFake(t, func(r *http.Request) (int, string) {
		if r.Method == http.MethodPost {
			return 200, `{"id":"dlv_9","status":"pending"}`
		}
		return 200, `{"id":"evt_1","type":"a.b","deliveries":[{"id":"dlv_1","endpoint_id":"ep_1"},{"id":"dlv_3","endpoint_id":"ep_1"},` +
			`{"id":"dlv_2","endpoint_id":"ep_2"},{"id":"dlv_4","endpoint_id":"ep_3","reason_code":"test"}]}`
	})
	posted := func() (all []string) {
		for _, r := range f.seen {
			if r.Method == http.MethodPost {
				all = append(all, r.Target)
			}
		}
		f.seen = nil
		return all
	}
	if got := invoke(t, f.env(), "", "events", "resend", "evt_1"); got.code != 2 || !strings.Contains(got.errs, "again to 2 endpoints") || posted() != nil {
		t.Errorf("it resent without a question: %+v", got)
	}
	if got := invoke(t, f.env(), "", "events", "resend", "evt_1", "--yes", "-o", "name"); got.code != 0 || got.out != "dlv_9\ndlv_9\n" {
		t.Errorf("%+v", got)
	}
	if got := strings.Join(posted(), " "); got != "/v1/deliveries/dlv_2/retry /v1/deliveries/dlv_3/retry" {
		t.Errorf("sent again: %s", got)
	}
	if got := invoke(t, f.env(), "", "events", "resend", "evt_1", "--endpoint", "ep_2"); got.code != 0 || strings.Join(posted(), " ") != "/v1/deliveries/dlv_2/retry" {
		t.Errorf("%+v", got)
	}
	if got := invoke(t, f.env(), "", "events", "resend", "evt_1", "--endpoint", "ep_9"); got.code != 3 || !strings.Contains(got.errs, "--dry-run") {
		t.Errorf("%+v", got)
	}
}
