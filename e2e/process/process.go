//go:build linux

// Package process builds the program and runs it, for tests and measurements that look at the real
// binary from the outside.
//
// A process that it starts ends at the latest with the one that started it, however that ends: the
// kernel kills it when the thread that forked it ends, and this thread lives as long as it does.
package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
)

// Build builds the program into a directory, as users get it: static and without the race detector.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, "grapnel")
	cmd := exec.Command("go", "build", "-o", path, "github.com/grapnelhq/grapnel/cmd/grapnel")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the binary: %w\n%s", err, out)
	}
	return path, nil
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
func UnusedAddress() (string, error) {
	const from, ports = 20_000, 12_000
	for range ports {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", from+(int64(os.Getpid())*101+addresses.Add(1))%ports))
		if err != nil {
			continue
		}
		return listener.Addr().String(), listener.Close()
	}
	return "", errors.New("all ports are in use")
}
