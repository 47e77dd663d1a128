package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/proof/torture"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const tortureSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// ledger is a receiver of a provider that dedupes by id, or does not, and its probe.
func ledger(t *testing.T, provider, secret string, dedupes bool) *httptest.Server {
	t.Helper()
	var mu sync.Mutex
	effects := map[string]int{}
	verify := scheme.New(scheme.Settings{Scheme: provider, Secrets: []scheme.Secret{{Text: secret}}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/_probe" {
			_, _ = fmt.Fprintf(w, `{"effects":%d}`, effects[r.FormValue("event")])
			return
		}
		body, _ := io.ReadAll(r.Body)
		in := verify.Request(r, body, time.Now(), "")
		if r.Method != http.MethodPost || !in.Verify() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		id := in.Find(append(verify.IDs.Event, verify.IDs.Delivery...))
		if effects[id] == 0 || !dedupes {
			effects[id]++
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestTortureExits with 0 without findings, with 8 with some, with 1 if nothing can be judged, and
// with 2 for flags that are wrong.
func TestTortureExits(t *testing.T) {
	good, bad := ledger(t, "standard", tortureSecret, true).URL, ledger(t, "standard", tortureSecret, false).URL
	probe := func(url string) string { return "--probe " + url + "/_probe?event={event}" }
	for _, c := range []struct {
		name, args string
		code       int
		says       string
	}{
		{"good", good + " " + probe(good) + " --only T01,T14", 0, "score 2/2"},
		{"bad", bad + " " + probe(bad) + " --only T01", 8, "I2 broken: no deduplication"},
		{"not judged", good + " --only T01", 1, "no case could be judged"},
		{"wrong secret", good + " --only T01 --secret whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 1, "answered 401 to a plain event"},
		{"closed", "http://127.0.0.1:1/hooks", 1, "does not answer"},
		{"no probe there", good + " --probe " + good + "/nothing", 1, "the probe"},
		{"no secret", good + " --secret=", 2, "give --secret"},
		{"unusable secret", good + " --secret short", 2, "--secret: "},
		{"unknown case", good + " --only T99", 2, `"T99" is no case`},
		{"unknown profile", good + " --profile strip", 2, "the nearest is stripe"},
		{"no URL", "localhost:3000", 2, "is not a URL"},
		{"two probes", good + " --probe http://x/y --probe-cmd true", 2, "give one of"},
		{"no database", good + " --probe-sql q", 2, "give --dsn"},
		{"unknown bound", good + " --bound speed=1", 2, "--bound: speed: unknown bound"},
		{"no command", good + " --", 2, "a command must follow --"},
		{"public address", "http://192.0.2.1/hooks", 2, "Pass --yes"},
	} {
		args := append([]string{"torture", "--secret", tortureSecret}, strings.Fields(c.args)...)
		if r := invoke(t, nil, "", args...); r.code != c.code || !strings.Contains(r.out+r.errs, c.says) {
			t.Errorf("%s: exit %d, want %d with %q:\n%s%s", c.name, r.code, c.code, c.says, r.out, r.errs)
		}
	}
}

// TestTortureEndsItsReceiver also when nothing reads its output any more, and when a signal comes.
func TestTortureEndsItsReceiver(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*exec.Cmd, *bufio.Reader, io.Closer) error{
		"closed": func(_ *exec.Cmd, _ *bufio.Reader, out io.Closer) error { return out.Close() },
		"signal": func(cmd *exec.Cmd, out *bufio.Reader, _ io.Closer) error {
			if _, err := out.ReadString('\n'); err != nil {
				return err
			}
			return cmd.Process.Signal(os.Interrupt)
		},
	} {
		t.Run(name, func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := listener.Addr().String()
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), self, "torture", "http://"+address, "--secret", tortureSecret, "--bound", "drip=1m",
				"--", "/usr/bin/env", asReceiver+"="+address, self)
			cmd.Env = environment("GOCOVERDIR=" + t.TempDir())
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := end(cmd, bufio.NewReader(out), out); err != nil {
				t.Fatal(err)
			}
			if code, by := ended(t, cmd); by != nil || code == 0 {
				t.Errorf("exit %d, signal %v", code, by)
			}
			if conn, err := net.Dial("tcp", address); err == nil {
				_ = conn.Close()
				t.Error("the receiver still runs")
			}
		})
	}
}

// TestTortureReports: the JSON document alone is on stdout, the files have their forms, and no
// secret is in any of them.
func TestTortureReports(t *testing.T) {
	url, dir := ledger(t, "standard", tortureSecret, false).URL, t.TempDir()
	r := invoke(t, map[string]string{"GRAPNEL_TORTURE_SECRET": tortureSecret}, "", "torture", url, "--probe", url+"/_probe", "--only", "T01,T15",
		"--json", "--junit", filepath.Join(dir, "x.xml"), "--html", filepath.Join(dir, "x.html"))
	var report torture.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || report.Failed != 1 || report.Passed != 1 || r.code != 8 {
		t.Errorf("exit %d, %v, %+v\n%s", r.code, err, report, r.errs)
	}
	all := r.out + r.errs
	for name, begins := range map[string]string{"x.xml": "<?xml", "x.html": "<!doctype html>"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.HasPrefix(string(text), begins) {
			t.Errorf("%s: %v %.40s", name, err, text)
		}
		all += string(text)
	}
	if strings.Contains(all, strings.TrimPrefix(tortureSecret, "whsec_")) {
		t.Error("the secret is in the output")
	}
}

// TestTortureProfiles: a receiver of each provider that signs in headers and gives ids accepts the
// profile's events, and the findings are those of the receiver.
func TestTortureProfiles(t *testing.T) {
	for _, provider := range []string{"stripe", "github", "shopify", "slack", "standard", "svix"} {
		for _, dedupes := range []bool{true, false} {
			secret := tortureSecret
			url := ledger(t, provider, secret, dedupes).URL
			r := invoke(t, nil, "", "torture", url, "--profile", provider, "--secret", secret, "--probe", url+"/_probe", "--only", "T01,T13,T14,T16,T17")
			want := map[bool]int{true: 0, false: 8}[dedupes]
			if r.code != want || strings.Contains(r.out, "not judged:") {
				t.Errorf("%s, dedupes %t: exit %d, want %d\n%s%s", provider, dedupes, r.code, want, r.out, r.errs)
			}
		}
	}
}

// TestTortureOwnProfile: a YAML file says how requests are signed, and --body is their payload.
func TestTortureOwnProfile(t *testing.T) {
	var bodies []string
	v := scheme.New(scheme.Settings{Scheme: "hmac", Header: "X-Signature", Algorithm: "sha256", Encoding: "hex", Signed: "{body}",
		Secrets: []scheme.Secret{{Text: "a secret of ours"}}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if in := v.Request(r, body, time.Now(), ""); !in.Verify() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		bodies = append(bodies, string(body))
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ours.yaml")
	if err := os.WriteFile(file, []byte("header: X-Signature\nalgorithm: sha256\nencoding: hex\nsigned: \"{body}\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"torture", server.URL, "--profile", file, "--secret", "a secret of ours", "--only", "T06,T14"}
	if r := invoke(t, nil, "", args...); r.code != 2 || !strings.Contains(r.errs, "id_header") {
		t.Errorf("without an id: exit %d\n%s", r.code, r.errs)
	}
	r := invoke(t, nil, "", append(args, "--body", `{"event":"{event}","order":"{key}"}`)...)
	if r.code != 0 || !strings.Contains(r.out, "the template of the payload has no {version}") || !strings.Contains(r.out, "✓ T14") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.errs)
	}
	if len(bodies) != 1 || !strings.HasPrefix(bodies[0], `{"event":"msg_`) {
		t.Errorf("bodies: %q", bodies)
	}
}

// TestProbesReadDatabases: the columns are effects, version, state and amount; a row that is not
// there has no effect. PostgreSQL is read in the tests of the real receivers.
func TestProbesReadDatabases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite3.Open(path, sqlite3.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"CREATE TABLE ledger(event TEXT, invoice TEXT, version INT, status TEXT, amount INT)",
		"INSERT INTO ledger VALUES('msg_1', 'inv_1', 3, 'paid', 9007199254740993)"} {
		if err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = db.Close() }()
	p := probing{dsn: "sqlite:" + path, queries: []string{"SELECT count(*) FROM ledger WHERE event = {event}",
		"SELECT count(*), version, status, amount FROM ledger WHERE invoice = {key} GROUP BY invoice"}}
	probe, end, err := p.open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for _, c := range []struct {
		event, key string
		want       torture.Reading
	}{
		{"msg_1", "", torture.Reading{Effects: 1}},
		{"msg_2", "", torture.Reading{}},
		{"", "inv_1", torture.Reading{Effects: 1, Version: "3", State: "paid", Amount: "9007199254740993"}},
		{"", "inv_2", torture.Reading{}},
	} {
		if got, err := probe.Read(t.Context(), c.event, c.key); err != nil || got != c.want {
			t.Errorf("%q, %q: %+v, %v; want %+v", c.event, c.key, got, err, c.want)
		}
	}
	command, _, err := (&probing{command: "echo '{\"effects\":2,\"version\":7}' # {event} {key}"}).open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := command.Read(t.Context(), "msg_1", ""); err != nil || got != (torture.Reading{Effects: 2, Version: "7"}) {
		t.Errorf("the command: %+v, %v", got, err)
	}
}
