package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// How an endpoint is doing is a sentence before anything else.
func TestEndpointAsAPersonWantsIt(t *testing.T) {
	show := func(health string) (first string, rest string) {
		t.Helper()
		f := newFake(t, always(200, `{"id":"ep_1","status":"enabled","url":"https://x.test/h","policy":"standard","health":{`+health+`}}`))
		got := invoke(t, f.env(), "", "endpoints", "show", "ep_1")
		if got.code != 0 {
			t.Fatalf("%+v", got)
		}
		first, rest, _ = strings.Cut(got.out, "\n")
		return first, rest
	}
	for _, tc := range []struct {
		health, first string
		rest          []string
	}{
		{`"state":"healthy","held":0`, "healthy", nil},
		{`"state":"unknown"`, "unknown: the server is starting or stopping", nil},
		{`"state":"open","since":"2026-01-02T02:56:00.000000Z","reason":"the endpoint has failed since 02:56 (connection refused); only probes are sent","held":412,` +
			`"next_probe_at":"2026-01-02T03:04:30.000000Z","drain_estimate":"20.6s","strikes":3,"in_flight":1`,
			"open since 2026-01-02T02:56:00.000000Z: the endpoint has failed since 02:56 (connection refused); only probes are sent",
			[]string{"held         412 deliveries, delivered in about 20.6s once it works\n", "next probe   2026-01-02T03:04:30.000000Z\n", "strikes      3\n", "in flight    1\n"}},
		{`"state":"paused","reason":"\u001b[31mred\n","held":1000000,"held_more":true,"drain_estimate":"1h0m0s"`, "paused:  [31mred",
			[]string{"held         1000000+ deliveries, delivered in at least 1h once it works\n"}},
		{`"state":"disabled","held":2`, "disabled", []string{"held         2\n"}},
	} {
		first, rest := show(tc.health)
		if strings.TrimRight(first, " ") != tc.first {
			t.Errorf("the first line is %q, want %q", first, tc.first)
		}
		for _, want := range tc.rest {
			if !strings.Contains(rest, want) {
				t.Errorf("%q is missing in\n%s", want, rest)
			}
		}
	}
}

func TestTablesOfLevers(t *testing.T) {
	for _, tc := range []struct{ args, answer, table, names string }{
		{"endpoints lanes ep_1", `{"data":[{"key":"inv_1","since":"2026-01-02T03:00:00.000000Z","waiting":10000,"waiting_more":true,` +
			`"head":{"id":"dlv_1","status":"pending","attempts_made":2,"next_attempt_at":null,"reason":"pending: why"}}],"next":null}`,
			"DELIVERY  KEY    STATUS   TRIES  BEHIND  SINCE                        NEXT  WHY\n" +
				"dlv_1     inv_1  pending  2      10000+  2026-01-02T03:00:00.000000Z        pending: why\n", "dlv_1\n"},
		{"audit", `{"data":[{"number":7,"at":"2026-01-02T03:00:00.000000Z","tenant":"t","actor":"key_1","verb":"pause","endpoint_id":"ep_1","delivery_id":null,"reason":"they deploy"}],"next":null}`,
			"N  WHEN                         WHO    WHAT   ENDPOINT  DELIVERY  WHY\n" +
				"7  2026-01-02T03:00:00.000000Z  key_1  pause  ep_1                they deploy\n", "7\n"},
		{"endpoints list", `{"data":[{"id":"ep_1","status":"enabled","url":"u","policy":"standard","tenant":"t","health":{"state":"open","held":10000,"held_more":true}}],"next":null}`,
			"NAME  ENDPOINT  STATUS   HEALTH  HELD    URL  TYPES  POLICY    TENANT\n" +
				"u     ep_1      enabled  open    10000+  u    *      standard  t\n", "ep_1\n"},
	} {
		for form, want := range map[string]string{"table": tc.table, "name": tc.names} {
			f := newFake(t, always(200, tc.answer))
			if got := invoke(t, f.env(), "", append(strings.Fields(tc.args), "-o", form)...); got.out != want {
				t.Errorf("%s -o %s:\n%s\nwant:\n%s", tc.args, form, got.out, want)
			}
		}
	}
}

// An endpoint that is away is left alone, a person sees why and how much waits, has it probed when
// it is back, and all of it is on record.
func TestLeversAgainstTheServer(t *testing.T) {
	_, env := serve(t)
	call := func(args ...string) string {
		t.Helper()
		got := invoke(t, env, "", args...)
		if got.code != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
		return strings.TrimSpace(got.out)
	}
	// An address from which no connection is made, so that the port stays free while the receiver is
	// away.
	listener, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	endpoint := call("endpoints", "create", "http://"+address+"/", "--policy", `{"breaker":{"probe":"1h","probe_max":"2h"}}`, "-o", "name")
	if got := invoke(t, env, "", "endpoints", "probe", endpoint); got.code != 5 {
		t.Errorf("probing what works: %+v", got)
	}
	const events = 8
	for range events {
		call("send", "a.b", "--key", "k1")
		call("send", "a.b")
	}
	poll(t, "the breaker opens", func() bool { return call("endpoints", "get", endpoint, "--jq", ".health.state") == "open" })
	if first, _, _ := strings.Cut(call("endpoints", "get", endpoint), "\n"); !strings.HasPrefix(first, "open since ") || !strings.Contains(first, "connect") {
		t.Errorf("the first line is %q", first)
	}
	if got := call("endpoints", "list", "--jq", ".data[0].health.held"); got != "16" {
		t.Errorf("%s deliveries are held, want %d", got, 2*events)
	}
	poll(t, "all is held", func() bool {
		return call("deliveries", "list", "--status", "pending", "-o", "name") == "" && strings.Count(call("deliveries", "list", "--status", "held", "-o", "name"), "\n") == 2*events-1
	})
	if lanes := call("endpoints", "lanes", endpoint, "--jq", `.data[] | .key, .waiting, .head.status`); lanes != "k1\n7\nheld" {
		t.Errorf("stuck are %q", lanes)
	}
	lane := call("endpoints", "lanes", endpoint, "-o", "name")
	call("deliveries", "skip", lane, "--reason", "known bad")

	arrived := make(chan string, 4*events)
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	receiver := &httptest.Server{Listener: listener, Config: &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header.Get("Grapnel-Trigger") })}}
	receiver.Start()
	defer receiver.Close()
	call("endpoints", "probe", endpoint, "--reason", "they say it is back")
	for n := range 2*events - 1 {
		if trigger := <-arrived; (trigger == "probe") != (n == 0) {
			t.Errorf("arrival %d was triggered by %s", n, trigger)
		}
	}
	poll(t, "nothing is held any more", func() bool {
		return call("endpoints", "get", endpoint, "--jq", `.health | .state != "open" and .held == 0`) == "true"
	})
	call("endpoints", "pause", endpoint, "--reason", "enough")
	if got := call("endpoints", "resume", endpoint, "--jq", ".status"); got != "enabled" {
		t.Errorf("after resuming it is %s", got)
	}
	said := call("audit", "--endpoint", endpoint, "--jq", `.data[] | .actor + " " + .verb + " " + (.reason // "")`)
	if d := cmp.Diff("key_admin resume \nkey_admin pause enough\nkey_admin probe they say it is back\nkey_admin skip known bad\nkey_admin create", said); d != "" {
		t.Errorf("the audit: %s", d)
	}
}
