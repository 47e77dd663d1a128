//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// adminKey is the admin key of the servers under test.
const adminKey = "grp_e2e-only-on-loopback"

// binary builds the program once per test run, as users get it: static and without the race
// detector.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "grapnel")
	cmd := exec.Command("go", "build", "-o", path, "github.com/grapnelhq/grapnel/cmd/grapnel")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the binary: %w\n%s", err, out)
	}
	return path, nil
})

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
	running *process
	starts  int
}

// process is one run of the program. Its fields are set before done is closed.
type process struct {
	pid  int
	done chan struct{}
	err  error
}

// addresses counts the addresses given to servers so far.
var addresses atomic.Int64

// unusedAddress returns an address that stays free while its server is down. The kernel gives ports
// above 32767 to connections and to listeners on port 0; this one is below.
func unusedAddress(t testing.TB) string {
	t.Helper()
	const from, ports = 20_000, 12_000
	for range ports {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", from+(int64(os.Getpid())*101+addresses.Add(1))%ports))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		return listener.Addr().String()
	}
	t.Fatal("all ports are in use")
	return ""
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
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "GRAPNEL_ADMIN_KEY=" + adminKey}, c.program.env...)
	cmd.Stdout, cmd.Stderr = c.log, c.log
	// The server must not outlive a test run that panics. The signal comes when the forking thread
	// ends, so that thread is kept alive as long as the process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		c.t.Fatalf("cannot start %v: %v", args, err)
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
		case <-p.done:
			c.t.Fatalf("the server ended while starting: %v\n%s", p.err, c.words(4000))
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

func (c *child) current() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// kill ends the process without warning and waits for its end. It does nothing if no process runs.
func (c *child) kill() {
	p := c.current()
	if p == nil {
		return
	}
	_ = syscall.Kill(p.pid, syscall.SIGKILL) // it fails if the process has just ended by itself
	<-p.done
}

// terminate asks the process to end, waits for it and returns its exit code.
func (c *child) terminate(within time.Duration) int {
	c.t.Helper()
	p := c.current()
	if err := syscall.Kill(p.pid, syscall.SIGTERM); err != nil {
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
	case <-p.done:
	case <-timer.C:
		c.t.Fatalf("the server still runs after %v", within)
	}
	var failed *exec.ExitError
	if errors.As(p.err, &failed) {
		return failed.ExitCode()
	}
	if p.err != nil {
		c.t.Fatalf("waiting for the server: %v", p.err)
	}
	return 0
}

// ended says whether the process has ended.
func (c *child) ended() bool {
	select {
	case <-c.current().done:
		return true
	default:
		return false
	}
}

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
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.current().pid))
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
