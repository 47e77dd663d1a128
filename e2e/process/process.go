//go:build linux

// Package process builds the program and runs it, for tests and measurements that look at the real
// binary from the outside.
//
// A process that it starts ends at the latest with the one that started it, however that ends: the
// kernel kills it when the thread that forked it ends, and this thread lives as long as it does.
package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Build builds the program into a directory, as users get it: static and without the race detector.
func Build(dir string, tags ...string) (string, error) {
	path := filepath.Join(dir, strings.Join(append([]string{"grapnel"}, tags...), "-"))
	return path, Link(path, "", "github.com/grapnelhq/grapnel/cmd/grapnel", tags...)
}

// Link builds a command of the module in a directory; empty: of this one. Go keeps what `go run`
// has linked, so the next test that asks for it, in another process too, gets a copy at once.
func Link(path, module, command string, tags ...string) error {
	cmd := exec.Command("go", "run", "-exec", "cp", "-tags", strings.Join(tags, ","), command, path)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", command, err, out)
	}
	return nil
}

// Chromium finds the browser under the names that distributions give it. The shell has no window and
// takes half of the processor time.
func Chromium() (string, error) {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("this needs chromium: make needs installs it")
}

// Process is one run of a program.
type Process struct {
	PID  int
	Done chan struct{} // closed at its end
	Err  error         // its end, as exec.Cmd.Wait says it; set before Done is closed
}

// Start starts a command.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	p := &Process{Done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.PID = cmd.Process.Pid
		started <- nil
		p.Err = cmd.Wait()
		close(p.Done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %v: %w", cmd.Args, err)
	}
	return p, nil
}

// Kill ends the process without warning and waits for its end.
func (p *Process) Kill() {
	_ = syscall.Kill(p.PID, syscall.SIGKILL) // it fails if the process has just ended by itself
	<-p.Done
}

// Stop asks the process to end and waits for its end.
func (p *Process) Stop() {
	if !p.Ended() {
		_ = syscall.Kill(p.PID, syscall.SIGTERM) // it fails if the process has just ended by itself
	}
	<-p.Done
}

// Ended says whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// addresses counts the addresses that UnusedAddress has tried.
var addresses atomic.Int64

// UnusedAddress returns an address of loopback that stays free while its server is down. The kernel
// gives ports above 32767 to connections and to listeners on port 0; this one is below.
//
// No process is forked between listening and closing: until it execs, a child has a copy of the
// socket, and connections to the address would be accepted after this function has returned.
//
// The first use of os for a process forks once without that lock, to see whether the kernel has
// pidfds: it is made to do so before.
func UnusedAddress() (string, error) {
	const from, ports = 20_000, 12_000
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Release()
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for range ports {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", from+(int64(os.Getpid())*101+addresses.Add(1))%ports))
		if err != nil {
			continue
		}
		return listener.Addr().String(), listener.Close()
	}
	return "", errors.New("all ports are in use")
}

// Server is one run of the program as a server on loopback.
type Server struct {
	*Process
	Addr string
	log  string // a file
}

// Serve runs a binary as a server with an admin key, and waits until it is ready. It may deliver to
// loopback. Its output is appended to a file in dir. An interrupt at the terminal does not reach
// it: the program that started it stops it.
func Serve(ctx context.Context, binary, key, dir string, flags ...string) (*Server, error) {
	addr, err := UnusedAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "server.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	//nolint:gosec // it runs the binary that the caller names
	cmd := exec.Command(binary, append([]string{"serve", "--listen", addr, "--egress-allow", "127.0.0.0/8"}, flags...)...)
	cmd.Env = append(os.Environ(), "GRAPNEL_ADMIN_KEY="+key)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	s := &Server{Process: p, Addr: addr, log: log.Name()}
	if err := Until(ctx, 30*time.Second, func() (bool, error) {
		resp, err := http.Get(s.URL() + "/readyz")
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	}); err != nil {
		s.Stop()
		return nil, fmt.Errorf("the server does not get ready: %w\n%s", err, s.Words())
	}
	return s, nil
}

// URL is the server's address as clients take it.
func (s *Server) URL() string { return "http://" + s.Addr }

// Words is the end of the server's output.
func (s *Server) Words() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// Until polls until a condition holds.
func Until(ctx context.Context, within time.Duration, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
