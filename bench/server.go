//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// bearer is the key of both sides; nothing but loopback ever sees it.
const bearer = "grp_bench-only-on-loopback"

// server is the real binary at work.
type server struct {
	process *process.Process
	addr    string
	log     string // a file
}

// prepare makes the directory of a measurement, inspects its disk, and builds the binary unless one
// is named. With stays, a directory that is named is used as it is, and remove leaves it. Without a
// name it is below the current directory, since temporary directories are often in memory.
func (s *settings) prepare(name string, stays bool) (dir string, d disk, remove func() error, err error) {
	// PostgreSQL works in its own directory, so the path of its socket is absolute.
	at, err := filepath.Abs(s.dir)
	if err != nil {
		return "", d, nil, err
	}
	made := ""
	if stays && s.dir != "" {
		dir, err = at, os.MkdirAll(at, 0o700)
	} else {
		made, err = os.MkdirTemp(at, "grapnel-"+name+"-")
		dir = made
	}
	remove = func() error { return os.RemoveAll(made) } // without a name it removes nothing
	if err == nil {
		d, err = inspect(dir)
	}
	if err == nil && s.binary == "" {
		s.binary, err = process.Build(dir)
	}
	if err != nil {
		err = errors.Join(err, remove())
	}
	return dir, d, remove, err
}

// startServer runs the binary with a new database in dir, and creates the endpoints.
func startServer(ctx context.Context, s settings, dir string, urls []string) (*server, error) {
	addr, err := process.UnusedAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(s.binary, "serve", "--listen", addr, "--store", "sqlite:"+filepath.Join(dir, "grapnel.db"), "--egress-allow",
		"127.0.0.0/8", "--metrics-open")
	cmd.Args = append(cmd.Args, s.flags...)
	cmd.Env = append(os.Environ(), "GRAPNEL_ADMIN_KEY="+bearer)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt goes to the benchmark, which stops the server
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	g := &server{process: p, addr: addr, log: log.Name()}
	if err := g.settle(ctx, s, urls); err != nil {
		g.stop()
		return nil, fmt.Errorf("%w\n%s", err, g.words())
	}
	return g, nil
}

// settle waits until the server is ready, and creates the endpoints.
func (g *server) settle(ctx context.Context, s settings, urls []string) error {
	if err := waitFor(ctx, 30*time.Second, func() (bool, error) {
		resp, err := http.Get("http://" + g.addr + "/readyz")
		if err != nil {
			return false, nil // not yet
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	}); err != nil {
		return fmt.Errorf("the server does not get ready: %w", err)
	}
	for _, url := range urls {
		if err := g.send(ctx, http.MethodPost, "/v1/endpoints", map[string]any{"url": url, "max_concurrency": s.workers}, nil); err != nil {
			return err
		}
	}
	return nil
}

// send makes a request to the API, with in as its body unless that is nil. Its answer is read to
// its end, and decoded into out unless that is nil.
func (g *server) send(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+g.addr+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return &refused{status: resp.StatusCode, text: fmt.Sprintf("%s %s was answered %s: %s", method, path, resp.Status, answer)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// refused is an answer other than 2xx.
type refused struct {
	status int
	text   string
}

func (r *refused) Error() string { return r.text }

// cpu is the processor time that the server has used, as the kernel counts it.
func (g *server) cpu() (time.Duration, error) {
	p, err := lookAt(g.process.PID)
	return p.used, err
}

// written is how many bytes the server has written to devices.
func (g *server) written() (int64, error) { return writtenBy(g.process.PID) }

func (g *server) memory() (memory, error) { return memoryOf(g.process.PID) }

// stop ends the server and waits for it.
func (g *server) stop() {
	if !g.process.Ended() {
		_ = syscall.Kill(g.process.PID, syscall.SIGTERM) // it fails if the server has just ended by itself
	}
	<-g.process.Done
}

// words is the end of the server's output.
func (g *server) words() string {
	text, err := os.ReadFile(g.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// waitFor polls until the condition holds.
func waitFor(ctx context.Context, within time.Duration, holds func() (bool, error)) error {
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
