//go:build linux

package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/e2e/process"
)

// adminKey is the admin key of the servers under test.
const adminKey = "grp_browser-only-on-loopback"

// server is one server over its whole life: its data, its address, and one process after another.
type server struct {
	t    *testing.T
	args []string
	env  []string // added to the environment
	dir  string
	addr string
	log  *os.File
	now  *process.Process
	*client.Client
}

// serve starts `grapnel serve` with more flags, and waits until it answers.
func serve(t *testing.T, flags ...string) *server {
	t.Helper()
	return serveWith(t, nil, flags...)
}

// serveWith is serve with more variables of the environment.
func serveWith(t *testing.T, env []string, flags ...string) *server {
	t.Helper()
	addr, err := process.UnusedAddress() // the same over restarts
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, addr)
	s.env = env
	s.args = append([]string{"serve", "--listen", addr, "--store", "sqlite:" + filepath.Join(s.dir, "grapnel.db"),
		"--egress-allow", "127.0.0.0/8", "--bounds", "Alerting.Every=200ms,engine.admission.longcommit=1m,web.counting=10s"}, flags...)
	s.start()
	return s
}

// dev starts `grapnel dev` and returns it with its login link.
func dev(t *testing.T) (s *server, login string) {
	t.Helper()
	addr, err := process.UnusedAddress()
	if err != nil {
		t.Fatal(err)
	}
	s = newServer(t, addr)
	s.args = []string{"dev", "--listen", addr, "--data", s.dir}
	s.start()
	link := regexp.MustCompile(`The dashboard: http://[^/]+(/\S+)`)
	if !eventually(t.Context(), patience, func() bool { return link.MatchString(s.words()) }) {
		t.Fatalf("no login link:\n%s", s.words())
	}
	key, err := os.ReadFile(filepath.Join(s.dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	s.Client = ok(client.New(client.Options{Server: s.url(), Key: strings.TrimSpace(string(key))}))(t)
	return s, link.FindStringSubmatch(s.words())[1]
}

func newServer(t *testing.T, addr string) *server {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Server: "http://" + addr, Key: adminKey})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, dir: dir, addr: addr, log: log, Client: c}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			text := s.words()
			t.Logf("the server's last words:\n%s", text[max(0, len(text)-4000):])
		}
		_ = log.Close()
	})
	return s
}

func (s *server) url() string { return "http://" + s.addr }

func (s *server) words() string {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// start starts a process and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(path, s.args...)
	cmd.Dir = s.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "GRAPNEL_ADMIN_KEY=" + adminKey}, s.env...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if s.now, err = process.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
	if !eventually(s.t.Context(), patience, func() bool { return s.now.Ended() || s.answers() }) || s.now.Ended() {
		s.t.Fatalf("the server does not answer:\n%s", s.words())
	}
}

func (s *server) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url()+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(rq)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// kill ends the process without warning.
func (s *server) kill() {
	if s.now != nil {
		s.now.Kill()
	}
}

// holds waits until a question to the API is answered with yes.
func (s *server) holds(what string, holds func(context.Context) (bool, error)) {
	s.t.Helper()
	var err error
	yes := eventually(s.t.Context(), patience, func() bool {
		var now bool
		now, err = holds(s.t.Context())
		return err == nil && now
	})
	if !yes {
		s.t.Fatalf("%s: not within %v (%v)", what, patience, err)
	}
}

// alertAbout makes an alert about an endpoint at which no attempt succeeds. It returns its id.
func (s *server) alertAbout(t *testing.T, endpoint string) (id string) {
	t.Helper()
	ok(s.UpdateAlertRule(t.Context(), "", "endpoint_failing", map[string]any{"threshold": 1}))(t)
	s.holds("an alert about the endpoint fires", func(ctx context.Context) (bool, error) {
		page, err := s.Alerts(ctx, client.AlertFilter{Endpoint: endpoint})
		if err != nil || len(page.Data) == 0 {
			return false, err
		}
		id = page.Data[0].ID
		return true, nil
	})
	return id
}

// receiver is a receiver on loopback that answers as handle does.
func receiver(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.URL
}

// ok is the value of a call that has to succeed.
func ok[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
