package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/grapnelhq/grapnel/client"
)

// adminKey is the key of servers on loopback that live for one check.
const adminKey = "grp_interop-only-on-loopback"

// server is a running Grapnel.
type server struct {
	*client.Client
	base string
	log  string
	cmd  *exec.Cmd
	done chan error
}

// build builds the binary as users get it.
func (l *lab) build(ctx context.Context) error {
	l.binary = filepath.Join(l.dir, "grapnel")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", l.binary, "./cmd/grapnel") //nolint:gosec // our own
	cmd.Dir, cmd.Env = l.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the server: %w\n%s", err, out)
	}
	return nil
}

// serve starts a server and waits until it is ready.
func (l *lab) serve(ctx context.Context, store string, flags ...string) (*server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(l.dir, "server-*.log")
	if err != nil {
		return nil, err
	}
	s := &server{base: "http://" + addr, log: log.Name(), done: make(chan error, 1)}
	if s.Client, err = client.New(client.Options{Server: s.base, Key: adminKey}); err != nil {
		return nil, err
	}
	// our own
	flags = append([]string{"serve", "--listen", addr, "--store", store, "--egress-allow", "127.0.0.0/8"}, flags...)
	s.cmd = exec.CommandContext(ctx, l.binary, flags...) //nolint:gosec
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.dir, "GRAPNEL_ADMIN_KEY=" + adminKey}
	s.cmd.Dir = l.dir // where a node of PostgreSQL keeps its session key
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { s.done <- errors.Join(s.cmd.Wait(), log.Close()) }()
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, s.words()), s.stop())
	}
	return s, nil
}

func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/readyz", nil); err != nil {
			return err
		} else if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-again.C:
		case err := <-s.done:
			s.done <- err
			return fmt.Errorf("the server ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w", ctx.Err())
		}
	}
}

// stop ends the server as an operator does. It returns an error if the server reports an unclean
// end.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case err := <-s.done:
		s.done <- err
		return err
	case <-timer.C:
		return errors.Join(errors.New("the server does not end"), s.cmd.Process.Kill(), <-s.done)
	}
}

// words are the last lines of the server's log.
func (s *server) words() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}
