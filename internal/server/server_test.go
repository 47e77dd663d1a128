package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/send/engine"
)

// TestMain says which goroutines tests left. The shared PostgreSQL ends with this process.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "grp_of-a-test-server"

// options are those of a server on a free port with its data in dir. Its commits may be slow: the
// race detector and what runs beside the tests make them so, and then it would refuse publishes.
func options(dir string) Options {
	return Options{
		Listen: "127.0.0.1:0", Store: "sqlite:" + filepath.Join(dir, "data", "grapnel.db"), DrainTimeout: 10 * time.Second,
		EgressAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, MetricsOpen: true,
		Bounds: Bounds{Engine: engine.Bounds{Admission: engine.AdmissionBounds{LongCommit: time.Minute, Silence: time.Minute}}},
	}
}

// steady is where a server listens that a test starts again. Its port stays free meanwhile, because
// no connection is made from this address.
const steady = "127.0.0.9:0"

// running is a server that runs until its stop is called.
type running struct {
	*Server
	stop func() error
}

func start(t *testing.T, o Options) running {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, s)
}

func run(t *testing.T, s *Server) running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	accepting, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func() { close(accepting) }) }()
	<-accepting
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = stop() })
	return running{s, stop}
}

func (r running) client(t *testing.T, key string) *client.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(client.Options{Server: r.URL(), Key: key, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// opens says whether a server accepts a key.
func opens(t *testing.T, r running, key string) bool {
	t.Helper()
	_, err := r.client(t, key).Keys(t.Context(), client.ListFilter{})
	var refused *client.Error
	if err != nil && !(errors.As(err, &refused) && refused.Status == http.StatusUnauthorized) {
		t.Fatal(err)
	}
	return err == nil
}

func TestFirstStartMakesAKeyAndLaterOnesKeepIt(t *testing.T) {
	dir := t.TempDir()
	first := start(t, options(dir))
	notice := first.AdminKey()
	if !notice.Made || notice.Path != filepath.Join(dir, "data", "admin.key") {
		t.Errorf("the notice is %+v", notice)
	}
	text, err := os.ReadFile(notice.Path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(notice.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	key := strings.TrimSpace(string(text))
	if !opens(t, first, key) || opens(t, first, key+"x") || opens(t, first, "") {
		t.Error("exactly the key in the file should open the server")
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}

	second := start(t, options(dir))
	if second.AdminKey().Made || !opens(t, second, key) {
		t.Errorf("the second start should keep the key: %+v", second.AdminKey())
	}
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}

	// An operator may move the key to another place.
	if err := os.Remove(notice.Path); err != nil {
		t.Fatal(err)
	}
	third := start(t, options(dir))
	if third.AdminKey() != (KeyNotice{}) || !opens(t, third, key) {
		t.Errorf("without the file the key should stay as it is: %+v", third.AdminKey())
	}
}

func TestAdminKeyThatIsGivenReplacesTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	for _, key := range []string{"the first of the keys", "the second of the keys"} {
		o := options(dir)
		o.AdminKey = key
		s := start(t, o)
		if !opens(t, s, key) || strings.Contains(key, "second") && opens(t, s, "the first of the keys") {
			t.Errorf("exactly %q should open the server", key)
		}
		if _, err := os.Stat(filepath.Join(dir, "data", "admin.key")); err == nil {
			t.Error("a key that was given is written to a file")
		}
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// A key that was replaced works again after a start without the new one, as long as its file is
// there. The start that replaces it says so.
func TestReplacedKeyThatIsStillInItsFile(t *testing.T) {
	dir := t.TempDir()
	first := start(t, options(dir))
	path := first.AdminKey().Path
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o := options(dir)
	o.AdminKey, o.Log = "the second of the keys", slog.New(slog.NewTextHandler(&log, nil))
	if err := start(t, o).stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "admin.key has another key") || !strings.Contains(log.String(), path) {
		t.Errorf("the log says\n%s", log.String())
	}
	log.Reset()
	if err := os.WriteFile(path, []byte(o.AdminKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start(t, o).stop(); err != nil || strings.Contains(log.String(), "another key") {
		t.Errorf("with the same key in the file: %v\n%s", err, log.String())
	}
}

// A key file that was emptied does not stand for a new key: without it the key stays what it was.
func TestAnEmptiedKeyFileSaysWhatHelps(t *testing.T) {
	dir := t.TempDir()
	if err := start(t, options(dir)).stop(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "data", "admin.key")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), options(dir))
	if err == nil || !strings.Contains(err.Error(), "GRAPNEL_ADMIN_KEY") || strings.Contains(err.Error(), "creates") {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := start(t, options(dir)).stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a new key was created")
	}
}

func TestOpenRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, tc := range []struct {
		name    string
		change  func(o *Options, dir string)
		want    string
		invalid bool
		files   bool // the data directory may have been created
	}{
		{"a store of no kind", func(o *Options, _ string) { o.Store = "mysql://u:hunter2@h/d" }, "--store takes sqlite:PATH", true, false},
		{"PostgreSQL", func(o *Options, _ string) { o.Store = "postgres://u:hunter2@h:port/d" }, "URL of a PostgreSQL", true, false},
		{"a PostgreSQL that is not there", func(o *Options, _ string) { o.Store = "postgres://u:hunter2@127.0.0.1:1/d" }, "opening the database",
			false, false},
		{"a store without path", func(o *Options, _ string) { o.Store = "sqlite:" }, "needs the path", true, false},
		{"a directory as a store", func(o *Options, dir string) { o.Store = "sqlite:" + dir + "/" }, "needs the path", true, false},
		{"an address in use", func(o *Options, _ string) { o.Listen = taken.Addr().String() }, "address already in use", false, false},
		{"an address of nobody", func(o *Options, _ string) { o.Listen = "127.0.0.1:notaport" }, "cannot listen", false, false},
		{"a short key", func(o *Options, _ string) { o.AdminKey = "short" }, "fewer than 16", true, true},
		{"an empty key file", func(_ *Options, dir string) {
			_ = os.MkdirAll(filepath.Join(dir, "data"), 0o700)
			_ = os.WriteFile(filepath.Join(dir, "data", "admin.key"), nil, 0o600)
		}, "contains no key", false, true},
		{"a database that is none", func(_ *Options, dir string) {
			_ = os.MkdirAll(filepath.Join(dir, "data"), 0o700)
			_ = os.WriteFile(filepath.Join(dir, "data", "grapnel.db"), []byte(strings.Repeat("this is no database ", 500)), 0o600)
		}, "database", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			o := options(dir)
			tc.change(&o, dir)
			s, err := Open(t.Context(), o)
			if err == nil {
				_ = run(t, s).stop()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if (grapnel.CodeOf(err) == grapnel.CodeInvalid) != tc.invalid {
				t.Errorf("code %q", grapnel.CodeOf(err))
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 && !tc.files {
				t.Errorf("it left %v behind", left)
			}
		})
	}
}

func TestOneServerPerDatabase(t *testing.T) {
	dir := t.TempDir()
	first := start(t, options(dir))
	if _, err := Open(t.Context(), options(dir)); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server on the same database: %v", err)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	if err := start(t, options(dir)).stop(); err != nil {
		t.Error(err)
	}
}

// A stopping server waits for a request in flight, and its outcome is on record after the next
// start.
func TestStoppingWaitsForAttemptsAndRecordsThem(t *testing.T) {
	dir := t.TempDir()
	arrived, answer := make(chan struct{}, 8), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	}))
	defer receiver.Close()
	o := options(dir)
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	<-arrived
	ended := make(chan error, 1)
	go func() { ended <- s.stop() }()
	poll(t, "no more connections are taken", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	select {
	case err := <-ended:
		t.Fatalf("it ended while an attempt was in flight: %v", err)
	default:
	}
	close(answer)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	again := start(t, o)
	e, err := again.client(t, testKey).Event(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := e.Deliveries[0]; d.Status != grapnel.Delivered || d.AttemptsMade != 1 {
		t.Errorf("after the restart the delivery is %s after %d attempts", d.Status, d.AttemptsMade)
	}
	if len(arrived) > 0 {
		t.Error("it was delivered again")
	}
}

// poll waits for an effect of another goroutine or the kernel.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for pause := 5 * time.Millisecond; !holds(); pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

func TestDrainTimeoutCutsOffWhatTakesTooLong(t *testing.T) {
	dir := t.TempDir()
	arrived, release := make(chan struct{}, 8), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer receiver.Close()
	defer close(release)
	o := options(dir)
	o.AdminKey, o.DrainTimeout = testKey, 50*time.Millisecond
	s := start(t, o)
	c := s.client(t, testKey)
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	<-arrived
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	// The receiver may or may not have had it, so it gets it again.
	start(t, o)
	<-arrived
}

// failing is a store that has failed.
type failing struct {
	keeper
	fatal chan error
}

func (f failing) Fatal() <-chan error { return f.fatal }

func TestStoreThatFailsEndsTheServer(t *testing.T) {
	s, err := Open(t.Context(), options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	broken, working := errors.New("the disk did not sync"), s.life.store
	fatal := make(chan error, 1)
	s.life.store = failing{working, fatal}
	ended := make(chan error, 1)
	delivering, stop := context.WithCancel(t.Context())
	go func() { ended <- s.Run(delivering, func() {}) }()
	fatal <- broken
	if err := <-ended; !errors.Is(err, broken) {
		t.Errorf("it ended with %v", err)
	}
	stop()
	s.sender.Close()
	if err := working.Close(); err != nil {
		t.Error(err)
	}
}

// A tenant at its limit of pending deliveries is told so, and when to try again; after a restart
// too.
func TestQuotaIsAnswered(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey, o.MaxPending = testKey, 1
	for n := range 2 {
		s := start(t, o)
		// the first answer is the subject of this test
		c, err := client.New(client.Options{Server: s.URL(), Key: testKey, Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: "http://127.0.0.1:9", Status: grapnel.EndpointPaused}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("1")}); err != nil {
				t.Fatal(err)
			}
		}
		_, err = c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("1")})
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusTooManyRequests || refused.Code != string(grapnel.CodeQuota) ||
			refused.RetryAfter < time.Second || refused.RetryAfter > 5*time.Second {
			t.Errorf("the second is answered %+v", err)
		}
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServiceRoutes(t *testing.T) {
	s := start(t, options(t.TempDir()))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for path, want := range map[string]string{
		"/livez": `"ok"`, "/readyz": `"ok"`, "/openapi.json": `"openapi": "3.1`, "/docs": "<html", "/status": "<html",
		"/metrics": `grapnel_events_accepted_total{source_kind="api"} 0`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.Body.Close() != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s answers %d without %q: %.200s", path, resp.StatusCode, want, body)
		}
		if path == "/metrics" {
			for _, name := range []string{"grapnel_store_commit_seconds_count", "grapnel_egress_in_flight", "grapnel_build_info", "go_goroutines",
				"grapnel_pending", `grapnel_breaker_state{state="open"} 0`, "grapnel_commit_average_seconds", "grapnel_audit_imbalance 0",
				"grapnel_purged_total 0", `grapnel_replays{status="running"} 0`, `grapnel_replay_deliveries{state="left"} 0`} {
				if !strings.Contains(string(body), name) {
					t.Errorf("/metrics lacks %s", name)
				}
			}
		}
	}
}
