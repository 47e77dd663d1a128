//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// adminKey is the admin key of the servers under test.
const adminKey = "grp_e2e-only-on-loopback"

// longCommits has a server accept work although commits are slow: on a machine that runs several tests
// at once they may be, and what a test publishes is not to be refused.
const longCommits = "engine.admission.longcommit=1m"

// binary builds the program once per test run.
var binary = sync.OnceValues(func() (string, error) { return process.Build(scratch) })

// program says how to start a server. The zero value runs the real binary.
type program struct {
	path string   // empty: the real binary, built on demand
	env  []string // added to the environment
	wrap []string // a command that executes the program, such as strace; the program's command line follows it
	flag []string // added to the command line
	tiny bool     // every inner limit is as small as it may be, chosen by the run's dice
}

// bounded adds the flag that makes bounds tiny, if p asks for it.
func (p program) bounded(t testing.TB, d *dice) program {
	if p.tiny {
		bounds := fmt.Sprintf("tiny:%d", d.n(1<<30))
		t.Logf("--bounds %s", bounds)
		p.flag = append(slices.Clone(p.flag), "--bounds", bounds)
	}
	return p
}

// child is one server over its whole life: a data directory, an address, and one process after
// another.
type child struct {
	t       testing.TB
	program program
	dir     string
	addr    string
	log     *os.File
	http    *http.Client

	mu      sync.Mutex
	running *process.Process
	starts  int
}

// unusedAddress returns an address that stays free while its server is down.
func unusedAddress(t testing.TB) string {
	t.Helper()
	addr, err := process.UnusedAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// newChild prepares a server on a free port of loopback with its data in dir.
func newChild(t testing.TB, p program, dir string) *child {
	t.Helper()
	if p.path == "" {
		path, err := binary()
		if err != nil {
			t.Fatal(err)
		}
		p.path = path
	}
	addr := unusedAddress(t) // it stays the same over restarts
	log, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, program: p, dir: dir, addr: addr, log: log,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second}}
	t.Cleanup(func() {
		c.kill()
		c.http.CloseIdleConnections()
		if t.Failed() {
			t.Logf("the server's last words:\n%s", c.words(4000))
		}
		_ = log.Close()
	})
	return c
}

// start runs the program without waiting until it answers.
func (c *child) start() {
	c.t.Helper()
	args := append([]string{}, c.program.wrap...)
	args = append(args, c.program.path, "serve", "--listen", c.addr, "--store", "sqlite:"+filepath.Join(c.dir, "grapnel.db"),
		"--egress-allow", "127.0.0.0/8")
	args = append(args, c.program.flag...)
	if at := slices.Index(args, "--bounds"); at >= 0 {
		args[at+1] += "," + longCommits // a flag takes the place of the variable
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "GRAPNEL_ADMIN_KEY=" + adminKey,
		"GRAPNEL_BOUNDS=" + longCommits}, c.program.env...)
	cmd.Dir = c.dir // where a node of PostgreSQL keeps its session key
	cmd.Stdout, cmd.Stderr = c.log, c.log
	p, err := process.Start(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = p
	c.starts++
}

// ready waits until the server accepts requests. It fails the test when the process ends instead.
func (c *child) ready(within time.Duration) {
	c.t.Helper()
	p := c.current()
	eventually(c.t, within, "the server is ready", func() bool {
		select {
		case <-p.Done:
			c.t.Fatalf("the server ended while starting: %v\n%s", p.Err, c.words(4000))
		default:
		}
		return c.answers()
	})
}

// answers says whether the server accepts requests now.
func (c *child) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.addr+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (c *child) current() *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// kill ends the process without warning and waits for its end. It does nothing if no process runs.
func (c *child) kill() {
	if p := c.current(); p != nil {
		p.Kill()
	}
}

// terminate asks the process to end, waits for it and returns its exit code.
func (c *child) terminate(within time.Duration) int {
	c.t.Helper()
	p := c.current()
	if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil {
		c.t.Fatalf("cannot signal the server: %v", err)
	}
	return c.exit(within)
}

// exit waits until the process has ended by itself and returns its exit code.
func (c *child) exit(within time.Duration) int {
	c.t.Helper()
	p := c.current()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.Done:
	case <-timer.C:
		c.t.Fatalf("the server still runs after %v", within)
	}
	var failed *exec.ExitError
	if errors.As(p.Err, &failed) {
		return failed.ExitCode()
	}
	if p.Err != nil {
		c.t.Fatalf("waiting for the server: %v", p.Err)
	}
	return 0
}

// ended says whether the process has ended.
func (c *child) ended() bool { return c.current().Ended() }

// words returns the end of what the server wrote to its standard streams, in all its runs.
func (c *child) words(most int) string {
	text, err := os.ReadFile(c.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// memory reads the resident size, now and at its peak, from the kernel, in MiB.
func (c *child) memory() (now, peak float64) {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.current().PID))
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(string(line), ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		if err != nil {
			c.t.Fatal(err)
		}
		if name == "VmRSS" {
			now = kib / 1024
		} else {
			peak = kib / 1024
		}
	}
	return now, peak
}

// eventually polls a condition until it holds or the time is up, which fails the test.
func eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	if !poll(context.Background(), within, 10*time.Millisecond, holds) {
		t.Fatalf("after %v it is still not so that %s", within, what)
	}
}

// poll checks the condition repeatedly until it holds, the time is up or the context ends.
func poll(ctx context.Context, within, every time.Duration, holds func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if holds() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}

// pause waits for a time that is part of a scenario. It must not stand for waiting until something
// happens.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
