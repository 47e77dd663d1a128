//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/e2e/process"
)

// adminKey is the key of both sides; only loopback sees it.
const adminKey = "grp_shots-only-on-loopback"

// server is the real binary.
type server struct {
	process *process.Process
	addr    string
}

// start runs the binary on a database and waits until it is ready.
func start(ctx context.Context, binary, store, dir string) (*server, error) {
	addr, err := process.UnusedAddress()
	if err != nil {
		return nil, err
	}
	g := &server{addr: addr}
	name := filepath.Join(dir, strings.ReplaceAll(addr, ":", "-")+".log")
	log, err := os.Create(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	//nolint:gosec // it runs the binary that the flags name
	cmd := exec.Command(binary, "serve", "--listen", g.addr, "--store", store, "--egress-allow", "127.0.0.0/8")
	cmd.Env = append(os.Environ(), "GRAPNEL_ADMIN_KEY="+adminKey)
	cmd.Stdout, cmd.Stderr = log, log
	if g.process, err = process.Start(cmd); err != nil {
		return nil, err
	}
	if err = until(ctx, 30*time.Second, func() (bool, error) {
		resp, err := http.Get(g.url() + "/readyz")
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	}); err != nil {
		g.stop()
		said, _ := os.ReadFile(filepath.Clean(name))
		return nil, fmt.Errorf("the server is not ready: %w\n%s", err, said)
	}
	return g, nil
}

func (g *server) url() string { return "http://" + g.addr }

func (g *server) client() (*client.Client, error) {
	return client.New(client.Options{Server: g.url(), Key: adminKey})
}

// stop ends the server and waits for it.
func (g *server) stop() {
	_ = syscall.Kill(g.process.PID, syscall.SIGTERM) // it fails if the server has ended
	<-g.process.Done
}

var errLate = errors.New("deadline exceeded")

// until asks ten times a second until the answer is yes.
func until(ctx context.Context, within time.Duration, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errLate)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := is()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
