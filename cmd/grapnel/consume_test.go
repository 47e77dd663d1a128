package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/sign"
)

// pulled is a server with one queue, as far as commands that take from it see it.
type pulled struct {
	*httptest.Server
	mu      sync.Mutex
	waiting []string          // bodies
	media   string            // of the bodies; empty: JSON
	seen    []string          // requests, without those for next
	routes  map[string]string // answers to other requests, by method and path
	sent    map[string]string // bodies or queries of those, by method and path
}

func newPulled(t *testing.T, bodies ...string) *pulled {
	t.Helper()
	p := &pulled{waiting: bodies, routes: map[string]string{}, sent: map[string]string{}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *pulled) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/next") && len(p.waiting) == 0:
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(r.URL.Path, "/next"):
		n := 5 - len(p.waiting)
		_, _ = fmt.Fprintf(w, `{"data":[{"meta":{"lease":"lse_%d","event_id":"evt_%d","delivery_id":"dlv_1","type":"order.made","key":"k","attempt":2,"content_type":%q,`+
			`"first_seen_at":"2026-01-02T03:04:05Z","lease_expires_at":%q},"body":%s}]}`, n, n,
			cmp.Or(p.media, "application/json"), time.Now().Add(30*time.Second).UTC().Format(time.RFC3339Nano), p.waiting[0])
		p.waiting = p.waiting[1:]
	case strings.HasPrefix(r.URL.Path, "/v1/leases/"):
		p.seen = append(p.seen, strings.TrimSpace(strings.TrimPrefix(r.URL.Path, "/v1/leases/")+" "+string(body)))
		w.WriteHeader(http.StatusNoContent)
	default:
		name := r.Method + " " + r.URL.Path
		p.sent[name] = string(body) + r.URL.RawQuery // of which there is one
		p.seen = append(p.seen, name)
		text, there := p.routes[name]
		status := http.StatusOK
		switch {
		case !there:
			status, text = http.StatusNotFound, `{"code":"not_found","detail":"there is no such thing"}`
		case text == "409":
			status, text = http.StatusConflict, `{"code":"conflict","detail":"the name is taken"}`
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func (p *pulled) env() map[string]string {
	return map[string]string{"GRAPNEL_SERVER": p.URL, "GRAPNEL_KEY": "grp_env"}
}

// script is a program for the shell.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "handle.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return path
}

func TestConsumeRunsACommandForEachMessage(t *testing.T) {
	p := newPulled(t, `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`)
	handle := script(t, `
body=$(cat)
echo "got $body $GRAPNEL_EVENT_ID $GRAPNEL_EVENT_TYPE $GRAPNEL_EVENT_KEY $GRAPNEL_ATTEMPT $GRAPNEL_QUEUE"
case "$body" in
*2*) echo "starting" >&2; echo "no such customer" >&2; exit 65;;
*3*) echo "the database is away" >&2; exit 1;;
*4*) kill -9 $$;;
esac
`)
	got := invoke(t, p.env(), "", "queues", "consume", "orders", "--count", "4", "--", handle)
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.errs)
	}
	want := []string{
		"lse_1/ack",
		`lse_2/reject {"reason":"exit status 65: no such customer"}`,
		`lse_3/nack {"reason":"exit status 1: the database is away"}`,
		`lse_4/nack {"reason":"signal: killed"}`,
	}
	if d := gocmp.Diff(want, p.seen); d != "" {
		t.Error(d)
	}
	if !strings.HasPrefix(got.out, "got {\"n\":1} evt_1 order.made k 2 orders\ngot {\"n\":2} evt_2 ") {
		t.Errorf("the command wrote %q", got.out)
	}
	if !strings.Contains(got.errs, "reject") || !strings.Contains(got.errs, "no such customer") {
		t.Errorf("stderr says %q", got.errs)
	}
}

func TestConsumeTellsProgramsTheOutcomes(t *testing.T) {
	p := newPulled(t, `1`, `2`)
	got := invoke(t, p.env(), "", "queues", "consume", "orders", "--count", "2", "--reject-on", "3,4", "-o", "jsonl", "--", script(t, `echo noise; [ "$(cat)" = 1 ] || exit 4`))
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.errs)
	}
	var outcomes []string
	for line := range strings.Lines(got.out) {
		var one struct {
			Outcome string
			Known   bool
			EventID string `json:"event_id"`
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || !one.Known {
			t.Fatalf("%v in %q", err, line)
		}
		outcomes = append(outcomes, one.Outcome+" "+one.EventID)
	}
	if want := []string{"ack evt_3", "reject evt_4"}; !slices.Equal(outcomes, want) {
		t.Errorf("told %q, want %q", outcomes, want)
	}
}

// full is a file on a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestConsumeSettlesByTheExitCodeThoughOutputIsLost: the exit code alone is the outcome. A message
// that was processed must not come again because the program's output cannot be written.
func TestConsumeSettlesByTheExitCodeThoughOutputIsLost(t *testing.T) {
	p := newPulled(t, `1`)
	done := filepath.Join(t.TempDir(), "done")
	code := runProgram(t.Context(), &cli.World{
		Args:   []string{"queues", "consume", "orders", "--count", "1", "--", script(t, "echo out; echo err >&2; sleep 0.2; echo out; echo err >&2; echo 1 > "+done)},
		Stdout: full{}, Stderr: full{}, Now: time.Now, Lookup: func(name string) (string, bool) { v, ok := p.env()[name]; return v, ok },
	})
	if _, err := os.Stat(done); code != 0 || err != nil || !slices.Equal(p.seen, []string{"lse_4/ack"}) {
		t.Errorf("exit code %d, %v; the server was told %q", code, err, p.seen)
	}
}

// TestConsumeLeasesNoMoreThanItsCount: messages beyond --count stay in the queue, since each lease
// that is returned costs an attempt, and the last messages are not hurried: no stop was asked for.
func TestConsumeLeasesNoMoreThanItsCount(t *testing.T) {
	p := newPulled(t, `1`, `2`, `3`)
	got := invoke(t, p.env(), "", "queues", "consume", "orders", "--count", "1", "--concurrency", "3", "--drain-timeout", "50ms", "--", script(t, "sleep 0.3"))
	if got.code != 0 || len(p.waiting) != 2 || !slices.Equal(p.seen, []string{"lse_2/ack"}) {
		t.Errorf("exit code %d: %s; %d messages are left; the server was told %q", got.code, got.errs, len(p.waiting), p.seen)
	}
}

// stopped runs queues consume with a drain timeout of 0s and a script that writes the file STARTED,
// and stops it once the file is there.
func stopped(t *testing.T, p *pulled, work string) (code int) {
	t.Helper()
	started := filepath.Join(t.TempDir(), "started")
	ctx, stop := context.WithCancel(t.Context())
	handle := script(t, strings.ReplaceAll(work, "STARTED", started))
	ended := make(chan int, 1)
	go func() {
		ended <- runProgram(ctx, &cli.World{
			Args:   []string{"queues", "consume", "orders", "--drain-timeout", "0s", "--", handle},
			Stdout: io.Discard, Stderr: io.Discard, Now: time.Now, Lookup: func(name string) (string, bool) { v, ok := p.env()[name]; return v, ok },
		})
	}()
	poll(t, "the command runs", func() bool { _, err := os.Stat(started); return err == nil })
	stop()
	return <-ended
}

// TestConsumeStopsAtOnce: --drain-timeout 0s leaves running commands no time after a signal.
func TestConsumeStopsAtOnce(t *testing.T) {
	p := newPulled(t, `1`)
	code := stopped(t, p, "echo > STARTED; sleep 2")
	if code != 0 || len(p.seen) != 1 || !strings.HasPrefix(p.seen[0], "lse_4/nack ") {
		t.Errorf("exit code %d; the server was told %q", code, p.seen)
	}
}

// TestConsumeAcksACommandThatFinishesWhenInterrupted: a command that finishes its work once its
// time is up, and exits with 0, has processed its message.
func TestConsumeAcksACommandThatFinishesWhenInterrupted(t *testing.T) {
	p := newPulled(t, `1`)
	code := stopped(t, p, "trap 'exit 0' INT\necho > STARTED\nwhile :; do sleep 0.05; done")
	if code != 0 || !slices.Equal(p.seen, []string{"lse_4/ack"}) {
		t.Errorf("exit code %d; the server was told %q", code, p.seen)
	}
}

func TestConsumeRefusesWhatIsNoCommandBeforeItTakesAnything(t *testing.T) {
	p := newPulled(t, `1`)
	if got := invoke(t, p.env(), "", "queues", "consume", "orders", "--", "/nowhere/at/all"); got.code != 2 || len(p.waiting) != 1 {
		t.Errorf("exit code %d, %d messages left: %s", got.code, len(p.waiting), got.errs)
	}
}

// local is a developer's server that answers with what a test says.
func local(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body string)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer(w, r, string(body))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestListenMakesTheLocalAnswerTheOutcome(t *testing.T) {
	p := newPulled(t, `1`, `2`, `3`, `4`)
	p.routes["GET /v1/sources/src_1"] = `{"id":"src_1","tenant":"acme"}`
	p.routes["POST /v1/queues"] = `{"id":"que_1","name":"listen-x","tenant":"acme","policy":"hooque","source":"src_1"}`
	p.routes["DELETE /v1/queues/que_1"] = `{}`
	p.routes["GET /v1/inbox/evt_1"] = `{"id":"evt_1","headers":[{"name":"Stripe-Signature","value":"t=1,v1=x"},{"name":"host","value":"a.example"},` +
		`{"name":"Authorization","value":"[redacted]"},{"name":"X-A","value":"1"},{"name":"X-A","value":"2"}]}`
	var first http.Header
	srv := local(t, func(w http.ResponseWriter, r *http.Request, body string) {
		switch body {
		case "1":
			first = r.Header.Clone()
		case "2":
			w.WriteHeader(http.StatusBadRequest)
		case "3":
			w.WriteHeader(http.StatusInternalServerError)
		case "4":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	got := invoke(t, p.env(), "", "listen", srv.URL+"/hooks", "--source", "src_1", "--forward-headers", "--count", "4")
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.errs)
	}
	var settled []string
	for _, line := range p.seen {
		if strings.HasPrefix(line, "lse_") {
			settled = append(settled, line)
		}
	}
	want := []string{
		"lse_1/ack",
		`lse_2/reject {"reason":"the local server answered 400"}`,
		`lse_3/nack {"reason":"the local server answered 500"}`,
		`lse_4/nack {"delay":"7s","reason":"the local server answered 429"}`,
	}
	if d := gocmp.Diff(want, settled); d != "" {
		t.Error(d)
	}
	if first.Get("Stripe-Signature") != "t=1,v1=x" || len(first["X-A"]) != 2 || first.Get("Authorization") != "" || first.Get("Webhook-Id") != "evt_1" ||
		first.Get("Content-Type") != "application/json" || first.Get("Grapnel-Attempt") != "2" {
		t.Errorf("the local server got the headers %v", first)
	}
	var made struct {
		Name, Source, Tenant, Description string
		Quiet                             bool
	}
	if err := json.Unmarshal([]byte(p.sent["POST /v1/queues"]), &made); err != nil || made.Source != "src_1" || !made.Quiet || made.Tenant != "acme" || !strings.HasPrefix(made.Name, "listen-") {
		t.Errorf("%v: the queue was made of %s", err, p.sent["POST /v1/queues"])
	}
	if asked := p.sent["GET /v1/inbox/evt_1"]; asked != "tenant=acme" {
		t.Errorf("it asked for a request with %q, and another tenant may use the id", asked)
	}
	if last := p.seen[len(p.seen)-1]; last != "DELETE /v1/queues/que_1" {
		t.Errorf("at last it asked for %s; the queue should be gone", last)
	}
}

// TestListenHeedsRetryAfterAsThePolicySays: a Retry-After lengthens the pause of the queue's
// policy, never shortens it, and has no effect if the policy says so.
// TestListenShowsTheAnswer: each line has the status, and the body of what failed; r sends the last
// request again, and the outcome of its message stays.
func TestListenShowsTheAnswer(t *testing.T) {
	p := newPulled(t, `1`, `2`)
	p.routes["GET /v1/queues/orders"] = `{"id":"que_1","name":"orders","policy":"hooque"}`
	typed, keyboard := io.Pipe()
	defer func() { _ = keyboard.Close() }()
	var asked atomic.Int32
	srv := local(t, func(w http.ResponseWriter, _ *http.Request, body string) {
		asked.Add(1)
		if body == "2" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, "amount\n is missing")
		}
	})
	var said locked
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	env := p.env()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(srv.URL, "http://"))
	go func() {
		ended <- runProgram(ctx, &cli.World{Args: []string{"listen", port + "/hooks", "--queue", "orders"}, Stdin: typed, Stdout: &said, Stderr: &said,
			Now: time.Now, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	}()
	poll(t, "both are settled", func() bool { return strings.Count(said.String(), "order.made") == 2 })
	if _, err := io.WriteString(keyboard, "r\n"); err != nil {
		t.Fatal(err)
	}
	poll(t, "the last one is sent again", func() bool { return strings.Count(said.String(), "order.made") == 3 })
	stop()
	if code := <-ended; code != 0 || asked.Load() != 3 {
		t.Errorf("exits %d after %d requests: %s", code, asked.Load(), said.String())
	}
	settled := 0
	for _, line := range p.seen {
		if strings.HasPrefix(line, "lse_") {
			settled++
		}
	}
	if settled != 2 {
		t.Errorf("%d messages were settled: %v", settled, p.seen)
	}
	for _, want := range []string{"ack     200  order.made", "reject  422  order.made", "again   422  order.made", "the local server answered 422: amount is missing"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is missing: %s", want, said.String())
		}
	}
}

// TestAddressesOfLocalServers: a port is enough.
func TestAddressesOfLocalServers(t *testing.T) {
	for text, want := range map[string]string{
		"3000": "http://localhost:3000", "3000/hooks": "http://localhost:3000/hooks", "localhost:3000": "http://localhost:3000",
		"127.0.0.1:3000/a?b=c": "http://127.0.0.1:3000/a?b=c", "https://x.test": "https://x.test", "ftp://x": "", "": "", "http://": "",
	} {
		if u, ok := localURL(text); ok != (want != "") || ok && u.String() != want {
			t.Errorf("%q is %v, %t", text, u, ok)
		}
	}
}

func TestListenHeedsRetryAfterAsThePolicySays(t *testing.T) {
	srv := local(t, func(w http.ResponseWriter, _ *http.Request, body string) {
		w.Header().Set("Retry-After", body)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	const patient = `{"schedule":{"mode":"since_previous","delays":["0s","10s"],"tail":"repeat"},"jitter":0,"max_age":"24h"`
	for _, tc := range []struct {
		policy, after string
		delayed       bool
	}{
		{patient + `}`, "0", false}, {patient + `}`, "9", false}, {patient + `}`, "11", true},
		{patient + `,"retry_after":"ignore"}`, "11", false},
	} {
		p := newPulled(t, tc.after)
		p.routes["GET /v1/queues/orders"] = `{"id":"que_1","name":"orders","policy":` + tc.policy + `}`
		got := invoke(t, p.env(), "", "listen", srv.URL, "--queue", "orders", "--count", "1")
		want := `lse_4/nack {"reason":"the local server answered 503"}`
		if tc.delayed {
			want = `lse_4/nack {"delay":"` + tc.after + `s","reason":"the local server answered 503"}`
		}
		if got.code != 0 || p.seen[len(p.seen)-1] != want {
			t.Errorf("%s, Retry-After %s: exit code %d, %s, want %s", tc.policy, tc.after, got.code, p.seen[len(p.seen)-1], want)
		}
	}
}

func TestListenSendsWhatAnEndpointWouldGet(t *testing.T) {
	p := newPulled(t, `{ "n": 1.0 }`)
	p.routes["GET /v1/endpoints/ep_1"] = `{"id":"ep_1","tenant":"acme","format":"standard","event_types":["order.*"],"filter":"true","ordering":"none"}`
	p.routes["POST /v1/queues"] = `{"id":"que_1","name":"mine","tenant":"acme","policy":"hooque"}`
	p.routes["GET /v1/events/evt_4"] = `{"id":"evt_4","occurred_at":"2026-01-02T03:04:05.000006Z"}`
	var body, signature string
	srv := local(t, func(_ http.ResponseWriter, r *http.Request, text string) {
		body, signature = text, r.Header.Get("Webhook-Signature")
	})
	got := invoke(t, p.env(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "listen", srv.URL, "--endpoint", "ep_1", "--name", "mine", "--secret", "-", "--keep", "--count", "1")
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.errs)
	}
	if want := `{"id":"evt_4","type":"order.made","timestamp":"2026-01-02T03:04:05.000006Z","data":{ "n": 1.0 }}`; body != want || !strings.HasPrefix(signature, "v1,") {
		t.Errorf("the local server got %s signed %q, want %s", body, signature, want)
	}
	if want := `{"tenant":"acme","name":"mine","description":"made by grapnel listen","event_types":["order.*"],"filter":"true","ordering":"none","quiet":true}`; p.sent["POST /v1/queues"] != want {
		t.Errorf("the queue was made of %s, want %s", p.sent["POST /v1/queues"], want)
	}
	if asked := p.sent["GET /v1/events/evt_4"]; asked != "tenant=acme" {
		t.Errorf("it asked for the event with %q, and another tenant may use the id", asked)
	}
	if slices.Contains(p.seen, "DELETE /v1/queues/que_1") {
		t.Error("the queue was not kept")
	}
}

// TestListenSignsTheIDThatItSends: the provider's own webhook-id is not the one that is signed.
func TestListenSignsTheIDThatItSends(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	p := newPulled(t, `1`)
	p.routes["GET /v1/queues/orders"] = `{"id":"que_1","name":"orders","policy":"hooque"}`
	p.routes["GET /v1/inbox/evt_4"] = `{"id":"evt_4","headers":[{"name":"Webhook-Id","value":"msg_1"},{"name":"Webhook-Timestamp","value":"1"},` +
		`{"name":"Webhook-Signature","value":"v1,x"}]}`
	verifier, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	var verified sign.Verified
	srv := local(t, func(_ http.ResponseWriter, r *http.Request, body string) {
		verified, err = verifier.Verify(r.Header, []byte(body))
	})
	got := invoke(t, p.env(), secret, "listen", srv.URL, "--queue", "orders", "--forward-headers", "--secret", "-", "--count", "1")
	if got.code != 0 || err != nil || verified.ID != "evt_4" {
		t.Errorf("exit code %d: %s; the local server verified %q: %v", got.code, got.errs, verified.ID, err)
	}
}

// TestListenRefusesASecretBeforeItLeases: with a secret that cannot sign, every message would be
// returned, which costs each an attempt.
func TestListenRefusesASecretBeforeItLeases(t *testing.T) {
	p := newPulled(t, `1`)
	p.routes["GET /v1/queues/orders"] = `{"id":"que_1","name":"orders","policy":"hooque"}`
	srv := local(t, func(http.ResponseWriter, *http.Request, string) {})
	got := invoke(t, p.env(), "", "listen", srv.URL, "--queue", "orders", "--secret", "hunter2", "--count", "1")
	if got.code != 2 || len(p.seen) > 0 || len(p.waiting) != 1 || strings.Contains(got.errs, "hunter2") || !strings.Contains(got.errs, "--secret") {
		t.Errorf("exit code %d: %s; the server was told %q", got.code, got.errs, p.seen)
	}
}

// TestListenSendsEveryFormat: formats other than plain JSON, and the headers of CloudEvents, are
// those that the endpoint itself gets.
func TestListenSendsEveryFormat(t *testing.T) {
	for format, want := range map[string]struct {
		body   string
		header map[string]string
	}{
		"standard": {`{"id":"evt_4","type":"order.made","timestamp":"2026-01-02T03:04:05.000006Z","data":{ "n": 1.0 }}`, map[string]string{"Content-Type": "application/json"}},
		"raw":      {`{ "n": 1.0 }`, map[string]string{"Content-Type": "application/x+json", "Ce-Id": ""}},
		"cloudevents": {`{ "n": 1.0 }`, map[string]string{"Content-Type": "application/x+json", "Ce-Id": "evt_4", "Ce-Type": "order.made", "Ce-Source": "/grapnel/acme",
			"Ce-Specversion": "1.0", "Ce-Time": "2026-01-02T03:04:05.000006Z", "Ce-Partitionkey": "k"}},
		`raw","transform":"{id, n: .data.n}`:                              {`{"id":"evt_4","n":1.0}`, map[string]string{"Content-Type": "application/json"}},
		`standard","preset_shape":{"headers":{},"transform":".id"},"x":"`: {`"evt_4"`, map[string]string{"Content-Type": "application/json"}},
	} {
		t.Run(format, func(t *testing.T) {
			p := newPulled(t, `{ "n": 1.0 }`)
			p.media = "application/x+json"
			p.routes["GET /v1/endpoints/ep_1"] = `{"id":"ep_1","tenant":"acme","format":"` + format + `"}`
			p.routes["POST /v1/queues"] = `{"id":"que_1","name":"mine","policy":"hooque"}`
			p.routes["GET /v1/events/evt_4"] = `{"id":"evt_4","tenant":"acme","occurred_at":"2026-01-02T03:04:05.000006Z"}`
			var body string
			got := map[string]string{}
			srv := local(t, func(_ http.ResponseWriter, r *http.Request, text string) {
				body = text
				for name := range want.header {
					got[name] = r.Header.Get(name)
				}
			})
			if did := invoke(t, p.env(), "", "listen", srv.URL, "--endpoint", "ep_1", "--name", "mine", "--keep", "--count", "1"); did.code != 0 {
				t.Fatalf("exit code %d: %s", did.code, did.errs)
			}
			if diff := gocmp.Diff(want.header, got); body != want.body || diff != "" {
				t.Errorf("the local server got %s, want %s; headers:\n%s", body, want.body, diff)
			}
		})
	}
}

// TestListenSendsWhatAProviderSent: data of a source that only claim to be JSON are no part of a
// body, and a CloudEvent gets no headers of another one, as the endpoint itself gets them.
func TestListenSendsWhatAProviderSent(t *testing.T) {
	for _, c := range []struct{ format, media, data, body string }{
		{"standard", "application/json", `null,"body_base64":"MSwiaWQiOiJldnRfZm9yZ2VkIg=="`, `{"id":"evt_4","type":"order.made","timestamp":"2026-01-02T03:04:05.000006Z",` +
			`"data_base64":"MSwiaWQiOiJldnRfZm9yZ2VkIg=="}`},
		{"cloudevents", "application/cloudevents+json", `{"id":"7"}`, `{"id":"7"}`},
	} {
		p := newPulled(t, c.data)
		p.media = c.media
		p.routes["GET /v1/endpoints/ep_1"] = `{"id":"ep_1","tenant":"acme","format":"` + c.format + `"}`
		p.routes["POST /v1/queues"] = `{"id":"que_1","name":"mine","policy":"hooque"}`
		p.routes["GET /v1/events/evt_4"] = `{"id":"evt_4","tenant":"acme","occurred_at":"2026-01-02T03:04:05.000006Z","source":"src_1"}`
		var body, id string
		srv := local(t, func(_ http.ResponseWriter, r *http.Request, text string) { body, id = text, r.Header.Get("Ce-Id") })
		if did := invoke(t, p.env(), "", "listen", srv.URL, "--endpoint", "ep_1", "--name", "mine", "--keep", "--count", "1"); did.code != 0 {
			t.Fatalf("exit code %d: %s", did.code, did.errs)
		}
		if body != c.body || id != "" {
			t.Errorf("the local server got %s with the attribute %q, want %s", body, id, c.body)
		}
	}
}

func TestListenWaitsForALocalServerThatIsNotThere(t *testing.T) {
	p := newPulled(t, `1`)
	p.routes["GET /v1/queues/orders"] = `{"id":"que_1","name":"orders","policy":{"timeout":"5s"},"ready":1}`
	address := freed(t)
	errs := &awaiting{word: "Cannot reach", do: func() {
		if s := revive(address); s != nil {
			t.Cleanup(s.Close)
		}
	}}
	got := result{code: runProgram(t.Context(), &cli.World{
		Program: "grapnel", Args: []string{"listen", "http://" + address, "--queue", "orders", "--count", "1"},
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: errs, Now: time.Now,
		Lookup: func(name string) (string, bool) { v, ok := p.env()[name]; return v, ok },
	})}
	got.errs = errs.String()
	if got.code != 0 || !strings.Contains(got.errs, "Cannot reach http://"+address) || !strings.Contains(got.errs, "can be reached again") {
		t.Fatalf("exit code %d: %s", got.code, got.errs)
	}
	if d := gocmp.Diff([]string{"GET /v1/queues/orders", "lse_4/ack"}, p.seen); d != "" {
		t.Errorf("what waits for the local server is no attempt, and a queue that was there stays: %s", d)
	}
}

// awaiting is a buffer that calls do when the text written to it contains word for the first time.
type awaiting struct {
	bytes.Buffer
	word string
	once sync.Once
	do   func()
}

func (a *awaiting) Write(p []byte) (int, error) {
	n, err := a.Buffer.Write(p)
	if strings.Contains(a.String(), a.word) {
		a.once.Do(a.do)
	}
	return n, err
}

// freed is an address at which nothing listens. A port of 127.0.0.1 is given to the next connection
// that needs one, so where the machine has another loopback address, it is of that.
func freed(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// revive starts a server at an address that was free a moment ago.
func revive(address string) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil
	}
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	return s
}

func TestListenGoesOnWithItsOwnQueueAndNoOther(t *testing.T) {
	srv := local(t, func(http.ResponseWriter, *http.Request, string) {})
	for _, tc := range []struct {
		about string
		code  int
	}{{"made by grapnel listen", 0}, {"the orders", 5}} {
		p := newPulled(t, `1`)
		p.routes["POST /v1/queues"] = "409"
		p.routes["GET /v1/queues"] = `{"data":[{"id":"que_1","name":"other"},{"id":"que_2","name":"mine"}],"next":null}`
		p.routes["GET /v1/queues/que_2"] = `{"id":"que_2","name":"mine","policy":"hooque","description":"` + tc.about + `","ready":3,"delayed":1}`
		p.routes["PATCH /v1/queues/que_2"] = p.routes["GET /v1/queues/que_2"]
		p.routes["DELETE /v1/queues/que_2"] = `{}`
		got := invoke(t, p.env(), "", "listen", srv.URL, "--name", "mine", "--count", "1")
		if got.code != tc.code {
			t.Errorf("%s: exit code %d: %s", tc.about, got.code, got.errs)
		}
		if sent := p.sent["PATCH /v1/queues/que_2"]; sent != "" {
			t.Errorf("%s: the queue was changed by %q", tc.about, sent)
		}
		if tc.code == 0 && !strings.Contains(got.errs, "4 messages are pending") {
			t.Errorf("stderr says %q", got.errs)
		}
	}
}

// TestListenGivesAnEarlierQueueItsPolicy: --policy holds for the queue of an earlier run, too.
func TestListenGivesAnEarlierQueueItsPolicy(t *testing.T) {
	srv := local(t, func(http.ResponseWriter, *http.Request, string) {})
	for _, tc := range []struct{ policy, sent string }{{"paylera", `{"policy":"paylera"}`}, {"queue", ""}, {"", ""}} {
		p := newPulled(t, `1`)
		p.routes["POST /v1/queues"] = "409"
		p.routes["GET /v1/queues"] = `{"data":[{"id":"que_1","name":"mine"}],"next":null}`
		p.routes["GET /v1/queues/que_1"] = `{"id":"que_1","name":"mine","policy":"queue","description":"made by grapnel listen","quiet":true}`
		p.routes["PATCH /v1/queues/que_1"] = `{"id":"que_1","name":"mine","policy":"paylera"}`
		got := invoke(t, p.env(), "", "listen", srv.URL, "--name", "mine", "--policy", tc.policy, "--keep", "--count", "1")
		if sent := p.sent["PATCH /v1/queues/que_1"]; got.code != 0 || sent != tc.sent {
			t.Errorf("--policy %q: exit code %d: %s; the queue was changed by %q, want %q", tc.policy, got.code, got.errs, sent, tc.sent)
		}
	}
}

func TestPurgeSaysTheNameAgain(t *testing.T) {
	p := newPulled(t)
	p.routes["GET /v1/queues/orders"] = `{"id":"que_1","name":"orders","ready":2,"leased":1,"delayed":0,"waiting":4,"blocked":0}`
	p.routes["POST /v1/queues/que_1/purge"] = `{"discarded":7}`
	if got := invoke(t, p.env(), "", "queues", "purge", "orders"); got.code != 2 || !strings.Contains(got.errs, "7 messages") {
		t.Errorf("without --yes: exit code %d: %s", got.code, got.errs)
	}
	got := invoke(t, p.env(), "", "queues", "purge", "orders", "--yes", "--reason", "test data")
	if got.code != 0 || p.sent["POST /v1/queues/que_1/purge"] != `{"confirm":"orders","reason":"test data"}` ||
		!strings.Contains(got.out, "7") {
		t.Errorf("exit code %d: %s %s; sent %v", got.code, got.out, got.errs, p.sent)
	}
}

func TestNextShowsTheLeases(t *testing.T) {
	p := newPulled(t, `{"n":1}`)
	got := invoke(t, p.env(), "", "queues", "next", "orders", "--max", "3", "--wait", "2s", "-o", "name")
	if got.code != 0 || got.out != "lse_4\n" {
		t.Errorf("exit code %d: %q %s", got.code, got.out, got.errs)
	}
	if got = invoke(t, p.env(), "", "queues", "next", "orders"); got.code != 3 || got.out != "" {
		t.Errorf("when there is nothing: exit code %d: %q", got.code, got.out)
	}
	for status, want := range map[string]string{"enabled": "nothing is ready in orders", "paused": "grapnel queues resume orders", "disabled": "is disabled"} {
		p.routes["GET /v1/queues/orders"] = `{"id":"que_1","name":"orders","status":"` + status + `"}`
		if got = invoke(t, p.env(), "", "queues", "next", "orders"); got.code != 3 || !strings.Contains(got.errs, want) {
			t.Errorf("when it is %s: exit code %d: %s", status, got.code, got.errs)
		}
	}
}

func TestInboxFillsItsPage(t *testing.T) {
	pages := []string{`{"data":[],"next":"a"}`, `{"data":[{"id":"evt_1","outcome":"accepted"}],"next":"b"}`, `{"data":[{"id":"req_1"},{"id":"req_2"}],"next":"c"}`}
	asked := 0
	srv := newFake(t, func(*http.Request) (int, string) {
		asked++
		return 200, pages[min(asked, len(pages))-1]
	})
	got := invoke(t, srv.env(), "", "inbox", "list", "--limit", "3", "--jq", `[.data[].id, .next] | join(" ")`)
	if got.code != 0 || got.out != "evt_1 req_1 req_2 c\n" || asked != 3 || !strings.Contains(srv.seen[2].Target, "limit=2") {
		t.Errorf("exit code %d after %d pages: %q %s", got.code, asked, got.out, got.errs)
	}
}

func TestQueuesAreListedWithWhatIsInThem(t *testing.T) {
	srv := newFake(t, always(200, `{"data":[{"id":"que_1","name":"orders","status":"enabled","policy":"hooque","ready":7,"leased":1,"delayed":0,"waiting":4,"blocked":0,"dead":2,`+
		`"oldest_age":"61.2s"}],"next":null}`))
	got := invoke(t, srv.env(), "", "queues", "list")
	if want := []string{"orders", "enabled", "7", "1", "0", "4", "0", "2", "1m1s", "*", "hooque", "que_1"}; !slices.Equal(strings.Fields(strings.SplitN(got.out, "\n", 2)[1]), want) {
		t.Errorf("exit code %d: %s", got.code, got.out)
	}
}
