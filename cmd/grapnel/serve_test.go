package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/sign"
)

// process is a call of the program that goes on until it is stopped.
type process struct {
	url  string
	errs *locked
	stop func() result
}

// launch runs a server command and waits for the line that says where it is.
func launch(t *testing.T, env map[string]string, args ...string) process {
	t.Helper()
	return launchWith(t, strings.NewReader(""), env, args...)
}

// launchWith is launch with standard input.
func launchWith(t *testing.T, typed io.Reader, env map[string]string, args ...string) process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	var errs locked
	code := make(chan int, 1)
	env = maps.Clone(env) // the caller may change its own for the next program
	go func() {
		code <- runProgram(ctx, &cli.World{
			Program: "grapnel", Args: args, Stdin: typed, Stdout: writer, Stderr: &errs, Now: time.Now,
			Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		})
		_ = writer.Close()
	}()
	lines := bufio.NewReader(reader)
	line, err := lines.ReadString('\n')
	if err != nil {
		cancel()
		t.Fatalf("no line on stdout; it exited %d: %s", <-code, errs.String())
	}
	_, url, _ := strings.Cut(strings.TrimSpace(line), "http://")
	p := process{url: "http://" + url, errs: &errs}
	var once sync.Once
	var got result
	p.stop = func() result {
		once.Do(func() {
			cancel()
			rest, _ := io.ReadAll(lines)
			got = result{<-code, line + string(rest), errs.String()}
		})
		return got
	}
	t.Cleanup(func() { p.stop() })
	return p
}

// locked is a buffer that several goroutines may write to.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const adminKey = "grp_a-key-for-tests-only"

// serve starts a server with an admin key, and returns the environment in which commands find it.
func serve(t *testing.T) (process, map[string]string) {
	t.Helper()
	p := launch(t, map[string]string{"GRAPNEL_ADMIN_KEY": adminKey, "GRAPNEL_EGRESS_ALLOW": "127.0.0.0/8"},
		"serve", "--listen", "127.0.0.1:0", "--store", "sqlite:"+filepath.Join(t.TempDir(), "grapnel.db"))
	return p, map[string]string{"GRAPNEL_SERVER": p.url, "GRAPNEL_KEY": adminKey}
}

// poll waits until a condition holds. Its limit only ends a test that hangs: the demo alone plays
// for ten seconds, and on a busy machine for longer.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

func TestServeSaysWhereItIsAndDrains(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	p := launch(t, nil, "serve", "--listen", "127.0.0.1:0")
	if got := invoke(t, map[string]string{"GRAPNEL_SERVER": p.url}, "", "keys", "list", "-o", "name"); got.code != 0 || got.out != "key_admin\n" {
		t.Errorf("a command beside the server should find its key: %+v", got)
	}
	got := p.stop()
	if got.code != 0 || got.out != "Grapnel accepts requests at "+p.url+"\n" {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.errs, "export GRAPNEL_KEY_FILE="+filepath.Join(dir, "grapnel-data", "admin.key")) {
		t.Errorf("stderr does not say where the key is: %s", got.errs)
	}
	key, err := os.ReadFile(cli.KeyFile)
	if err != nil || strings.Contains(got.errs+got.out, strings.TrimSpace(string(key))) {
		t.Errorf("the key itself is printed, or absent: %v", err)
	}
}

// Wrong settings of a server are refused before anything is created.
func TestServeRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("lisen: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		env  map[string]string
		want string
		code int
	}{
		{"serve --store postgres://u:hunter2@h:port/d", nil, "PostgreSQL", 2},
		{"serve --store-password-file p", nil, "only a PostgreSQL database", 2},
		{"serve --store postgres://h/d --store-password-file p --store-password-command c", nil, "give one of the two", 2},
		{"serve --store nonsense", nil, "--store takes", 2},
		{"serve", map[string]string{"GRAPNEL_STORE": "mysql:x"}, "--store takes", 2},
		{"serve", map[string]string{"GRAPNEL_ADMIN_KEY": "short"}, "at least 16", 2},
		{"serve", map[string]string{"GRAPNEL_DRAIN_TIMEOUT": "soon"}, "GRAPNEL_DRAIN_TIMEOUT", 2},
		{"serve --config " + bad, nil, `Did you mean "listen"?`, 2},
		{"serve --drain-timeout 0s", nil, "must be greater than 0", 2},
		{"serve --max-in-flight 0", nil, "at least 1", 2},
		{"serve --max-per-host -1", nil, "must not be negative", 2},
		{"serve --egress-proxy socks5://u:hunter2@proxy.example:1080", nil, "must start with http", 2},
		{"serve --egress-proxy http://u:hunter2@proxy.example", nil, "must have a host and a port", 2},
		{"serve --public-url hooks.example", nil, "is not an address such as", 2},
		{"serve --public-url https://hooks.example/?a=b", nil, "is not an address such as", 2},
		{"serve --trusted-proxies nginx", nil, "is not a range of addresses", 2},
		{"serve --database-space 0", nil, "such as 262144 or 256KiB", 2},
		{"serve --name EU-1", nil, "--name", 2},
		{"serve", map[string]string{"GRAPNEL_NAME": "seventeenletters1"}, "--name", 2},
		{"serve --max-endpoints -1", nil, "must not be negative", 2},
		{"serve --max-types -1", nil, "must not be negative", 2},
		{"serve --max-events-per-day -1", nil, "must not be negative", 2},
		{"serve --max-ahead 0s", nil, "must be greater than 0", 2},
		{"serve --max-publish-rate 10/0", nil, "is not a rate", 2},
		{"serve --max-publish-rate 0", nil, "write a rate from 0.0001", 2},
		{"serve --oidc-client-id a", nil, "without --oidc-issuer", 2},
		{"serve --oidc-issuer https://login.example.com", nil, "--oidc-client-id", 2},
		{"serve --oidc-issuer https://login.example.com --oidc-client-id a", nil, "--oidc-role", 2},
		{"serve --oidc-issuer http://login.example.com --oidc-client-id a --oidc-role domain=b.example,role=viewer", nil, "https://", 2},
		{"serve --oidc-issuer https://login.example.com --oidc-client-id a --oidc-role domain=b.example,role=root", nil, "viewer, operator", 2},
		{"serve --oidc-issuer https://login.example.com --oidc-client-id a --oidc-role anyone=yes,role=viewer --oidc-algorithms none", nil, "RS256", 2},
		{"serve --oidc-issuer https://login.example.com --oidc-client-id a --oidc-role domain=b,role=viewer --oidc-session 721h", nil, "720h", 2},
		{"serve --oidc-issuer https://login.example.com --dashboard=false", nil, "--dashboard=false", 2},
		{"serve", map[string]string{"GRAPNEL_MAX_PENDING": "-1"}, "must not be negative", 2},
		{"serve --retention -1h", nil, "cannot be negative", 2},
		{"serve --egress-allow 10.0.0.1/8", nil, "did you mean 10.0.0.0/8", 2},
		{"serve --max-event many", nil, "256KiB", 2},
		{"serve --log-format xml", nil, "text and json", 2},
		{"serve --log-level chatty", nil, "debug, info", 2},
		{"serve extra", nil, "unknown command", 2},
		{"serve --listen nowhere:none", nil, "cannot listen", 1},
		{"dev --listen 0.0.0.0:0", nil, "this machine only", 2},
		{"dev --listen example.com:80", nil, "this machine only", 2},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Chdir(t.TempDir())
			got := invoke(t, tc.env, "", strings.Fields(tc.args)...)
			if got.code != tc.code || !strings.Contains(got.errs, tc.want) || strings.Contains(got.errs, "hunter2") {
				t.Errorf("%+v, want exit %d and %q", got, tc.code, tc.want)
			}
			if left, _ := os.ReadDir("."); len(left) > 0 {
				t.Errorf("it left %v behind", left)
			}
		})
	}
}

func TestServeSettingsTakePrecedence(t *testing.T) {
	dir := t.TempDir()
	free := func() string { // and it stays free, because no connection is made from this address
		l, err := net.Listen("tcp", "127.0.0.9:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		return l.Addr().String()
	}
	flag, variable, file := free(), free(), free()
	config := filepath.Join(dir, "grapnel.yaml")
	if err := os.WriteFile(config, []byte("listen: "+file+"\nstore: sqlite:"+filepath.Join(dir, "grapnel.db")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		env  map[string]string
		want string
	}{
		{[]string{"--config", config, "--listen", flag}, map[string]string{"GRAPNEL_LISTEN": variable}, flag},
		{[]string{"--config", config}, map[string]string{"GRAPNEL_LISTEN": variable}, variable},
		{nil, map[string]string{"GRAPNEL_CONFIG": config}, file},
	} {
		p := launch(t, tc.env, append([]string{"serve"}, tc.args...)...)
		if p.url != "http://"+tc.want {
			t.Errorf("%v %v: listens at %s, want %s", tc.args, tc.env, p.url, tc.want)
		}
		if got := p.stop(); got.code != 0 {
			t.Errorf("%+v", got)
		}
	}
}

// The way of an event through the command line and the real server, as a user goes it.
func TestEventGoesInAndComesOut(t *testing.T) {
	type arrival struct {
		header http.Header
		body   string
	}
	arrivals := make(chan arrival, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrivals <- arrival{r.Header, string(body)}
		if strings.HasPrefix(r.URL.Path, "/refuse") {
			w.Header().Set("X-Why", "misplaced")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "no order\x1b[31m\n  of that number\n")
		}
	}))
	defer receiver.Close()
	_, env := serve(t)
	call := func(args ...string) string {
		t.Helper()
		got := invoke(t, env, "", args...)
		if got.code != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
		return strings.TrimSpace(got.out)
	}

	secret := call("endpoints", "create", receiver.URL+"/take", "--types", "invoice.*", "--jq", ".secret")
	event := call("send", "invoice.paid", "-d", `{ "amount": 1.00 }`, "--key", "inv_1", "-o", "name")
	a := <-arrivals
	v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	if verified, err := v.Verify(a.header, []byte(a.body)); err != nil || verified.ID != event {
		t.Errorf("what arrived is signed for %q: %v", verified.ID, err)
	}
	if !strings.Contains(a.body, `"data":{ "amount": 1.00 }`) {
		t.Errorf("the data were changed: %s", a.body)
	}
	poll(t, "the delivery is on record", func() bool { return call("events", "show", event, "--jq", ".deliveries[].status") == "delivered" })
	if got := call("send", "other.thing", "--jq", ".deliveries"); got != "0" {
		t.Errorf("an event that nobody wants has %s deliveries", got)
	}

	// One that is refused for good becomes a dead letter, and is redelivered on request.
	call("endpoints", "create", receiver.URL+"/refuse", "--types", "order.*", "--policy", `{"classify":{"404":"fail"}}`,
		"--header", "X-Retry={retry}", "--header", "Authorization=Bearer cr3dential", "--signature-headers", "svix")
	call("send", "order.made", "--id", "order-1")
	refused := <-arrivals
	poll(t, "it fails", func() bool { return call("deliveries", "list", "--status", "failed", "-o", "name") != "" })
	dead := call("deliveries", "list", "--status", "failed", "-o", "name")
	if !strings.Contains(refused.body, "order-1") || refused.header.Get("Authorization") != "Bearer cr3dential" {
		t.Errorf("arrived as %s with %v", refused.body, refused.header)
	}
	for _, command := range []string{"deliveries", "dlq"} {
		said := call(command, "show", dead)
		if sent := regexp.MustCompile(`Sent by attempt 1\n(.*\n)*?Authorization +\[redacted\]\n(.*\n)*Svix-Id +order-1\n(.*\n)*Webhook-Id +order-1\n(.*\n)*X-Retry +0\n`); !sent.MatchString(said) {
			t.Errorf("%s show does not show what was sent:\n%s", command, said)
		}
		if !strings.Contains(said, "Answer to attempt 1: 404 Not Found") || !strings.Contains(said, "X-Why") ||
			!strings.Contains(said, "misplaced") || !strings.HasSuffix(said, "\n\nno order [31m\n  of that number") {
			t.Errorf("%s show does not show what the receiver answered:\n%s", command, said)
		}
	}
	again := call("deliveries", "retry", dead, "--jq", ".replay_of, .id")
	if of, id, _ := strings.Cut(again, "\n"); of != dead || id == dead {
		t.Errorf("retrying %s made %s of %s", dead, id, of)
	}
	<-arrivals
	if got := invoke(t, env, "", "deliveries", "skip", dead, "--reason", "x"); got.code != 5 {
		t.Errorf("skipping what is over: %+v", got)
	}
	if got := invoke(t, env, "", "send", "order.made", "--id", "order-1", "-d", `{"other":1}`); got.code != 5 {
		t.Errorf("the same id with other data: %+v", got)
	}
	if got := call("send", "order.made", "--id", "order-1", "--jq", ".duplicate"); got != "true" {
		t.Errorf("the same event again: duplicate %s", got)
	}

	// Pausing holds, resuming lets go.
	endpoint := call("endpoints", "list", "--jq", `.data[] | select(.url | endswith("/take")) | .id`)
	call("endpoints", "pause", endpoint)
	held := call("send", "invoice.sent", "-o", "name")
	if got := call("events", "show", held, "--jq", ".deliveries[].status"); got != "held" {
		t.Errorf("while its endpoint is paused a delivery is %s", got)
	}
	call("endpoints", "resume", endpoint)
	if a := <-arrivals; a.header.Get("Webhook-Id") != held {
		t.Errorf("after resuming %s arrived", a.header.Get("Webhook-Id"))
	}
	if got := call("endpoints", "rotate-secret", endpoint, "--jq", ".secret"); got == secret || !strings.HasPrefix(got, "whsec_") {
		t.Errorf("rotating gave %q", got)
	}
	call("endpoints", "test", endpoint, "--type", "a.test")
	if a := <-arrivals; a.header.Get("Grapnel-Trigger") != "test" {
		t.Errorf("a test arrived as %q", a.header.Get("Grapnel-Trigger"))
	}
	call("endpoints", "delete", endpoint)
	if got := invoke(t, env, "", "endpoints", "show", endpoint); got.code != 3 {
		t.Errorf("after deleting: %+v", got)
	}
}

// TestTestsCountNowhere: tests of an endpoint that refuses them exit with 9 after one attempt each, and
// leave statistics, health, dead letters, issues and alerts as they were.
func TestTestsCountNowhere(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		attempts.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "come back later")
	}))
	defer receiver.Close()
	_, env := serve(t)
	if got := invoke(t, env, "", "endpoints", "create", receiver.URL, "--description", "Shop"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for range 6 {
		if got := invoke(t, env, "", "endpoints", "test", "Shop"); got.code != cli.ExitPartial || !strings.Contains(got.out, "come back later") {
			t.Fatalf("%+v", got)
		}
	}
	for args, want := range map[string]string{
		"stats --jq '.totals | .attempts, .failed_attempts, .first_attempts'": "0\n0\n0\n", "endpoints get Shop --jq .health.state": "healthy\n",
		"dlq list -o name": "", "issues list -o name": "", "alerts list -o name": "", "stats --by endpoint -o name": "",
	} {
		if got := invoke(t, env, "", arguments(args)...); got.code != 0 || got.out != want {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := attempts.Load(); got != 6 {
		t.Errorf("%d attempts of 6 tests", got)
	}
}

func TestKeysAndPoliciesAgainstTheServer(t *testing.T) {
	_, env := serve(t)
	call := func(env map[string]string, args ...string) result { t.Helper(); return invoke(t, env, "", args...) }
	made := call(env, "keys", "create", "--name", "ci", "--scope", "publish", "--tenant", "acme", "--jq", ".key, .id")
	key, id, _ := strings.Cut(strings.TrimSpace(made.out), "\n")
	if made.code != 0 || !cli.IsKey(key) {
		t.Fatalf("%+v: keys that the server makes should have the form that send knows", made)
	}
	own := map[string]string{"GRAPNEL_SERVER": env["GRAPNEL_SERVER"], "GRAPNEL_KEY": key}
	if got := call(own, "send", "a.b"); got.code != 0 {
		t.Errorf("publishing with the new key: %+v", got)
	}
	if got := call(own, "events", "list"); got.code != 4 {
		t.Errorf("reading with a key that may only publish: %+v", got)
	}
	if got := call(env, "keys", "delete", id); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := call(own, "send", "a.b"); got.code != 4 {
		t.Errorf("publishing with a key that was deleted: %+v", got)
	}

	if got := call(env, "policies", "list", "-o", "name"); !strings.Contains(got.out, "paylera\n") {
		t.Errorf("%+v", got)
	}
	if got := call(env, "policies", "show", "paylera"); !strings.Contains(got.out, "44h36m15s") {
		t.Errorf("%+v", got)
	}
	created := call(env, "policies", "create", `{"max_attempts":3}`, "--name", "hasty", "--jq", ".id")
	if created.code != 0 {
		t.Fatalf("%+v", created)
	}
	pol := strings.TrimSpace(created.out)
	if got := call(env, "simulate", "--outage", "1h", "--policy", pol, "--fail-if", ".dead_letters == 0"); got.code != 0 {
		t.Errorf("three attempts should not survive an hour: %+v", got)
	}
	if got := call(env, "policies", "create", `{"max_attempts":3}`, "--name", "hasty"); got.code != 5 {
		t.Errorf("the name again: %+v", got)
	}
	if got := call(env, "policies", "create", `{"max_attempts":"three"}`, "--name", "wrong"); got.code != 2 || !strings.Contains(got.errs, "/max_attempts") {
		t.Errorf("a policy that is wrong: %+v", got)
	}
	if got := call(env, "policies", "delete", pol, "--jq", ".deleted"); got.out != "true\n" {
		t.Errorf("%+v", got)
	}
}

// Everything that the server says has a place in the client's types.
func TestClientKnowsEveryFieldOfTheServer(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	defer receiver.Close()
	p, env := serve(t)
	c, err := client.New(client.Options{Server: p.url, Key: adminKey})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL, Headers: map[string]string{"X-A": "1"}}); err != nil {
		t.Fatal(err)
	}
	if got := invoke(t, env, "", "send", "a.b", "--key", "k", "--metadata", "m=1"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	var deliveries *client.Page[client.Delivery]
	poll(t, "an attempt is on record", func() bool {
		deliveries, err = c.Deliveries(t.Context(), client.DeliveryFilter{})
		return err == nil && len(deliveries.Data) == 1 && deliveries.Data[0].AttemptsMade == 1
	})
	for path, into := range map[string]any{
		"/v1/deliveries/" + deliveries.Data[0].ID:  new(client.Delivery),
		"/v1/events/" + deliveries.Data[0].EventID: new(client.Event),
		"/v1/endpoints": new(strictPage[client.Endpoint]),
		"/v1/audit":     new(strictPage[client.AuditEntry]),
		"/v1/endpoints/" + deliveries.Data[0].EndpointID + "/lanes": new(strictPage[client.Lane]),
		"/v1/deliveries": new(strictPage[client.Delivery]),
		"/v1/events":     new(strictPage[client.Event]),
		"/v1/keys":       new(strictPage[client.Key]),
	} {
		var doc json.RawMessage
		if err := c.Do(t.Context(), http.MethodGet, path, nil, nil, &doc); err != nil {
			t.Fatal(err)
		}
		strict := json.NewDecoder(bytes.NewReader(doc))
		strict.DisallowUnknownFields()
		if err := strict.Decode(into); err != nil {
			t.Errorf("GET %s: %v\n%s", path, err, doc)
		}
	}
}

// strictPage is a page without the leniency of client.Page.
type strictPage[T any] struct {
	Data []T     `json:"data"`
	Next *string `json:"next"`
}
